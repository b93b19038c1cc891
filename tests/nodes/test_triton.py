"""Model repositories for Triton Inference Server."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from mobuild.backend import Opening
from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.backends.tensorrt import TensorRT
from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.errors import ConfigError, NodeFailed, Refused
from mobuild.nodes.triton import Triton
from mobuild.nodes.triton.text import message
from tests.projects import recipe_project

BATCH = ["batch", 8]
SHAPES = {"batch": [1, 4, 16]}


def schema() -> Any:
    """Triton's public schema, without the rest of its client, which would want gRPC."""
    files = importlib.metadata.files("tritonclient") or []
    (file,) = (each for each in files if each.as_posix() == "tritonclient/grpc/model_config_pb2.py")
    spec = importlib.util.spec_from_file_location("mobuild_tests_model_config_pb2", file.locate())
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCHEMA = schema()


def read(folder: Path, model: str) -> Any:
    """The configuration of a model, read by the schema."""
    from google.protobuf import text_format

    found: Any = SCHEMA.ModelConfig()
    text_format.Parse((folder / model / "config.pbtxt").read_text(), found)
    return found


def graph(path: Path, inputs: Mapping[str, list[Any]], outputs: Mapping[str, list[Any]], dtype: str = "FLOAT") -> Path:
    """An ONNX file with such tensors."""

    def values(found: Mapping[str, list[Any]]) -> list[Any]:
        return [helper.make_tensor_value_info(n, getattr(TensorProto, dtype), shape) for n, shape in found.items()]

    first = next(iter(inputs))
    nodes = [helper.make_node("Identity", [first], [name]) for name in outputs]
    made = helper.make_graph(nodes, "g", values(inputs), values(outputs))
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def build(tmp_path: Path, node: Triton, graphs: Mapping[str, Path]) -> Path:
    """The repository; an ONNX engine is its graph, and a plan a few bytes."""
    inputs: dict[str, Path] = {}
    for role, path in graphs.items():
        inputs[f"{role}.model"] = inputs[role] = path
        if node.engines[role].backend.runtime == "tensorrt":
            inputs[role] = tmp_path / f"{role}.plan"
            inputs[role].write_bytes(f"plan of {role}".encode())
    node.build(inputs, tmp_path / "out")
    return tmp_path / "out"


def ort(shapes: Any = SHAPES, **options: Any) -> Opening:
    return Opening(OnnxRuntime(**options), shapes)


def trt(capability: str = "8.9", shapes: Any = SHAPES, **options: Any) -> Opening:
    return Opening(TensorRT(capability, **options), shapes)


def test_a_model_of_onnx_runtime(tmp_path: Path) -> None:
    model = graph(tmp_path / "g.onnx", {"x": BATCH}, {"y": BATCH})

    out = build(tmp_path, Triton(engines={"engine": ort()}).named("det"), {"engine": model})

    assert (out / "det/config.pbtxt").read_text() == (
        'name: "det"\nplatform: "onnxruntime_onnx"\nmax_batch_size: 16\n'
        'input {\n  name: "x"\n  data_type: TYPE_FP32\n  dims: [8]\n}\n'
        'output {\n  name: "y"\n  data_type: TYPE_FP32\n  dims: [8]\n}\n'
        "instance_group {\n  count: 1\n  kind: KIND_CPU\n}\n"
        "dynamic_batching {\n}\n"
        'model_warmup {\n  name: "profile 0"\n  batch_size: 4\n  inputs {\n    key: "x"\n    value {\n'
        "      data_type: TYPE_FP32\n      dims: [8]\n      random_data: true\n    }\n  }\n}\n"
    )
    assert read(out, "det").max_batch_size == 16
    assert (out / "det/1/model.onnx").read_bytes() == model.read_bytes()


