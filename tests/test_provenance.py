"""Provenance: what a sidecar becomes as an in-toto statement, and what never stands in one."""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mobuild.report.provenance import statement
from tests.projects import recipe_project

SHA256, QUICK = "a" * 64, "b" * 32
SIDECAR = {
    "schema": 1,
    "recipe": "det",
    "variant": "l20+2GiB",
    "node": "engine",
    "kind": "build_engine",
    "key": "c" * 32,
    "digest": QUICK,
    "sha256": SHA256,
    "size_bytes": 12,
    "created": "2026-11-30T08:10:43+00:00",
    "seconds": 3.5,
    "mobuild": "0.1.0",
    "started": "2026-11-30T09:10:39+01:00",
    "fingerprint": {
        "kind": "build_engine",
        "revision": 2,
        "params": {"workspace": 1 << 30, "raw": {}, "exclude": ["*/head/*"], "ratio": 0.5, "note": None},
        "inputs": {"model": "d" * 32},
        "code": {"det": "e" * 32},
        "toolchain": {"tensorrt-rtx-cu13": "1.7.0"},
    },
    "conditions": [
        {"kind": "file", "name": "recipes/words.txt", "value": "f" * 64},
        {"kind": "file", "name": "recipes/gone.txt", "value": "-"},
        {"kind": "environment", "name": "HOME", "value": "1" * 64},
        {"kind": "distribution", "name": "numpy", "version": "", "value": "2.1.0"},
    ],
    "inputs": {"model": {"node": "quantized", "sha256": "2" * 64, "is_folder": False}},
}


def test_a_sidecar_becomes_a_statement() -> None:
    assert statement(SIDECAR, "engine.plan") == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "engine.plan", "digest": {"sha256": SHA256}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "pkg:pypi/mobuild#node/v1",
                "externalParameters": {
                    "recipe": "det",
                    "variant": "l20+2GiB",
                    "target": "engine",
                    "kind": "build_engine",
                    "parameters": SIDECAR["fingerprint"]["params"],  # type: ignore[index]
                },
                "internalParameters": {"revision": 2, "tools": {"numpy": "2.1.0", "tensorrt-rtx-cu13": "1.7.0"}},
                "resolvedDependencies": [
                    {
                        "name": "quantized",
                        "digest": {"sha256": "2" * 64, "xxh3_128": "d" * 32},
                        "annotations": {"mobuild_role": "model"},
                    },
                    {
                        "name": "det",
                        "digest": {"mobuildSyntax": "e" * 32},
                        "annotations": {"mobuild_role": "code"},
                    },
                    {
                        "name": "recipes/words.txt",
                        "digest": {"sha256": "f" * 64},
                        "annotations": {"mobuild_role": "observed"},
                    },
                ],
            },
            "runDetails": {
                "builder": {"id": "pkg:pypi/mobuild", "version": {"mobuild": "0.1.0"}},
                "metadata": {
                    "invocationId": "c" * 32,
                    "startedOn": "2026-11-30T08:10:39Z",
                    "finishedOn": "2026-11-30T08:10:43Z",
                },
            },
        },
    }


def test_a_statement_fits_the_schema_also_when_little_is_known() -> None:
    bare = {key: SIDECAR[key] for key in ("key", "sha256", "fingerprint")}

    check(statement(SIDECAR, "engine.plan"), STATEMENT)
    check(statement(bare, "engine.plan"), STATEMENT)
    check(statement({**bare, "is_folder": True}, "engine"), STATEMENT)


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("/home/alice/models/det.pt", "det.pt"),
        ("cp /home/alice/a.pt '/srv/x y/b.pt' {out}", "cp a.pt 'x y/b.pt' {out}"),
        ("--weights=/home/alice/a.pt", "--weights=a.pt"),
        ("~alice/a.pt", "a.pt"),
        ("cd /home/alice", "cd ~"),
        ("file:///home/alice/a.pt", "a.pt"),
        ("https://alice:pw@example.org/a/b.pt?X-Amz-Signature=abc", "https://example.org/a/b.pt"),
        ("s3://bucket/models/a.pt", "s3://bucket/models/a.pt"),
        ("https://example.org/home/models/a.pt", "https://example.org/home/models/a.pt"),
        ("s3://home/alice/a.pt", "s3://home/alice/a.pt"),
        ("weights/home/alice/a.pt", "weights/home/alice/a.pt"),
        ("cc -I/opt/inc -L/home/alice '-I/home/alice/inc'", "cc -Iinc -L~ '-Iinc'"),
        ("curl -d @/home/alice/a.json", "curl -d @~/a.json"),
        ("Bearer hunter2hunter2", "Bearer <HUB_TOKEN>"),
        ("*/head/*", "*/head/*"),
        ("models/det.pt", "models/det.pt"),
        ("1 / 2", "1 / 2"),
    ],
)
def test_what_tells_of_the_machine_or_its_user_is_left_out(text: str, public: str) -> None:
    fingerprint: Mapping[str, Any] = SIDECAR["fingerprint"]  # type: ignore[assignment]
    document = {**SIDECAR, "fingerprint": {**fingerprint, "params": {"value": [text], text: 1}}}

    said = statement(document, "engine.plan", {"hunter2hunter2": "HUB_TOKEN"})

    parameters = said["predicate"]["buildDefinition"]["externalParameters"]["parameters"]
    assert parameters == {"value": [public], public: 1}


