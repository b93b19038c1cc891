"""Names of variants are for scripts: they stay while what they stand for does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
"""
WORDS = ("target=copy", "nodes.copy.cwd=sub", "hardware=mine")
HARDWARE = "name: mine\nvendor: cpu\nbackends: [onnxruntime]\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    files = {"text.txt": "one\n", "sub/x": "", "conf/hardware/mine.yaml": HARDWARE, "conf/project/default.yaml": "{}\n"}
    project = recipe_project(tmp_path_factory.mktemp("names"), NODES, files)
    project.mobuild(*WORDS)
    return project


def path(project: Project, *words: str) -> str:
    return project.mobuild("path", *WORDS, *words).out.removeprefix(str(project.root)).strip()


ADDED: dict[str, Callable[[Project], None]] = {
    "another node": lambda project: project.edit(
        "recipes/small.yaml", "nodes:\n", "nodes:\n  first: {kind: source, uri: text.txt}\n"
    ),
    "another field of the node": lambda project: project.edit(
        "recipes/small.yaml", "out: .txt", "out: .txt, shell: false"
    ),
    "a time limit": lambda project: project.edit("recipes/small.yaml", "out: .txt", "out: .txt, timeout_seconds: 60"),
    "a constraint": lambda project: project.edit("recipes/small.yaml", "nodes:", "constraints: {engine_mb: 1}\nnodes:"),
    "a key of the project's own": lambda project: project.write(
        "conf/project/default.yaml", "# @package _global_\nwidth: 640\nshapes: {w: '${width}'}\n"
    ),
    "other settings": lambda project: project.write(
        "conf/project/default.yaml", "# @package _global_\nkeep_going: false\nsecrets: [PIN]\nbuilders: [onnxruntime]\n"
    ),
    "a fact of the hardware": lambda project: project.edit(
        "conf/hardware/mine.yaml", "vendor", "memory_gib: 8\nvendor"
    ),
    "other hardware": lambda project: project.write("conf/hardware/other.yaml", HARDWARE.replace("mine", "other")),
    "another recipe": lambda project: project.write(
        "recipes/large.yaml", "# @package _global_\nnodes:\n  a: {kind: source, uri: text.txt}\n"
    ),
    "a precision": lambda project: project.write("conf/precision/mine.yaml", "# @package _global_\nprecision: fp16\n"),
}


@pytest.mark.parametrize("what", ADDED)
def test_what_is_added_beside_moves_no_variant(built: Project, tmp_path: Path, what: str) -> None:
    project = built.copy(tmp_path)
    before = path(project)

    ADDED[what](project)

    assert path(project, "recipe=small") == before == "/build/small/mine+60b66246/copy.txt"


STEERING = (
    *("frozen=true", "here=true", "report.junit=x.xml", "compare.build=true", "keep_going=false", "debug=true"),
    *("check.strict=true", "gc.age=1d", "pin.remove=true", "executor.slots=2"),
    "++constraints.engine_mb=1",
)


def test_what_steers_a_run_is_no_part_of_the_name(built: Project) -> None:
    assert path(built, *STEERING) == path(built)


def test_another_value_is_another_name_and_the_old_one_comes_back(built: Project) -> None:
    other = built.mobuild("path", "target=copy", "hardware=mine", "nodes.copy.out=.md", check=False)

    assert "/build/small/mine+" in other.err and "mine+60b66246" not in other.err
    assert path(built).endswith("/mine+60b66246/copy.txt")


def test_the_order_of_what_has_an_order_makes_another_name(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.write("recipes/net.py", "def load(weights): ...\n")
    project.edit(
        "recipes/small.yaml",
        "nodes:\n",
        "nodes:\n  onnx: {kind: export, needs: {weights: text}, model: 'net.py:load'}\n",
    )
    words = ["plan", "target=onnx", "format=json"]

    one, other = (
        project.mobuild(*words, f"nodes.onnx.inputs={{{order}}}", check=False).out
        for order in ("a:[1],b:[1]", "b:[1],a:[1]")
    )

    assert one.split('"node": ')[2].split()[0] != other.split('"node": ')[2].split()[0]


PLAIN = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out} # ${backend} ${hardware.memory_gib}", in: {text: text}, out: .txt}
"""
OF_MAPS = ["backend={level: all}", "toolchain={python: python3}", "hardware.memory_gib=3", "hardware={memory_gib: 3}"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Project:
    files = {"text.txt": "one\n", "conf/hardware/mine.yaml": HARDWARE + "memory_gib: 2\n"}
    return recipe_project(tmp_path_factory.mktemp("plain"), PLAIN, files)


@pytest.mark.parametrize("word", OF_MAPS)
def test_keys_of_what_is_named_make_another_name(plain: Project, word: str) -> None:
    """They choose no other backend, toolchain or hardware, and yet another artifact is built."""
    planned = plain.mobuild("plan", "target=copy", "hardware=mine", word, "format=json")

    (name,) = {step["node"].split()[0] for step in json.loads(planned.out)["steps"]}
    assert name.startswith("small/mine+")


CHAINS = """\
  det:
    text: {kind: source, uri: text.txt}
    copy: {kind: command, cmd: "cp {in.text} {out} # ${precision} ${backend}", in: {text: text}, out: .txt}
  cls:
    precision: fp16
    copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: det.text}, out: .txt}
"""
OF_CHAINS = {
    "nodes.det.precision=int8": "cpu+det.int8",
    "nodes.det.precision=int8 nodes.cls.precision=int8": "cpu+cls.int8+det.int8",
    "nodes.det.backend=onnxruntime nodes.det.precision=fp16": "cpu+det.onnxruntime+det.fp16",
    "nodes.det.precision=fp32 nodes.det.backend=auto nodes.cls.precision=fp16": "cpu",
    "precision=int8 nodes.det.precision=fp32": "cpu+int8+det.fp32",
    "precision=int8 nodes.det.precision=int8": "cpu+int8",
}


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return recipe_project(tmp_path_factory.mktemp("chains"), CHAINS, {"text.txt": "one\n"})


@pytest.mark.parametrize("words", OF_CHAINS)
def test_a_chains_own_values_are_named_as_those_at_the_top(chains: Project, words: str) -> None:
    planned = chains.mobuild("plan", "target=[det.copy,cls.copy]", "format=json", *words.split())

    found = {step["node"].split()[0] for step in json.loads(planned.out)["steps"]}
    assert f"small/{OF_CHAINS[words]}" in found, found
