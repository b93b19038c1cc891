"""`python -m mobuild_runtime selftest|info|serve` about a folder, and `model.json`, which describes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

import mobuild.runtime
from mobuild.runtime import cuda, model, selftest
from mobuild.runtime.errors import EngineError
from mobuild.runtime.model import Model, Tolerance
from mobuild.runtime.runner import Tensor
from mobuild.runtime.target import Target
from tests.backends import fake_gpu
from tests.runtime.servers import TOY, command, model_folder

PACKAGE = Path(mobuild.runtime.__file__).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return model_folder(tmp_path / "model")


def test_the_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    described = replace(
        TOY,
        options={"provider": "CPUExecutionProvider", "threads": 2, "entries": {"session.x": "1"}},
        target=Target(("8.9", "9.0+"), "NVIDIA L20"),
        tolerance=Tolerance(0.5, 0),
        sha256={"engine.onnx": "ab"},
        verdict=None,
        tools={"onnxruntime": "1.32.0"},
    )

    model.write(tmp_path, described)

    assert model.read(tmp_path) == described


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "expected schema 1, found 2"),
        ({"schema": None}, "schema: expected an integer, found None"),
        ({"colour": 1}, "unknown field 'colour'"),
        ({"options": {"workspace": 1}}, "options: unknown field 'workspace'"),
        ({"runtime": "torch"}, "runtime: expected one of onnxruntime, tensorrt, tensorrt_lean, tensorrt_rtx"),
        ({"engine": "../engine.onnx"}, "expected a path inside the folder, found '../engine.onnx'"),
        ({"engine": "/engine.onnx"}, "expected a path inside the folder, found '/engine.onnx'"),
        ({"name": "a/b"}, "name: expected a part of a URL, found 'a/b'"),
        ({"inputs": [{"name": "x", "dtype": "complex64", "shape": []}]}, "inputs[0]: dtype: expected one of bool, "),
        ({"inputs": [{"name": "x", "dtype": "bool", "shape": [1.5]}]}, "inputs[0]: shape: expected sizes, names or -1"),
        ({"inputs": 3}, "inputs: expected a list, found 3"),
        ({"profiles": [{"z": {"min": [1], "opt": [1], "max": [1]}}]}, "profiles[0]: there is no input 'z' with 1 axes"),
        ({"profiles": [{"x": {"min": [2, 3], "opt": [1, 3], "max": [2, 3]}}]}, "expected min <= opt <= max"),
        ({"target": {"compute_capabilities": ["ada"]}}, "expected 8.9 or 8.0+, found 'ada'"),
        ({"verdict": "good"}, "verdict: expected one of passed, failed, proxy, not run, None, found 'good'"),
        ({"tolerance": {"absolute": "0"}}, "tolerance: absolute: expected a number, found '0'"),
    ],
)
def test_a_document_that_is_not_understood_is_refused(folder: Path, change: dict[str, Any], message: str) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    with pytest.raises(EngineError) as caught:
        model.read(folder)

    assert message in caught.value.message and str(path) in caught.value.message


def test_a_folder_without_a_model_says_which_variable_names_it(tmp_path: Path) -> None:
    done = command("serve", tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"mobuild_runtime: no model in '{tmp_path}': No such file or directory\n" in done.stderr
    assert "expected there: model.json" in done.stderr and "MOBUILD_MODEL names another folder" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_a_folder_that_may_not_be_read_says_by_whom(folder: Path) -> None:
    (folder / "model.json").chmod(0)

    assert f"may not be read by user {os.geteuid()}" in command("info", folder).stderr


def test_the_selftest_passes_on_what_was_recorded(folder: Path) -> None:
    done = command("selftest", folder)

    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert told["passed"] and (told["model"], told["key"]) == ("toy", "0123")
    assert told["cases"][0]["outputs"] == {
        "y": {"passed": True, "max_abs": 0.0},
        "is_large": {"passed": True, "unequal": 0},
    }


def test_the_selftest_fails_on_other_outputs(folder: Path) -> None:
    feeds = {"x": numpy.float32([[1, 2, 3]]), "turns": numpy.array(1, numpy.int64)}
    selftest.record(folder, [(feeds, {"y": numpy.float32([[2, 4, 6.5]]), "is_large": numpy.zeros((1, 3), bool)})])

    done = command("selftest", folder)

    assert done.returncode == 1
    assert json.loads(done.stdout)["cases"][0]["outputs"]["y"] == {"passed": False, "max_abs": 0.5}


def test_the_selftest_allows_the_tolerance_of_the_document(folder: Path) -> None:
    model.write(folder, replace(model.read(folder), tolerance=Tolerance(absolute=0.5, relative=0)))
    feeds = {"x": numpy.float32([[1, 2, 3]]), "turns": numpy.array(1, numpy.int64)}
    selftest.record(folder, [(feeds, {"y": numpy.float32([[2, 4, 6.5]])})])

    assert command("selftest", folder).returncode == 0


def test_the_selftest_tells_a_damaged_engine(folder: Path) -> None:
    with open(folder / "engine.onnx", "ab") as stream:
        stream.write(b"x")

    done = command("selftest", folder)

    assert done.returncode == 1
    assert "engine.onnx': expected the SHA-256 " in json.loads(done.stdout)["damage"][0]


@pytest.mark.parametrize("content", [b"", b"{}\n", b"x\n", None])
def test_a_damaged_recording_is_said(folder: Path, content: bytes | None) -> None:
    file = folder / selftest.FILE
    file.write_bytes(file.read_bytes()[:-1] if content is None else content)

    done = command("selftest", folder)

    assert done.returncode == 1 and f"'{file}': is damaged: " in done.stderr


def test_recorded_arrays_come_back(tmp_path: Path) -> None:
    dtypes = ["bool", "int8", "uint64", "float16", "float64"]
    feeds = {name: numpy.arange(6).reshape(2, 3).astype(name) for name in dtypes}
    outputs = {
        "texts": numpy.array(["a", "ü"], object),
        "none": numpy.zeros((0, 4), "float32"),
        "one": numpy.array(1.5),
    }

    selftest.record(tmp_path, [(feeds, outputs), (outputs, feeds)])
    (first, second) = selftest.cases(tmp_path)

    for found, wanted in zip([*first, *second], [feeds, outputs, outputs, feeds], strict=True):
        assert list(found) == list(wanted)
        assert all((found[name] == wanted[name]).all() and found[name].dtype == wanted[name].dtype for name in wanted)


def test_info_tells_model_and_versions(folder: Path) -> None:
    done = command("info", folder)

    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert (told["model"], told["key"], told["verdict"], told["target"]) == ("toy", "0123", "passed", "any machine")
    assert sorted(told["here"]) == ["gpu", "numpy", "onnxruntime", "python"]
    assert told["here"]["numpy"] == numpy.__version__


def test_an_engine_that_the_document_does_not_describe_is_refused(folder: Path) -> None:
    other = replace(model.read(folder), inputs=(Tensor("x", "float64", ("batch", 3)),), profiles=())
    model.write(folder, other)

    done = command("serve", folder, MOBUILD_HOST="127.0.0.1", MOBUILD_PORT="0")

    assert done.returncode == 1
    assert (
        "differ in their inputs: expected x: float64 batch×3, the engine has x: float32 batch×3, turns" in done.stderr
    )


def test_an_engine_that_cannot_be_opened_ends_the_server(folder: Path) -> None:
    (folder / "engine.onnx").write_bytes(b"no engine")

    done = command("serve", folder, MOBUILD_HOST="127.0.0.1", MOBUILD_PORT="0")

    assert done.returncode == 1 and "cannot load the model" in done.stderr


@pytest.mark.skipif(not cuda.probe()[1], reason="a GPU is here")
def test_a_machine_without_the_gpu_is_refused(folder: Path) -> None:
    model.write(folder, replace(model.read(folder), target=Target(("8.9",), "NVIDIA L20")))

    done = command("serve", folder, MOBUILD_HOST="127.0.0.1", MOBUILD_PORT="0")

    assert done.returncode == 1
    assert "the engine is for NVIDIA L20 (compute capability 8.9), and there is no CUDA driver here" in done.stderr


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            Target(("8.0",)),
            "the engine is for compute capability 8.0, the GPU here is NVIDIA L4 (compute capability 8.9)",
        ),
        (Target(("8.9",), "NVIDIA L20"), "is for NVIDIA L20 (compute capability 8.9), the GPU here is NVIDIA L4 ("),
        (Target(("9.0+", "8.6")), "the engine is for compute capability 9.0+ or 8.6, the GPU here is NVIDIA L4 ("),
        (Target(("8.0+",)), ""),
        (Target(("8.9",), "NVIDIA L4"), ""),
    ],
)
def test_another_gpu_is_refused_with_both_named(folder: Path, tmp_path: Path, target: Target, words: str) -> None:
    library = fake_gpu.compiled(tmp_path)
    model.write(folder, replace(model.read(folder), target=target))

    done = command("selftest", folder, LD_LIBRARY_PATH=str(library), **fake_gpu.L4)

    assert (done.returncode, words in done.stderr) == (1 if words else 0, True)


@pytest.mark.parametrize("words", [(), ("start",), ("serve", "now")])
def test_an_unknown_command_is_refused(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mobuild.runtime", *words], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stderr.startswith("mobuild_runtime: expected one of serve, selftest, healthcheck, info, found ")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MOBUILD_PORT", "http", "a whole number from 0 to 65535"),
        ("MOBUILD_CONCURRENCY", "0", "a whole number from 1 to 1024"),
        ("MOBUILD_GRACE_SECONDS", "nan", "a number from 0 to 86400"),
    ],
)
def test_a_bad_variable_is_named(folder: Path, name: str, value: str, expected: str) -> None:
    done = command("serve", folder, **{name: value})

    assert (done.returncode, done.stderr) == (2, f"mobuild_runtime: {name}: expected {expected}, found {value!r}\n")


def test_the_server_needs_nothing_of_mobuild(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mobuild_runtime").symlink_to(PACKAGE)
    code = (
        "import os, sys; from mobuild_runtime.__main__ import main;"
        "status = main(['selftest'], os.environ);"
        "print(status, sorted({m.partition('.')[0] for m in sys.modules} & {'mobuild', 'onnx', 'torch', 'ssl'}))"
    )
    environment = {**os.environ, "MOBUILD_MODEL": str(folder)}

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )

    assert done.stdout.splitlines()[-1] == "0 []"


def test_tensors_of_a_model_have_one_name_each(tmp_path: Path) -> None:
    twice: Model = replace(TOY, inputs=(TOY.inputs[0], TOY.inputs[0]))

    with pytest.raises(EngineError, match="inputs: a name is there twice"):
        model.write(tmp_path, twice)
