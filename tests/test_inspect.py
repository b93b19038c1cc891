"""`mobuild inspect`: whatever file it is given, what that was made of; and what it does not know."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.projects import Project, recipe_project, toy_project

NODES = """\
  text: {kind: source, uri: text.txt}
  prep:
    kind: command
    cmd: "sh -c 'mkdir -p $1; cat $0 $0 > $1/a; echo said' {in.text} {out}"
    in: {text: text}
    out: folder
  end: {kind: command, cmd: "sh -c 'mkdir -p $1; cp $0/a $1' {in.m} {out}", needs: {m: prep}, out: folder}
  copy: {kind: command, cmd: "sh -c 'cat $0 $0 $0 > $1; cat more' {in.text} {out}", in: {text: text}, out: .txt}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = recipe_project(tmp_path_factory.mktemp("inspect"), NODES, {"text.txt": "one\n", "more": "more\n"})
    project.mobuild("target=[prep,copy]")
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    return built.copy(tmp_path)


def inspect(project: Project, path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(project.mobuild("inspect", str(path), "format=json").out)
    return document


def sidecar(project: Project, name: str = "copy.txt") -> dict[str, Any]:
    document: dict[str, Any] = json.loads((project.root / f"build/small/cpu/{name}.json").read_text())
    return document


def object_of(project: Project, digest: str) -> Path:
    return project.cache / "objects" / digest[:2] / digest[2:]


@pytest.mark.parametrize("place", ["artifact", "sidecar", "object", "record", "copy", "moved sidecar"])
def test_every_form_of_an_artifact_tells_the_same(project: Project, tmp_path: Path, place: str) -> None:
    known = sidecar(project)
    made = project.root / "build/small/cpu/copy.txt"
    path = {
        "artifact": made,
        "sidecar": made.with_name("copy.txt.json"),
        "object": object_of(project, known["digest"]),
        "record": next((project.cache / "records").rglob(f"{known['key']}/*.json")),
        "copy": Path(shutil.copy(made, tmp_path / "anything.bin")),
        "moved sidecar": Path(shutil.copy(made.with_name("copy.txt.json"), tmp_path / "x.json")),
    }[place]

    told = inspect(project, path)

    assert (told["path"], told["is"]) == (str(path), "artifact")
    assert told["nodes"] == [{"recipe": "small", "variant": "cpu", "node": "copy"}]
    for name in ("kind", "key", "digest", "sha256", "size_bytes", "created", "seconds", "warnings", "conditions"):
        assert told[name] == known[name], name
    assert told["inputs"] == {"text": {"digest": known["fingerprint"]["inputs"]["text"], "from": ""}}
    assert all(Path(source).exists() for source in told["from"])


def test_a_member_of_a_folder_and_a_log_are_known_by_their_content(project: Project, tmp_path: Path) -> None:
    shutil.copy(project.root / "build/small/cpu/prep/a", tmp_path / "member")
    (tmp_path / "log").write_text(project.mobuild("log", "prep").out)

    assert inspect(project, tmp_path / "member")["is"] == "member a"
    assert inspect(project, tmp_path / "log")["is"] == "log"
    assert inspect(project, project.root / "build/small/cpu/prep")["is"] == "artifact"


def test_an_input_is_named_by_the_node_that_made_it(project: Project) -> None:
    project.mobuild("target=end")

    told = inspect(project, project.root / "build/small/cpu/end")

    assert told["inputs"] == {"m": {"digest": sidecar(project, "prep")["digest"], "from": "small/cpu prep"}}
    # the same bytes: made by one node, copied by the other
    assert [other.split(" (")[0] for other in told["also"]] == ["small/cpu prep"]


def test_every_project_of_a_shared_cache_that_stands_for_it_is_named(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other", project.cache)
    shutil.copytree(project.root / "recipes", other.root / "recipes")
    (other.root / "recipes/small.yaml").rename(other.root / "recipes/twin.yaml")
    for name in ("text.txt", "more"):
        shutil.copy(project.root / name, other.root / name)
    assert other.built("target=copy", recipe="twin") == set()

    nodes = inspect(project, object_of(project, sidecar(project)["digest"]))["nodes"]

    assert {node["recipe"] for node in nodes} == {"small", "twin"}


def test_what_the_cache_has_forgotten_the_sidecar_still_tells(project: Project) -> None:
    shutil.rmtree(project.cache / "records")

    told = inspect(project, project.root / "build/small/cpu/copy.txt")

    assert told["key"] == sidecar(project)["key"]
    assert told["from"] == [f"{project.root}/build/small/cpu/copy.txt.json"]


def test_an_artifact_that_was_edited_is_unknown_and_the_message_says_so(project: Project) -> None:
    path = project.root / "build/small/cpu/copy.txt"
    path.write_text("edited\n")

    done = project.mobuild("inspect", str(path), check=False)

    assert done.status == 1
    assert done.errors[0].startswith(f"'{path}': nobody knows this content (digest ")
    assert f"it was changed since it was built: '{path}.json' says {sidecar(project)['digest']}" in done.errors[0]


def test_a_damaged_object_is_told_of_with_a_note(project: Project) -> None:
    path = object_of(project, sidecar(project)["digest"])
    path.chmod(0o644)
    path.write_text("damaged\n")

    told = inspect(project, path)

    assert told["key"] == sidecar(project)["key"]
    assert told["notes"][0].startswith("the content of this object is damaged")


NO_SIDECARS: dict[str, dict[str, Any]] = {
    "a fingerprint without a kind": {"fingerprint": {}},
    "conditions that are none": {"conditions": [{}]},
    "observers that are no text": {"observed_by": [1]},
    "inputs that are none": {"inputs": {"a": 5}},
    "a list of inputs": {"inputs": [1]},
    "no mapping of what was seen": {"seen": 5},
}


@pytest.mark.parametrize("case", NO_SIDECARS)
def test_a_file_that_only_looks_like_a_sidecar_is_none(project: Project, case: str) -> None:
    project.write("odd.json", json.dumps({**sidecar(project), **NO_SIDECARS[case]}))

    done = project.mobuild("inspect", "odd.json", "format=in-toto", check=False)

    assert done.status == 1
    assert done.errors[0].startswith("'odd.json': nobody knows this content")


def test_pins_and_the_determinism_class_are_shown(project: Project) -> None:
    project.mobuild("pin", "release", "target=copy")
    project.mobuild("verify", "target=copy", "verify.rebuild=true")

    lines = project.mobuild("inspect", "build/small/cpu/copy.txt").out.splitlines()

    assert "  built again  deterministic" in lines
    assert "  pin          release" in lines


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["build/cpu.json"], 1, "'{root}/build/cpu.json': there is no such file."),
        (["txet.txt"], 1, "'{root}/txet.txt': there is no such file. Did you mean 'text.txt'?"),
        (["text.txt"], 1, "'text.txt': nobody knows this content (digest "),
        (["recipes"], 1, "'recipes': nobody knows this content (digest "),
        ([], 2, "inspect: expected one path\n  mobuild inspect PATH tells what that file was made of"),
        (["a", "b"], 2, "inspect: what is 'b'?"),
    ],
)
def test_what_it_cannot_tell_is_said(project: Project, words: list[str], status: int, message: str) -> None:
    done = project.mobuild("inspect", *words, check=False)

    assert done.status == status
    assert done.errors[0].startswith(message.format(root=project.root))