def test_a_plan_with_several_profiles_names_them(tmp_path: Path) -> None:
    shapes = [{"batch": [1, 2, 4]}, {"batch": [1, 16, 32]}]
    model = graph(tmp_path / "g.onnx", {"x": BATCH}, {"y": BATCH})

    out = build(tmp_path, Triton(name="det", instances=2, engines={"engine": trt(shapes=shapes)}), {"engine": model})

    config = read(out, "det")
    (group,) = config.instance_group
    assert (config.platform, config.max_batch_size) == ("tensorrt_plan", 32)
    assert (group.count, list(group.profile)) == (2, ["0", "1"])
    assert [sample.batch_size for sample in config.model_warmup] == [2, 16]
    assert (out / "det/1/model.plan").read_bytes() == b"plan of engine"


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [({"x": [4, 8]}, {"y": [4, 8]}), ({"x": BATCH}, {"y": [1, 8]}), ({"x": BATCH}, {"y": []})],
)
def test_without_a_common_batch_axis_nothing_is_batched(
    tmp_path: Path, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]
) -> None:
    model = graph(tmp_path / "g.onnx", inputs, outputs)
    shapes = SHAPES if inputs["x"] == BATCH else {}

    out = build(tmp_path, Triton(name="det", engines={"engine": ort(shapes)}), {"engine": model})

    config = read(out, "det")
    assert config.max_batch_size == 0
    assert list(config.input[0].dims) == [size if isinstance(size, int) else -1 for size in inputs["x"]]
    assert not config.HasField("dynamic_batching")


def test_an_axis_of_any_size_is_minus_one_and_a_scalar_is_reshaped(tmp_path: Path) -> None:
    model = graph(tmp_path / "g.onnx", {"x": ["batch", "length"], "s": ["batch"]}, {"y": ["batch", "length"]})
    shapes = {"batch": [1, 2, 4], "length": [1, 16, 64]}

    out = build(tmp_path, Triton(name="det", engines={"engine": ort(shapes)}), {"engine": model})

    x, s = read(out, "det").input
    assert list(x.dims) == [-1]
    assert (list(s.dims), s.HasField("reshape"), list(s.reshape.shape)) == ([1], True, [])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("FLOAT16", "TYPE_FP16"), ("BFLOAT16", "TYPE_BF16"), ("INT64", "TYPE_INT64"), ("BOOL", "TYPE_BOOL"),
     ("STRING", "TYPE_STRING"), ("UINT8", "TYPE_UINT8"), ("DOUBLE", "TYPE_FP64")],
)  # fmt: skip
def test_types_have_their_names(tmp_path: Path, dtype: str, expected: str) -> None:
    model = graph(tmp_path / "g.onnx", {"x": BATCH}, {"y": BATCH}, dtype)

    out = build(tmp_path, Triton(name="det", engines={"engine": ort()}), {"engine": model})

    assert SCHEMA.DataType.Name(read(out, "det").input[0].data_type) == expected


def test_indices_are_warmed_up_with_zeros(tmp_path: Path) -> None:
    model = graph(tmp_path / "g.onnx", {"x": BATCH}, {"y": BATCH}, "INT64")

    out = build(tmp_path, Triton(name="det", engines={"engine": ort()}), {"engine": model})

    assert read(out, "det").model_warmup[0].inputs["x"].zero_data


def test_fields_of_the_node_and_raw_reach_the_configuration(tmp_path: Path) -> None:
    model = graph(tmp_path / "g.onnx", {"x": BATCH}, {"y": BATCH})
    queue = {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 100}
    raw = {"optimization": {"cuda": {"graphs": True}}, "parameters": [{"key": "a", "value": {"string_value": 'b"\n'}}]}
    node = Triton(
        name="det", max_batch=8, dynamic_batching=queue, warmup=False, raw=raw, engines={"engine": trt()}
    )  # fmt: skip

    config = read(build(tmp_path, node, {"engine": model}), "det")

    assert config.max_batch_size == 8
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 8]
    assert config.optimization.cuda.graphs
    assert config.parameters["a"].string_value == 'b"\n'
    assert not config.model_warmup


