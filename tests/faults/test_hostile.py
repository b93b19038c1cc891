"""Files that somebody made up: nothing of them runs, and nothing is written or read outside of its place."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mobuild.fingerprint import canonical, digest_bytes
from mobuild.store import Condition
from mobuild.store.listing import MAGIC
from mobuild.store.record import file_name
from tests.faults.damages import PICKLE
from tests.faults.steps import NODES, Steps, record_files, steps_project
from tests.projects import Project, recipe_project


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    made = steps_project(tmp_path)
    for name, value in {**made.env, "PWNED": str(tmp_path / "pwned")}.items():
        monkeypatch.setenv(name, value)
    assert made.build() == set(NODES)
    return made


def test_the_bait_works(tmp_path: Path) -> None:
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"

    subprocess.run([sys.executable, "-c", code], input=PICKLE, env={**os.environ, "PWNED": str(tmp_path / "pwned")})

    assert (tmp_path / "pwned").exists()


def test_pickle_bytes_in_place_of_every_file_do_nothing(steps: Steps, tmp_path: Path) -> None:
    wanted = steps.artifacts()
    steps.project.mobuild("target=[last,pair]", env=steps.env)  # leaves an answer
    for root in (steps.project.cache, steps.project.root / "build"):
        for path in [path for path in root.rglob("*") if path.is_file() and path.name != "format"]:
            path.unlink()
            path.write_bytes(PICKLE)

    done = steps.project.mobuild("target=[last,pair]", env={**steps.env, "PWNED": str(tmp_path / "pwned")})

    assert "4 built, 1 fresh" in done.err
    assert steps.artifacts() == wanted
    assert not (tmp_path / "pwned").exists()


NAMES = [
    "../evil",
    "../../../../evil",
    "/tmp/mobuild-evil",
    "sub/../../evil",
    "",
    ".",
    "sub//evil",
    "evil\0",
    "a.bin/x",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_listing_with_a_name_outside_of_its_folder_is_built_anew(steps: Steps, tmp_path: Path, name: str) -> None:
    wanted = steps.artifacts()
    (place,) = [path for path in record_files(steps.project.cache) if '"is_folder": true' in path.read_text()]
    record = json.loads(place.read_text())
    listing = record["artifact"]["digest"]
    members = json.loads(_object(steps, listing).read_bytes().removeprefix(MAGIC))
    members[name] = members["a.bin"]
    forged = MAGIC + canonical(members)
    record["artifact"]["digest"] = digest_bytes(forged)
    _object(steps, digest_bytes(forged)).parent.mkdir(exist_ok=True)
    _object(steps, digest_bytes(forged)).write_bytes(forged)
    _write_record(place, record)
    before = _everything(tmp_path)

    ran = steps.build()

    assert "pair" in ran
    assert steps.artifacts() == wanted
    assert {path.name for path in _everything(tmp_path) - before} & {"evil", "mobuild-evil", "x"} == set()
    assert not Path("/tmp/mobuild-evil").exists()


FORGED = {
    "artifact": {"digest": "../../../../secret"},
    "log": "../../../../../secret",
    "suffix": "/../../../evil",
    "key": "0" * 32,
}


@pytest.mark.parametrize("field", FORGED)
def test_a_record_that_leads_out_of_the_store_is_a_miss(steps: Steps, tmp_path: Path, field: str) -> None:
    (tmp_path / "secret").write_text("secret")
    for place in record_files(steps.project.cache):
        record = json.loads(place.read_text())
        value = FORGED[field]
        record[field] = {**record[field], **value} if isinstance(value, dict) else value
        _write_record(place, record)

    log = steps.project.mobuild("log", "last", env=steps.env, check=False)
    ran = steps.build()

    assert log.out == "" and log.status == 1
    assert ran == set(NODES)
    assert (tmp_path / "secret").read_text() == "secret"
    assert not list(tmp_path.rglob("evil*"))


CONDITIONS = [
    Condition("file", "a\0b", "x"),
    Condition("folder", "a\0b", "x"),
    Condition("file", "/dev/zero", "x"),
    Condition("module", "/dev/zero", "x"),
    Condition("module", "broken.py", "x"),
    Condition("environment", "A=\0", "x"),
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: f"{one.kind} {one.name!r}")
def test_a_condition_that_cannot_be_looked_at_does_not_hold(steps: Steps, condition: Condition) -> None:
    steps.project.write("broken.py", "def (")
    for place in record_files(steps.project.cache):
        _write_record(place, {**json.loads(place.read_text()), "conditions": [dataclasses.asdict(condition)]})
        place.rename(place.with_name(file_name([condition])))

    assert steps.build() == set(NODES)


def _object(steps: Steps, digest: str) -> Path:
    return steps.project.cache / "objects" / digest[:2] / digest[2:]


def _write_record(place: Path, record: dict[str, object]) -> None:
    record.pop("checksum")
    record["checksum"] = digest_bytes(json.dumps(record, sort_keys=True).encode())
    place.unlink()
    place.write_text(json.dumps(record))


def _everything(root: Path) -> set[Path]:
    return set(root.rglob("*"))


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "sub/../../secret.bin"])
def test_a_model_whose_data_leave_its_folder_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    _write_model(tmp_path / "project" / "evil.onnx", location)
    project = Project(tmp_path / "project", tmp_path / "cache")

    done = project.mobuild("target=sanitized", "model=evil.onnx", check=False)

    assert done.status == 1
    assert f"external data location {location!r} leaves the model's folder" in done.errors[0]


def _write_model(path: Path, location: str) -> None:
    from onnx import TensorProto, helper

    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [value], [out], [weight])
    path.parent.mkdir(parents=True)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())


PINS = [PICKLE, b"", b"[]", b'{"schema": 1, "sources": ' + b"[" * 200_000, b'{"schema": 1, "sources": {"a": 7}}']


@pytest.mark.parametrize("content", PINS, ids=range(len(PINS)))
def test_a_lock_file_of_junk_is_named(tmp_path: Path, content: bytes) -> None:
    project = recipe_project(tmp_path, "  data: {kind: source, uri: 'file:///nowhere'}\n")
    (project.root / "recipes/small.lock").write_bytes(content)

    done = project.mobuild("target=data", check=False)

    assert done.status == 1
    assert done.errors[0].startswith(f"lock file '{project.root}/recipes/small.lock': cannot be read: ")


RUNS = [
    PICKLE,
    b'{"nodes": ' + b"[" * 200_000,
    b'{"nodes": {"last": 7}}',
    b'{"nodes": {"last": {"log": 7}, "one": []}}',
]


@pytest.mark.parametrize("content", RUNS, ids=range(len(RUNS)))
def test_a_run_json_of_junk_is_no_run(steps: Steps, content: bytes) -> None:
    (steps.build_folder / "run.json").write_bytes(content)

    shown = steps.project.mobuild("log", "last", env=steps.env)
    missing = steps.project.mobuild("log", "data", env=steps.env, check=False)

    assert shown.out == "building last\n"
    assert missing.status == 1 and "'data' has no log" in missing.errors[0]
