"""Public faults of simplifiers and of ONNX Runtime: the `sim-` and `ort-` rows of the cases."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnxmodel.models import matmul, value
from tests.projects import Finished, Project

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@pytest.fixture
def files(tmp_path: Path) -> Project:
    """A project without recipes, for ONNX files."""
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    return project


def put(project: Project, nodes: Any, inputs: Any, outputs: Any, tensors: Any = (), domain: str = "") -> None:
    opsets = [helper.make_opsetid("", 18)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(tensors))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), project.root / "m.onnx")


def sanitized(project: Project, *words: str) -> Finished:
    return project.mobuild("target=sanitized", "model=m.onnx", *words, check=False)


WITHOUT_SHAPE = {
    "known to the runtime alone": ([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], "com.microsoft"),
    "not inferred": ([helper.make_node("Relu", ["x"], ["y"])], ""),
}
ONLY_ONNXSIM = ("nodes.sanitized.infer_shapes=false", "nodes.sanitized.fold=false")


@pytest.mark.parametrize("name", WITHOUT_SHAPE)
@pytest.mark.parametrize("output", ["y", "scores"])
def test_an_output_without_a_shape_that_stops_a_tool_is_named_and_the_graph_kept(
    files: Project, name: str, output: str
) -> None:
    """sim-missing-output-shape: onnxsim#45, snap-research/EfficientFormer#70."""
    nodes, domain = WITHOUT_SHAPE[name]
    renamed = [helper.make_node(nodes[0].op_type, ["x"], [output], domain=domain)]
    put(files, renamed, [value("x", ["n", 4])], [value(output, None)], domain=domain)

    done = sanitized(files, *(() if domain else ONLY_ONNXSIM))

    assert done.status == 0
    (warning,) = re.findall(r"^warning: .* sanitized: (onnxsim: .*)", done.err, re.MULTILINE)
    assert warning.startswith("onnxsim: failed with ")
    assert f"(output {output!r} declares no shape)" in warning
    assert warning.endswith("; the graph before it is kept")
    assert [each.name for each in onnx.load(done.out.strip()).graph.output] == [output]


def test_a_shape_that_can_be_inferred_is_inferred_first(files: Project) -> None:
    """sim-missing-output-shape: a control."""
    put(files, [helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 4])], [value("y", None)])

    done = sanitized(files)

    assert done.status == 0
    assert "warning" not in done.err
    dims = onnx.load(done.out.strip()).graph.output[0].type.tensor_type.shape.dim
    assert [each.dim_param or each.dim_value for each in dims] == ["n", 4]


@pytest.mark.parametrize(
    ("nodes", "shape", "domain"),
    [
        ([helper.make_node("Transpose", ["x"], ["y"])], ["n", 4, 1], ""),
        ([helper.make_node("Identity", ["x"], ["y"])], [], ""),
        ([helper.make_node("MyNorm", ["x"], ["y"], domain="acme")], ["n", 4], "acme"),
    ],
    ids=["rank too high", "rank too low", "operator of nobody"],
)
def test_a_graph_that_some_tool_refuses_falls_through(files: Project, nodes: Any, shape: Any, domain: str) -> None:
    """sim-missing-output-shape: graphs that one simplifier or the other crashes on."""
    put(files, nodes, [value("x", ["n", 4])], [value("y", shape)], domain=domain)

    done = sanitized(files)

    assert done.status == 0
    assert {each.op_type for each in onnx.load(done.out.strip()).graph.node} <= {nodes[0].op_type}
    if domain:
        assert re.search(r"^warning: .* sanitized: results of the tools cannot be compared.*MyNorm", done.err, re.M)