def test_names_of_files_outside_the_project_are_short() -> None:
    seen = {"kind": "file", "name": "/home/alice/words.txt", "value": "f" * 64}

    said = statement({**SIDECAR, "conditions": [seen]}, "/home/alice/build/engine.plan")

    assert said["subject"][0]["name"] == "engine.plan"
    assert said["predicate"]["buildDefinition"]["resolvedDependencies"][-1]["name"] == "words.txt"
    assert "alice" not in json.dumps(said)


def test_a_real_sidecar_and_its_record_say_the_same_of_the_artifact(tmp_path: Path) -> None:
    nodes = f"""\
  data: {{kind: source, uri: data.txt}}
  copy: {{kind: command, cmd: "cp {{in.data}} {{out}}", in: {{data: data}}, out: .txt}}
  last: {{kind: command, cmd: "sh -c 'cat {{in.copy}} > {{out}}; : {tmp_path}'", in: {{copy: copy}}, out: .txt}}
"""
    project = recipe_project(tmp_path, nodes, {"data.txt": "one"})
    project.mobuild("target=[copy,last]")
    sha256 = hashlib.sha256(b"one").hexdigest()
    folder = project.root / "build/small/cpu"
    copy, last = (json.loads((folder / f"{name}.txt.json").read_text()) for name in ("copy", "last"))
    (record,) = project.cache.glob(f"records/*/{last['key']}/plain.json")

    said = {
        "copy": statement(copy, "copy.txt"),
        "last": statement(last, "last.txt"),
        "record": statement(json.loads(record.read_text()), "last.txt"),
    }

    for one in said.values():
        check(one, STATEMENT)
        assert one["subject"][0]["digest"] == {"sha256": sha256}
        for private in (str(tmp_path), platform.node(), f"{getpass.getuser()}@"):
            assert private not in json.dumps(one)
    for name, maker in (("copy", "data"), ("last", "copy")):
        (given,) = said[name]["predicate"]["buildDefinition"]["resolvedDependencies"]
        assert (given["name"], given["digest"]["sha256"]) == (maker, sha256)
    assert said["record"]["predicate"]["runDetails"] == said["last"]["predicate"]["runDetails"]


def test_a_source_that_is_gone_when_the_sidecar_is_written_is_named_without_its_sha256(tmp_path: Path) -> None:
    nodes = """\
  data: {kind: source, uri: data.txt}
  copy: {kind: command, cmd: "cp {in.data} {out}", in: {data: data}, out: .txt}
  last: {kind: command, cmd: "sh -c 'rm data.txt; cp {in.copy} {out}'", in: {copy: copy}, out: .txt}
"""
    project = recipe_project(tmp_path, nodes, {"data.txt": "one"})

    project.mobuild("target=[copy,last]")

    sidecar = json.loads((project.root / "build/small/cpu/copy.txt.json").read_text())
    assert sidecar["inputs"] == {"data": {"node": "data"}}


# Written after the specifications, stricter than they are: no other field may appear.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
URI = re.compile(r"[a-z][a-z0-9+.-]*:\S+")
RESOURCE = {
    "name": str,
    "digest": {re.compile(r"sha256|mobuildFolder"): re.compile(r"[0-9a-f]{64}"), str: re.compile(r"[0-9a-f]{32}")},
    "annotations?": {"mobuild_role": str},
}
STATEMENT = {
    "_type": re.compile(r"https://in-toto\.io/Statement/v1"),
    "subject": [RESOURCE],
    "predicateType": re.compile(r"https://slsa\.dev/provenance/v1"),
    "predicate": {
        "buildDefinition": {
            "buildType": URI,
            "externalParameters": {
                "recipe?": str,
                "variant?": str,
                "target?": str,
                "kind": str,
                "parameters": {str: object},
            },
            "internalParameters": {"revision": int, "tools": {str: str}},
            "resolvedDependencies": [RESOURCE],
        },
        "runDetails": {
            "builder": {"id": URI, "version?": {"mobuild": str}},
            "metadata": {"invocationId": str, "startedOn?": TIME, "finishedOn?": TIME},
        },
    },
}


def check(value: Any, schema: Any) -> None:
    """`value` is what `schema` says: a type, a pattern, a list of one schema, or an object by its fields.

    A field with `?` may be missing; a type or a pattern as a field stands for all others.
    """
    if isinstance(schema, dict):
        assert isinstance(value, dict)
        named = {key.rstrip("?"): each for key, each in schema.items() if isinstance(key, str)}
        assert {key for key in schema if isinstance(key, str) and not key.endswith("?")} <= value.keys()
        for key, item in value.items():
            check(item, named[key] if key in named else _other(key, schema))
    elif isinstance(schema, list):
        assert isinstance(value, list)
        for item in value:
            check(item, schema[0])
    elif isinstance(schema, re.Pattern):
        assert isinstance(value, str) and schema.fullmatch(value), (value, schema)
    else:
        assert isinstance(value, schema), (value, schema)


def _other(key: str, schema: Mapping[Any, Any]) -> Any:
    for wanted, each in schema.items():
        if wanted is str or (isinstance(wanted, re.Pattern) and wanted.fullmatch(key)):
            return each
    raise AssertionError(f"unexpected field {key!r}")
