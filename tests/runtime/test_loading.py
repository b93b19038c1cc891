"""`mobuild.load(path)`: everything that can run is one callable, and what cannot says what is missing."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest
from onnx import TensorProto, helper, save_model

import mobuild
from mobuild.runtime import cuda
from mobuild.runtime.errors import EngineError, RuntimeMissing
from mobuild.runtime.runner import ANY, Tensor
from tests.projects import Project, toy_project


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with an engine for the CPU and a plan for cards of 8.9."""
    made = toy_project(tmp_path_factory.mktemp("toy"))
    made.mobuild("-m", "target=[onnx,engine]", "hardware=cpu,l20")
    return made


def onnx_file(path: Path, shapes: dict[str, list[Any]]) -> Path:
    """The sum of all inputs."""
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [value("y", TensorProto.FLOAT, next(iter(shapes.values())))]
    graph = helper.make_graph([helper.make_node("Sum", list(shapes), ["y"])], "sum", inputs, outputs)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


X = numpy.arange(8, dtype=numpy.float32).reshape(1, 8)


@pytest.mark.parametrize("name", ["onnx.onnx", "engine.onnx"])
def test_what_runs_is_called_with_arrays_by_name(toy: Project, name: str) -> None:
    runner = mobuild.load(toy.root / "build/toy/cpu" / name)

    by_mapping, by_name = runner({"x": X}), runner(x=X)

    assert runner.inputs == (Tensor("x", "float32", ("batch", 8)),)
    assert [one.name for one in runner.outputs] == ["y"]
    assert by_mapping["y"].shape == (1, 4) and (by_mapping["y"] == by_name["y"]).all()


def test_an_engine_knows_the_sizes_that_it_was_built_for(toy: Project) -> None:
    runner = mobuild.load(str(toy.root / "build/toy/cpu/engine.onnx"))

    assert runner.profiles == ({"x": ((1, 8), (4, 8), (16, 8))},)
    assert runner(x=numpy.zeros((20, 8), "float32"))["y"].shape == (20, 4)  # ONNX Runtime takes others as well


def test_the_sidecar_says_how_an_engine_is_opened(toy: Project, tmp_path: Path) -> None:
    toy_files = toy.root / "build/toy/cpu"
    for name in ("engine.onnx", "engine.onnx.json"):
        shutil.copy(toy_files / name, tmp_path)
    told = json.loads((tmp_path / "engine.onnx.json").read_text())
    told["fingerprint"]["params"]["backend"]["provider"] = "CUDAExecutionProvider"
    (tmp_path / "engine.onnx.json").write_text(json.dumps(told))

    with pytest.raises(RuntimeMissing, match="asked for the provider 'CUDAExecutionProvider'"):
        mobuild.load(tmp_path / "engine.onnx")

    assert mobuild.load(tmp_path / "engine.onnx", provider="CPUExecutionProvider")(x=X)["y"].shape == (1, 4)