def test_more_than_the_engine_takes_is_refused(tmp_path: Path) -> None:
    model = graph(tmp_path / "g.onnx", {"x": BATCH}, {"y": BATCH})

    with pytest.raises(Refused, match="max_batch: 32 asked, and the engine takes at most 16"):
        build(tmp_path, Triton(name="det", max_batch=32, engines={"engine": ort()}), {"engine": model})


def test_engines_for_several_cards_are_one_model(tmp_path: Path) -> None:
    model = graph(tmp_path / "g.onnx", {"x": BATCH}, {"y": BATCH})
    node = Triton(models={"det": ["l4", "a100"]}, engines={"l4": trt("8.9"), "a100": trt("8.0")})

    out = build(tmp_path, node, {"l4": model, "a100": model})

    assert dict(read(out, "det").cc_model_filenames) == {"8.9": "l4.plan", "8.0": "a100.plan"}
    assert (out / "det/1/a100.plan").read_bytes() == b"plan of a100"


def test_two_engines_for_one_capability_are_refused() -> None:
    with pytest.raises(Refused, match=r"engines 'l4' and 'l20' are both for compute capability 8\.9"):
        Triton(models={"det": ["l4", "l20"]}, engines={"l4": trt(), "l20": trt()})


def test_a_plan_of_tensorrt_rtx_is_refused() -> None:
    with pytest.raises(Refused, match="engine 'engine' is of tensorrt_rtx, which no backend of Triton loads"):
        Triton(engines={"engine": Opening(TensorRTRTX("8.9"))})


def test_several_chains_become_models_and_an_ensemble(tmp_path: Path) -> None:
    enc = graph(tmp_path / "enc.onnx", {"mel": BATCH}, {"memory": BATCH})
    dec = graph(tmp_path / "dec.onnx", {"memory": BATCH, "tokens": BATCH}, {"scores": BATCH})
    node = Triton(ensemble="whisper", engines={"dec": ort(), "enc": ort({"batch": [1, 2, 8]})})

    out = build(tmp_path, node, {"enc": enc, "dec": dec})

    config = read(out, "whisper")
    assert (config.platform, config.max_batch_size) == ("ensemble", 8)
    assert {each.name for each in config.input} == {"mel", "tokens"}
    assert [each.name for each in config.output] == ["scores"]
    maps = {step.model_name: (dict(step.input_map), dict(step.output_map)) for step in config.ensemble_scheduling.step}
    assert maps["enc"] == ({"mel": "mel"}, {"memory": "memory"})
    assert maps["dec"] == ({"memory": "memory", "tokens": "tokens"}, {"scores": "scores"})
    assert (out / "whisper/1").is_dir()


def test_tensors_are_joined_by_other_names(tmp_path: Path) -> None:
    one = graph(tmp_path / "one.onnx", {"x": BATCH}, {"y": BATCH})
    two = graph(tmp_path / "two.onnx", {"x": BATCH}, {"y": BATCH})
    engines = {"one": ort(), "two": ort()}
    renames = {"one": {"y": "between"}, "two": {"x": "between"}}

    out = build(tmp_path, Triton(ensemble="both", renames=renames, engines=engines), {"one": one, "two": two})

    steps = read(out, "both").ensemble_scheduling.step
    assert [dict(step.output_map)["y"] for step in steps] == ["between", "y"]


