"""The form of the tables of facts; what is read from them stands in the files beside this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mobuild import facts
from mobuild.facts import load, order
from mobuild.facts.capabilities import Capability, capability
from mobuild.facts.features import Feature
from mobuild.facts.releases import (
    releases,
)
from mobuild.onnxmodel import branches, signs

FILES = sorted(path.stem for path in Path(facts.__file__).parent.glob("*.yaml"))
VERSIONS = ("version", "sm_min", "sm_max", "capability", "since", "deprecated", "removed", "until", "driver", "major")


def tables(name: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    return ((table, rows) for table, rows in load(name).items() if isinstance(rows, list))


@pytest.mark.parametrize("name", FILES)
def test_every_row_has_a_source_a_confidence_and_quoted_versions(name: str) -> None:
    for table, rows in tables(name):
        for row in rows:
            where = f"{name}.yaml, {table}: {row}"
            assert row["source"], where
            assert row["confidence"] in ("S", "D", "M", "K", "?"), where
            assert set(row.get("uncertain", ())) <= set(row), where
            assert all(isinstance(row.get(key, ""), str) for key in VERSIONS), where


@pytest.mark.parametrize("name", FILES)
def test_versions_run_upwards_in_every_table(name: str) -> None:
    for table, rows in tables(name):
        versions = [order(row["version"]) for row in rows if "version" in row and "capability" not in row]
        assert versions == sorted(set(versions)), f"{name}.yaml, {table}"


def test_every_release_has_a_range_or_a_list_of_capabilities_that_are_known() -> None:
    for each in releases("tensorrt"):
        assert order(each.sm_min) < order(each.sm_max)
        assert each.opset and each.opset[0] <= each.opset[1]
    for each in releases("tensorrt_rtx"):
        assert set(each.runs) <= set(each.builds)
        assert all(capability(one) for one in each.builds)


@pytest.mark.parametrize(("file", "table"), [("trtexec", "flags"), ("tensorrt_api", "features")])
def test_what_goes_away_is_deprecated_first_and_named_once(file: str, table: str) -> None:
    rows = facts.rows(Feature, file, table)
    names = [each.name for each in rows]

    assert len(names) == len(set(names))
    for each in rows:
        stages = [order(stage) for stage in (each.since, each.deprecated, each.removed) if stage]
        assert stages == sorted(stages), each.name
        assert each.instead or not (each.deprecated or each.removed), each.name


def test_every_operator_stands_in_one_place() -> None:
    facts_of = load("operators")
    taken = [name for row in facts_of["since"] for name in row["operators"]]
    typed = [name for row in facts_of["types"] for name in row["operators"]]
    refused = [name for row in facts_of["unsupported"] for name in row["operators"]]
    restricted = {name for row in facts_of["restrictions"] for name in row["operators"]}

    assert len(taken) == len(set(taken))
    assert len(typed) == len(set(typed))
    assert not set(taken) & set(refused)
    assert set(typed) | restricted <= set(taken)


def test_tables_are_read_with_the_fields_of_their_rows() -> None:
    assert {each.capability for each in facts.rows(Capability, "capabilities", "capabilities")} >= {"6.1", "12.1"}


def test_every_sign_of_a_restriction_is_one_that_summaries_have() -> None:
    known = Path(signs.__file__).read_text() + Path(branches.__file__).read_text()
    rows = [*load("operators")["restrictions"], *load("tensorrt_rtx")["restrictions"]]

    assert [row["sign"] for row in rows if row.get("sign") and row["sign"].split("_ranks_")[0] not in known] == []