def test_a_sidecar_of_another_file_is_not_believed(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "a.onnx", {"x": ["n", 3]})
    (tmp_path / "a.onnx.json").write_text('{"is_folder": false, "size_bytes": 1, "kind": "build_engine"}')

    assert mobuild.load(path)(x=numpy.ones((2, 3), "float32"))["y"].tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_folder_is_opened_by_its_model(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    onnx_file(tmp_path / "engine/model.onnx", {"x": ["n", 3]})

    assert mobuild.load(tmp_path / "engine").inputs[0].name == "x"


FEEDS: list[tuple[dict[str, Any], str]] = [
    ({}, "the engine takes the inputs ['a', 'b'], found []"),
    ({"a": [1.0], "b": [1.0]}, "input 'a': expected a NumPy array, found list"),
    ({"a": numpy.zeros((1, 3)), "b": numpy.zeros((1, 3))}, "input 'a': expected float32, found float64"),
    (
        {"a": numpy.zeros((1, 3), "float32"), "b": numpy.zeros((1, 4), "float32")},
        "input 'b': expected the shape n×3, found 1×4",
    ),
    (
        {"a": numpy.zeros((1, 3), "float32"), "b": numpy.zeros((2, 3), "float32")},
        "axis 'n': 1 in input 'a' and 2 in input 'b', expected one size",
    ),
]


@pytest.mark.parametrize(("feeds", "message"), FEEDS)
def test_feeds_that_do_not_fit_are_refused(tmp_path: Path, feeds: dict[str, Any], message: str) -> None:
    runner = mobuild.load(onnx_file(tmp_path / "two.onnx", {"a": ["n", 3], "b": ["n", 3]}))

    with pytest.raises(EngineError) as caught:
        runner(feeds)

    assert caught.value.message == message


@pytest.mark.parametrize(
    ("names", "call"),
    [(["images"], "runner(images=array)"), (["a", "b.1"], "runner({'a': array, 'b.1': array})")],
)
def test_an_array_without_its_name_is_told_how_to_call(tmp_path: Path, names: list[str], call: str) -> None:
    runner = mobuild.load(onnx_file(tmp_path / "sum.onnx", {name: ["n", 8] for name in names}))

    with pytest.raises(EngineError) as caught:
        runner(X)

    assert str(caught.value) == f"expected arrays by name, found ndarray\n  by name: {call}"


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(EngineError) as caught:
        mobuild.load({"engine": "e.onnx"})

    assert str(caught.value).startswith("expected the path of an artifact, found dict\n")


@pytest.mark.skipif(not cuda.probe()[1], reason="a GPU is here")
def test_a_plan_without_its_card_says_which_is_missing(toy: Project) -> None:
    with pytest.raises(RuntimeMissing) as caught:
        mobuild.load(toy.root / "build/toy/l20/engine.plan")

    assert caught.value.message == f"the plan runs on a GPU of compute capability 8.9, and {cuda.probe()[1]}"


def test_a_plan_without_its_sidecar_asks_for_the_runtime(toy: Project, tmp_path: Path) -> None:
    shutil.copy(toy.root / "build/toy/l20/engine.plan", tmp_path)

    with pytest.raises(EngineError, match="no sidecar tells which TensorRT it is for"):
        mobuild.load(tmp_path / "engine.plan")


@pytest.mark.parametrize("name", ["weights.safetensors", "notes.txt"])
def test_what_is_no_model_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")

    with pytest.raises(EngineError, match="is nothing that runs"):
        mobuild.load(tmp_path / name)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=re.escape(f"there is nothing at '{tmp_path}/engine.onnx'")):
        mobuild.load(tmp_path / "engine.onnx")


@pytest.fixture
def network() -> Any:
    import torch

    class Net(torch.nn.Module):
        def forward(self, x, scale):  # type: ignore[no-untyped-def]
            return x * scale, x + scale

    return Net().eval()


def test_torchscript_runs_with_the_names_of_its_arguments(network: Any, tmp_path: Path) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(network), str(tmp_path / "net.pt"))

    runner = mobuild.load(tmp_path / "net.pt")

    assert [one.name for one in runner.inputs] == ["x", "scale"] and runner.inputs[0].shape == ANY
    answer = runner(x=X, scale=numpy.float32([2]))
    assert (answer["output_0"] == 2 * X).all() and (answer["output_1"] == X + 2).all()


def test_torchscript_may_answer_with_bfloat16_numbers_and_its_own_weights(tmp_path: Path) -> None:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
            return x.to(torch.bfloat16), self.weight, 3, (x, x)

    class Some(Net):
        def forward(self, x: torch.Tensor):  # type: ignore[no-untyped-def]
            return x.to(torch.bfloat16), self.weight, 3

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Some()), str(tmp_path / "some.pt"))
        torch.jit.save(torch.jit.script(Net()), str(tmp_path / "all.pt"))

    answer = mobuild.load(tmp_path / "some.pt")(x=X)

    assert [str(each.dtype) for each in answer.values()] == ["float32", "float32", "int64"]
    assert answer["output_2"] == 3 and (answer["output_1"] == 1).all()
    with pytest.raises(EngineError, match="output 'output_3': expected a tensor, found tuple"):
        mobuild.load(tmp_path / "all.pt")(x=X)


def test_an_exported_program_knows_types_and_shapes(network: Any, tmp_path: Path) -> None:
    import torch

    batch = torch.export.Dim("batch")
    shapes = {"x": {0: batch}, "scale": None}
    program = torch.export.export(network, (torch.zeros(2, 8), torch.ones(1)), dynamic_shapes=shapes)
    torch.export.save(program, str(tmp_path / "net.pt2"))

    runner = mobuild.load(tmp_path / "net.pt2")

    assert [(one.name, one.dtype, one.shape[1:]) for one in runner.inputs] == [
        ("x", "float32", (8,)),
        ("scale", "float32", ()),
    ]
    assert (runner(x=X, scale=numpy.float32([2]))["output_0"] == 2 * X).all()
    with pytest.raises(EngineError, match="input 'x': expected float32, found float64"):
        runner(x=numpy.zeros((1, 8)), scale=numpy.float32([2]))


def test_weights_are_no_network(toy: Project) -> None:
    with pytest.raises(EngineError, match="holds weights and no network"):
        mobuild.load(toy.root / "models/toy.pt")