@pytest.mark.parametrize(
    ("renames", "why"),
    [
        ({}, "'one' and 'two' both make 'y'"),
        ({"one": {"y": "x"}, "two": {"y": "z"}}, "wait for each other"),
        ({"three": {"y": "z"}}, "there is no model 'three'"),
        ({"one": {"q": "z"}}, "there is no tensor 'q'"),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, renames: dict[str, Any], why: str) -> None:
    one = graph(tmp_path / "one.onnx", {"x": BATCH}, {"y": BATCH})
    engines = {"one": ort(), "two": ort()}

    with pytest.raises(Refused, match=why):
        build(tmp_path, Triton(ensemble="both", renames=renames, engines=engines), {"one": one, "two": one})


def test_weights_beside_the_graph_go_into_a_folder_of_the_files_name(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.mkdir()
    graph(engine / "model.onnx", {"x": BATCH}, {"y": BATCH})
    (engine / "weights.bin").write_bytes(b"w")

    out = build(tmp_path, Triton(name="det", engines={"engine": ort()}), {"engine": engine})

    assert sorted(path.name for path in (out / "det/1/model.onnx").iterdir()) == ["model.onnx", "weights.bin"]


def test_an_engine_with_libraries_is_refused_with_the_way_out(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    (engine / "libraries").mkdir(parents=True)
    (engine / "libraries/own.so").touch()
    graph(engine / "model.onnx", {"x": BATCH}, {"y": BATCH})

    with pytest.raises(NodeFailed, match=r"the engine brings own\.so"):
        build(tmp_path, Triton(name="det", engines={"engine": ort()}), {"engine": engine})


@pytest.mark.parametrize(
    "fields",
    [
        {"engines": {}},
        {"instances": 0},
        {"max_batch": -1},
        {"models": {"det": ["absent"]}},
        {"renames": {"det": {"x": "y"}}},
        {"ensemble": "engine"},
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_built(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Triton(**{"engines": {"engine": ort()}, **fields})


def test_enumerators_are_told_from_names_by_their_field() -> None:
    from google.protobuf import text_format

    start = {"name": "START", "control": [{"kind": "CONTROL_SEQUENCE_START", "int32_false_true": [0, 1]}]}
    fields = {
        "name": "KIND_NET",
        "input": [{"name": "TYPE_A", "data_type": "TYPE_FP32", "format": "FORMAT_NCHW", "dims": [1]}],
        "optimization": {"priority": "PRIORITY_MAX"},
        "dynamic_batching": {"default_queue_policy": {"timeout_action": "DELAY"}},
    }

    found = text_format.Parse(message(fields), SCHEMA.ModelConfig())
    sequences = text_format.Parse(message({"sequence_batching": {"control_input": [start]}}), SCHEMA.ModelConfig())

    assert (found.name, found.input[0].name, found.input[0].format) == ("KIND_NET", "TYPE_A", 2)
    assert found.dynamic_batching.default_queue_policy.timeout_action == 1
    assert sequences.sequence_batching.control_input[0].name == "START"


def test_text_is_escaped() -> None:
    assert message({"a": 'x"\\\n', "b": True, "c": [1, 2], "d": {"kind": "KIND_CPU"}, "e": "KIND_CPU"}) == (
        'a: "x\\"\\\\\\n"\nb: true\nc: [1, 2]\nd {\n  kind: KIND_CPU\n}\ne: "KIND_CPU"\n'
    )


def test_a_batch_that_the_engine_does_not_take_is_refused_before_it_is_built(tmp_path: Path) -> None:
    from mobuild import onnxmodel

    summary = onnxmodel.summary(graph(tmp_path / "g.onnx", {"x": BATCH}, {"y": BATCH}))

    with pytest.raises(Refused, match="the engine takes at most 16"):
        Triton(name="det", max_batch=32, engines={"engine": ort()}).check({"engine.model": summary})


def test_the_target_makes_a_repository_named_after_the_recipe(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        "  onnx: {kind: source, uri: models/g.onnx}\n"
        "  engine: {kind: build_engine, needs: {model: onnx}}\n"
        "  triton: {kind: triton}\n"
        "shapes: {batch: [1, 4, 16]}\n",
    )
    (project.root / "models").mkdir()
    graph(project.root / "models/g.onnx", {"x": BATCH}, {"y": BATCH})

    project.mobuild("target=triton", "recipe=small")
    refused = project.mobuild("target=triton", "recipe=small", "hardware=l4", check=False)

    out = project.root / "build/small/cpu/triton"
    assert read(out, "small").max_batch_size == 16
    assert (out / "small/1/model.onnx").is_file()
    assert refused.status == 1
    assert "engine 'engine' is of tensorrt_rtx, which no backend of Triton loads" in refused.err
