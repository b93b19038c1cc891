"""A kind whose fields or code change must get a new revision, or the change must be said to be harmless."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mobuild.nodes
from tests.golden_kinds import GOLDEN, described, of_images

HOW = (
    "its {what} changed and its revision did not: raise `revision` if the same inputs may now give other bytes, "
    "then run `python -m tests.golden_kinds`"
)


@pytest.mark.parametrize("name", sorted(described()))
def test_a_changed_kind_has_a_new_revision(name: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    now = described()[name]

    assert name in golden, "a new kind: run `python -m tests.golden_kinds`"
    before = golden[name]
    changed = [what for what in ("fields", "code") if before[what] != now[what]]
    assert not changed, f"{name}: {HOW.format(what=' and '.join(changed))}"
    assert before["revision"] == now["revision"], "run `python -m tests.golden_kinds`"


def test_no_kind_was_lost() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(described())


def test_the_kinds_of_images_are_watched_with_what_writes_images() -> None:
    nodes = Path(mobuild.nodes.__path__[0])

    watched = {path.stem for path in of_images(nodes / "image_layers.py")}

    assert {"layers", "tree", "debian", "wheels", "bytecode", "bases", "locked"} <= watched
    assert {"selftest", "model"} <= {path.stem for path in of_images(nodes / "image_model.py")}
    assert of_images(nodes / "source.py") == set()
