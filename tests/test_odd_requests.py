"""Odd files and words for check, command, doctor and inspect: status and message name the thing, and nothing hangs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tests.onnxmodel.models import matmul, model, value
from tests.projects import Project


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A folder of ONNX files, most of them none."""
    folder = tmp_path_factory.mktemp("odd")
    project = Project(folder / "project", folder / "cache")
    root = project.root
    for name in ("empty", "folder.onnx"):
        (root / name).mkdir(parents=True)
    onnx.save(matmul(), root / "m.onnx")
    onnx.save(matmul(), root / "mödel größe.onnx")
    (root / "m.bin").write_bytes((root / "m.onnx").read_bytes())
    (root / "short.onnx").write_bytes((root / "m.onnx").read_bytes()[:5000])
    (root / "zero.onnx").touch()
    (root / "text.onnx").write_text("hello\n")
    (root / "weights.bin").write_text("no model")
    os.mkfifo(root / "pipe.onnx")
    without = matmul()
    del without.graph.output[:]
    onnx.save(without, root / "outputs.onnx")
    idle = matmul()
    idle.graph.ClearField("node")
    onnx.save(idle, root / "nodes.onnx")
    strange = helper.make_node("MyNorm", ["x"], ["y"], domain="acme")
    onnx.save(model([strange], [value("x", [2])], [value("y", None)]), root / "domain.onnx")
    return project


FILES = {
    "none.onnx": "none.onnx': there is no such file",
    "empty": "expected one ONNX file or 'model.onnx', found none",
    "folder.onnx": "expected one ONNX file or 'model.onnx', found none",
    "short.onnx": "is damaged near byte",
    "zero.onnx": "zero.onnx': is empty",
    "text.onnx": "is damaged near byte",
    "weights.bin": "weights.bin'",
    "pipe.onnx": "is neither a file nor a folder",
    "outputs.onnx": "the graph has no outputs",
    "nodes.onnx": "the graph has no nodes",
    "domain.onnx": "operator acme::MyNorm",
    "m.bin": "",
    "mödel größe.onnx": "",
}


def test_check_says_what_a_file_is_like(files: Project) -> None:
    """A file that is none, or no model, is told of; what is fine under an odd name raises nothing."""
    done = files.mobuild("-m", "check", f"model={','.join(map(repr, FILES))}", "hardware=l4", check=False)

    found = [line for line in done.out.splitlines() if line.startswith(("error", "warning"))]
    assert (done.status, done.err) == (1, "")
    for name, words in FILES.items():
        own = [
            line
            for line in found
            if re.search(rf" ({re.escape(name)} |{Path(name).stem}/)l4 ", line) and "no size in shapes" not in line
        ]
        assert [words in line for line in own] == [True] * bool(words), (name, own)


REQUESTS = [
    (["hardware=l44"], 2, "there is no hardware 'l44'. Did you mean 'l4' or 'l40s'?"),
    (["backend=tensorrt", "backend.version=abc"], 2, "backend.version: expected a version such as 10.16, found 'abc'"),
    (["backend=tensorrt", "backend.version=99"], 0, "R19"),
    (
        ["backend=tensorrt", "backend.version=8.6.1"],
        1,
        "mobuild builds with TensorRT from 10.0 on",
    ),
    (["workspace=-1GiB"], 2, "workspace: expected a size such as 512MiB or 4GiB, found '-1GiB'"),
    (["hardware=a100_40/1g.5gb", "workspace=8GiB"], 0, "workspace 8GiB on a card of 4.75 GiB"),
    (["shapes.n=[1,2,40000000]", "hardware=a100_40/1g.5gb"], 1, "has 4.75 GiB"),
    (["shapes=[{n: 1},{n: [8,4,2]}]"], 1, "profile 1: axis 'n': min 8 is larger than opt 4"),
    (["shapes.n=-1"], 2, "expected whole numbers from 1, found -1"),
    (["shapes.n=99999999999999999999"], 0, "M1"),
    (["check.driver=abc"], 2, "check.driver: expected a version such as 580.65.06, found 'abc'"),
    (["check.cuda=99.1", "check.driver=999"], 0, "CUDA 99.1 is not in the table"),
    (["hardware=cpu", "check.runtime=9.9"], 0, "ONNX Runtime 9.9 is not in the table"),
    (["check.ignore=[P9]"], 2, "check.ignore: there is no rule 'P9'"),
    (["hardware=cpu", "backend=tensorrt"], 1, "needs a GPU of vendor 'nvidia', found 'cpu'"),
    (["precision=fp8"], 2, "there is no precision 'fp8'"),
    (["format=xml"], 2, "format: expected one of"),
]


@pytest.mark.parametrize(("words", "status", "said"), REQUESTS, ids=[" ".join(row[0]) for row in REQUESTS])
def test_check_answers_odd_words(files: Project, words: list[str], status: int, said: str) -> None:
    shapes = [] if any(word.startswith("shapes") for word in words) else ["shapes.n=4"]

    done = files.mobuild("check", "model=m.onnx", "hardware=l4", *shapes, *words, check=False)

    text = done.out + done.err
    assert done.status == status, text
    assert said in text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothere", "there is no such file"),
        ("pipe.onnx", "'pipe.onnx': is neither a file nor a folder"),
        ("zero.onnx", "'zero.onnx': is empty"),
        ("empty", "nobody knows this content"),
    ],
)
def test_inspect_says_why_it_knows_nothing(files: Project, name: str, said: str) -> None:
    done = files.mobuild("inspect", name, check=False)

    assert done.status == 1
    assert said in done.errors[0]


def test_command_names_the_file_that_is_missing(files: Project) -> None:
    done = files.mobuild("command", "engine", "model=none.onnx", "hardware=l4", check=False)

    assert done.status == 1
    assert "none.onnx': there is no such file" in done.errors[0]


def test_command_tells_a_line_for_a_release_that_mobuild_does_not_build_with(files: Project) -> None:
    words = ("model=m.onnx", "nodes.engine.needs.model=onnx", "hardware=l4", "shapes.n=4", "backend=tensorrt")

    done = files.mobuild("command", "engine", *words, "backend.version=8.6")

    assert done.out.startswith("# E3 error: node 'engine': mobuild builds with TensorRT from 10.0 on, not with 8.6\n")
    assert "\n# TensorRT 8.6\n" in done.out


RECORDINGS = {
    "bare": {"recording": 1, "answers": None},
    "newer": {"recording": 2, "answers": {}},
    "edited": {"recording": 1, "answers": {"run nvidia-smi -q -x": "text"}},
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_doctor_refuses_a_recording_that_is_none(files: Project, name: str) -> None:
    (files.root / f"{name}.json").write_text(json.dumps(RECORDINGS[name]))

    done = files.mobuild("doctor", f"{name}.json", check=False)

    assert done.status == 1
    assert "record it again: python3 -m mobuild.doctor.recording OUT.json" in done.errors[0]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nofile"], 2, "there is no file 'nofile'"),
        (["empty"], 2, "'empty' is a folder"),
        (["m.onnx"], 1, "m.onnx: is no text"),
        (["zero.onnx"], 1, "zero.onnx: is empty"),
        (["format=sarif"], 2, "doctor: format: expected one of text, json, found 'sarif'"),
    ],
)
def test_doctor_says_what_it_cannot_read(files: Project, words: list[str], status: int, said: str) -> None:
    done = files.mobuild("doctor", *words, check=False)

    assert done.status == status
    assert said in done.errors[0]


def test_an_empty_path_is_not_understood(files: Project, tmp_path: Path) -> None:
    assert files.mobuild("check", "model=", check=False).status == 2