def test_an_engine_tells_its_builder_its_profiles_and_its_precision(tmp_path: Path) -> None:
    project = toy_project(tmp_path)
    project.mobuild("target=engine")

    told = inspect(project, project.root / "build/toy/cpu/engine.onnx")
    text = project.mobuild("inspect", "build/toy/cpu/engine.onnx").out

    measured = told["measurements"]
    assert measured["builder"].startswith("onnxruntime ")
    assert (measured["target"], measured["precision"]) == ("CPUExecutionProvider", ["fp32"])
    assert told["inputs"]["model"]["from"] == "toy/cpu sanitized"
    assert "    profiles: x: 1×8 / 4×8 / 16×8\n" in text
    assert f"    builder: {measured['builder']}\n" in text


@pytest.mark.parametrize("place", ["artifact", "copy", "sidecar", "record"])
def test_a_statement_is_made_of_whatever_knows_the_artifact(project: Project, tmp_path: Path, place: str) -> None:
    known, made = sidecar(project), project.root / "build/small/cpu/copy.txt"
    path, name = {
        "artifact": (made, "copy.txt"),
        "copy": (tmp_path / "else.bin", "else.bin"),
        "sidecar": (made.with_name("copy.txt.json"), "copy.txt"),
        "record": (next((project.cache / "records").rglob(f"{known['key']}/*.json")), "command"),
    }[place]
    shutil.copy(made, tmp_path / "else.bin")

    said = json.loads(project.mobuild("inspect", str(path), "format=in-toto").out)

    definition, details = said["predicate"]["buildDefinition"], said["predicate"]["runDetails"]
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["subject"] == [{"name": name, "digest": {"sha256": known["sha256"]}}]
    assert details["metadata"]["invocationId"] == known["key"]
    assert definition["externalParameters"].get("target") == ("copy" if place in ("artifact", "sidecar") else None)


def test_a_statement_names_secrets_instead_of_telling_them(tmp_path: Path) -> None:
    nodes = """\
  copy: {kind: command, cmd: "sh -c 'echo hunter2hunter2 > $0' {out}", out: .txt}
"""
    project = recipe_project(tmp_path, nodes)
    project.mobuild("target=copy")

    said = project.mobuild(
        "inspect", "build/small/cpu/copy.txt", "format=in-toto", env={"HUB_TOKEN": "hunter2hunter2"}
    ).out

    assert "echo <HUB_TOKEN> >" in said
    assert "hunter2" not in said


def test_a_log_is_not_attested_as_if_it_were_the_artifact(project: Project) -> None:
    known = sidecar(project)
    record = json.loads(next((project.cache / "records").rglob(f"{known['key']}/*.json")).read_text())

    done = project.mobuild("inspect", str(object_of(project, record["log"])), "format=in-toto", check=False)

    assert (done.status, done.out) == (1, "")
    assert "is 'log' of an artifact, and statements are about artifacts as a whole" in done.errors[0]


def test_an_input_is_of_the_same_recipe(tmp_path: Path) -> None:
    """Another recipe, which makes the very bytes of a file of the user's, has not made this one's input."""
    other = "  made: {kind: command, cmd: \"sh -c 'echo one > $0' {out}\", out: .txt}\n"
    project = recipe_project(tmp_path, other, {"text.txt": "one\n"}, name="another")
    end = '{kind: command, cmd: "cp {in.t} {out}", in: {t: text}, out: .txt}'
    project.write("recipes/mine.yaml", f"nodes:\n  text: {{kind: source, uri: text.txt}}\n  end: {end}\n")
    project.mobuild("target=made", "recipe=another")
    project.mobuild("target=end", "recipe=mine")

    told = inspect(project, project.root / "build/mine/cpu/end.txt")

    assert told["inputs"]["t"]["from"] == ""
    assert [node["recipe"] for node in told["nodes"]] == ["mine"]