def convolution(project: Project) -> None:
    weight = numpy_helper.from_array(np.ones((2, 3, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("Add", ["r", "bias"], ["y"]),
    ]
    ends = [value("x", ["batch", 3, "height", 8]), value("bias", ["batch", 1, 1, 1])]
    put(project, nodes, ends, [value("y", ["batch", 2, None, 6])], [weight])


@pytest.mark.parametrize(
    ("shapes", "axis", "tensor", "size"),
    [
        ("{x: [1, 3, 8, 8], bias: [1, 1, 1, 1]}", "batch", "x", 1),
        ("{x: [batch, 3, 8, 8], bias: [batch, 1, 1, 1]}", "height", "x", 8),
    ],
)
def test_an_axis_that_an_override_froze_is_refused_by_name(
    files: Project, shapes: str, axis: str, tensor: str, size: int
) -> None:
    """sim-static-batch: onnxsim#101, #117, #247."""
    convolution(files)
    shapes = shapes.replace("batch, ", "-1, ")

    done = sanitized(files, f"nodes.sanitized.raw={{onnxsim: {{overwrite_input_shapes: {shapes}}}}}")

    assert done.status == 1
    (error,) = done.errors
    said = f"onnxsim: axis {axis!r} of input {tensor!r} became {size}, by the options in raw.onnxsim"
    assert f"node 'sanitized': {said}" in error
    assert "remove the shape override (shapes for tests only: test_input_shapes)" in error
    assert not (files.root / "build/m/cpu/sanitized.onnx").exists()


@pytest.mark.parametrize("raw", ["{}", "{onnxsim: {test_input_shapes: {x: [1, 3, 8, 8], bias: [1, 1, 1, 1]}}}"])
def test_dynamic_axes_in_are_dynamic_axes_out(files: Project, raw: str) -> None:
    """sim-static-batch: a control; shapes for tests freeze nothing."""
    convolution(files)

    done = sanitized(files, f"nodes.sanitized.raw={raw}")

    assert done.status == 0
    graph = onnx.load(done.out.strip()).graph
    dims = [each.type.tensor_type.shape.dim for each in (*graph.input, *graph.output)]
    assert [[each.dim_param or each.dim_value for each in one][:1] for one in dims] == [["batch"]] * 3
    assert dims[0][2].dim_param == "height"
    assert not dims[2][2].dim_value
    assert len(graph.node) == 3


PROVIDERS = {
    "CUDAExecutionProvider": ("libonnxruntime_providers_cuda.so", "pip install onnxruntime-gpu"),
    "TensorrtExecutionProvider": ("libonnxruntime_providers_tensorrt.so", "pip install onnxruntime-gpu"),
    "NvTensorRTRTXExecutionProvider": (
        "libonnxruntime_providers_nv_tensorrt_rtx.so",
        "pip install onnxruntime-trt-rtx",
    ),
    "OpenVINOExecutionProvider": ("libonnxruntime_providers_openvino.so", "pip install onnxruntime-openvino"),
}


def with_provider(project: Project, provider: str, *words: str) -> tuple[str, ...]:
    onnx.save(matmul(), project.root / "m.onnx")
    return (
        "target=engine",
        "model=m.onnx",
        "shapes.n=4",
        "backend=onnxruntime",
        f"backend.provider={provider}",
        *words,
    )


@pytest.mark.parametrize("hardware", ["cpu", "l4"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_that_is_not_here_is_refused_with_its_library(files: Project, provider: str, hardware: str) -> None:
    """ort-silent-cpu: ORT#23372, #17801, danielgatis/rembg#841, CreativeMayhemLtd/provcheck#32."""
    library, remedy = PROVIDERS[provider]
    words = with_provider(files, provider, f"hardware={hardware}")

    checked, built = files.mobuild("check", *words), files.mobuild(*words, check=False)

    assert (
        f"node 'engine': there is no {library} here; it is built where onnxruntime with it is installed" in checked.out
    )
    assert (built.status, built.out) == (1, "")
    (error,) = built.errors
    assert f"asked for the provider {provider!r}, this build has only " in error
    assert "'CPUExecutionProvider'" in error
    assert f" and no {library}\n  {remedy}" in error


@pytest.mark.parametrize(
    ("provider", "meant"),
    [
        ("CudaExecutionProvider", "CUDAExecutionProvider"),
        ("TensorRTExecutionProvider", "TensorrtExecutionProvider"),
        ("CPUExecutionProvidr", "CPUExecutionProvider"),
        ("ROCMExecutionProvider", ""),
    ],
)
def test_a_provider_that_is_none_is_refused_with_the_one_that_is_meant(
    files: Project, provider: str, meant: str
) -> None:
    """ort-silent-cpu: a misspelt name."""
    done = files.mobuild(*with_provider(files, provider), check=False)

    assert (done.status, done.out) == (1, "")
    (error,) = done.errors
    assert f"asked for the provider {provider!r}, this build has only " in error
    assert ("Did you mean " in error) == bool(meant)
    assert f"Did you mean {meant!r}?" in error or not meant
    assert "choose one of: " in error


def test_the_provider_that_is_here_is_the_one_that_runs(files: Project) -> None:
    """ort-silent-cpu: a control, and a note where a card is asked for and the CPU would run."""
    words = with_provider(files, "CPUExecutionProvider", "hardware=cpu")

    done = files.mobuild(*words)
    card = files.mobuild("check", *words[:-1], "hardware=l4")

    sidecar = json.loads(Path(f"{done.out.strip()}.json").read_text())
    assert sidecar["measurements"]["target"] == "CPUExecutionProvider"
    assert "R21" in card.out
    assert "backend.provider=CUDAExecutionProvider runs on the card" in card.out


def test_a_backend_by_name_is_used_or_refused(files: Project) -> None:
    """ort-silent-cpu: `auto` alone decides for another one."""
    onnx.save(matmul(), files.root / "m.onnx")
    words = ("model=m.onnx", "shapes.n=4", "hardware=l4")

    unknown = files.mobuild(*words, "backend=onnxruntim", check=False)

    assert unknown.status == 2
    assert "there is no backend 'onnxruntim'. Did you mean 'onnxruntime'?" in unknown.err


def stamped(project: Project, ir: int, opset: int) -> None:
    made = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", ["n"])], [value("y", ["n"])]),
        opset_imports=[helper.make_opsetid("", opset)],
    )
    made.ir_version = ir
    onnx.save(made, project.root / "m.onnx")


@pytest.mark.parametrize(
    ("ir", "opset", "runtime", "said"),
    [
        (14, 21, "1.17.3", "ONNX Runtime 1.17.3 loads opsets up to 20\n +ONNX Runtime 1.18 loads opset 21"),
        (10, 28, "1.31.1", "ONNX Runtime 1.31.1 loads opsets up to 26\n +ONNX Runtime 1.32 loads opset 28"),
        (99, 21, "1.22.0", "ONNX Runtime 1.22.0 loads IR versions up to 10\n +IR version 10 is enough for opset 21"),
        (99, 21, "", "loads IR versions up to 14\n +IR version 10 is enough for opset 21"),
        (14, 21, "1.22.0", ""),
        (14, 18, "1.14.1", ""),
        (10, 21, "1.18.1", ""),
        (3, 21, "1.22.0", ""),
    ],
)
def test_ir_and_opset_are_judged_by_the_runtime_that_opens_the_engine(
    files: Project, ir: int, opset: int, runtime: str, said: str
) -> None:
    """ort-ir-opset: ORT#20559, #23602, enpasos/jax2onnx#28; not by the one that is installed here."""
    stamped(files, ir, opset)
    words = ("model=m.onnx", "shapes.n=4", "hardware=cpu", *([f"check.runtime={runtime}"] if runtime else []))

    done = files.mobuild("check", *words, check=False)

    assert done.status == bool(said)
    assert re.search(said, done.out)
    assert ("error   R9 " in done.out) == bool(said)


@pytest.mark.parametrize(("ir", "opset", "least"), [(14, 21, 10), (13, 18, 8), (9, 13, 8), (8, 18, 8), (3, 21, 3)])
def test_the_ir_version_is_lowered_to_what_the_model_needs(files: Project, ir: int, opset: int, least: int) -> None:
    """ort-ir-opset: a newer stamp stops older runtimes for nothing."""
    stamped(files, ir, opset)

    done = files.mobuild(
        "target=[sanitized,engine]", "model=m.onnx", "shapes.n=4", "hardware=cpu", "check.runtime=1.22.0"
    )

    assert [onnx.load(line).ir_version for line in done.out.splitlines()] == [least, least]


def test_an_ir_version_of_the_future_is_refused_when_it_is_built(files: Project) -> None:
    """ort-ir-opset: what it means is not known, so it is not lowered."""
    stamped(files, 99, 21)

    done = files.mobuild("target=engine", "model=m.onnx", "shapes.n=4", "hardware=cpu", check=False)

    assert done.status == 1
    assert "IR version 99: ONNX Runtime 1." in done.err
    assert "loads IR versions up to " in done.err


def test_a_feed_of_another_type_is_refused_by_name(files: Project) -> None:
    """ort-ir-opset: a feed of float64, int64 or float16 for float32."""
    stamped(files, 10, 21)
    path = files.mobuild("target=engine", "model=m.onnx", "shapes.n=4", "hardware=cpu").out.strip()

    for dtype in ("float64", "int64", "float16"):
        load = f"mobuild.load({path!r})(x=numpy.zeros(2, numpy.{dtype}))"
        code = f"import mobuild, numpy\ntry: {load}\nexcept Exception as error: print(error)"
        assert f"input 'x': expected float32, found {dtype}" in files.python(code).out
