"""Public faults of engines: the `trt-` rows of the cases, each as a test of its kind, by the command line.

What `check` says of single models (trt-ops, trt-profile, trt-memory-and-target) is in `test_check_cases.py`; here it is
held against the builder itself, and against what a build leaves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mobuild.runtime import cuda
from tests.doctor.machines import findings, recording
from tests.onnxmodel.models import matmul, model, value
from tests.projects import Project, recipe_project
from tests.test_check_cases import codes

FLOAT, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8
AS_IT_IS = "nodes.engine.needs.model=onnx"  # no simplifier before the builder
WITHOUT_RULES = "check.ignore=[F2,O1,R10,S1]"  # so that the builder itself has the word


@pytest.fixture
def files(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    return project


def saved(project: Project, made: Any, name: str = "m") -> None:
    onnx.save(made, project.root / f"{name}.onnx")


def tensor(name: str, array: Any) -> Any:
    return numpy_helper.from_array(np.asarray(array), name)


def graph(nodes: list[Any], kind: int = FLOAT, out: int = FLOAT, tensors: Any = (), shape: Any = (2, 4)) -> Any:
    """A model from `x` to `y`, whose nodes may be of the domain `acme`."""
    made = model(nodes, [value("x", shape, kind)], [value("y", None, out)], tensors)
    made.opset_import.append(helper.make_opsetid("acme", 1))
    return made


node = helper.make_node


# trt-ops


def test_all_nodes_that_are_refused_are_named_at_once_with_operator_domain_and_first_version(files: Project) -> None:
    """trt-ops: TensorRT#1775, mmdeploy#2398, onnx-tensorrt#553; nodes without a name go by their outputs."""
    inner = [node("Unique", ["x"], ["u"]), node("Cast", ["u"], ["t"], to=FLOAT)]
    then = helper.make_graph(inner, "then", [], [value("t", None)])
    other = helper.make_graph([node("Reshape", ["x", "all"], ["o"])], "other", [], [value("o", None)])
    nodes = [
        node("MyNorm", ["x"], ["a"], domain="acme"),
        node("Det", ["b3"], ["c"]),
        node("MyNorm", ["a"], ["b"], "head.norm", domain="acme"),
        node("NonZero", ["b"], ["positions"]),
        node("If", ["flag"], ["y"], "choice", then_branch=then, else_branch=other),
    ]
    made = graph(nodes, tensors=[tensor("all", [-1])])
    made.graph.input.extend([value("b3", [2, 2, 2]), value("flag", [], TensorProto.BOOL)])
    made.graph.output.extend([value("c", None), value("positions", None, INT64)])
    saved(files, made)

    done = files.mobuild("check", "model=m.onnx", "hardware=l4", check=False)
    built = files.mobuild("model=m.onnx", "hardware=l4", check=False)

    assert (done.status, codes(done)) == (1, ["R10!"] * 4)
    for said in (
        "nodes 'a', 'head.norm': operator acme::MyNorm: TensorRT-RTX 1.7.1.116 takes domain 'acme' by a plugin alone",
        "node 'c': operator Det: TensorRT-RTX takes no Det, nor does any TensorRT",
        "node 'positions': operator NonZero: TensorRT-RTX takes no NonZero",
        "node 'u': operator Unique: TensorRT-RTX takes no Unique, nor does any TensorRT",
    ):
        assert said in done.out
        assert said in built.err or "Unique" in said  # in a branch that a simplifier may drop
    assert "TensorRT has NonZero from 8.5 on: backend=tensorrt" in done.out
    assert (built.status, built.out) == (1, "")


def test_the_first_version_of_an_operator_is_named_and_asked_for(files: Project) -> None:
    """trt-ops, with a TensorRT that is too old."""
    saved(files, graph([node("Swish", ["x"], ["y"], "/act")]))

    done = files.mobuild(
        "check", "model=m.onnx", "hardware=l4", "backend=tensorrt", 'backend.version="10.16"', check=False
    )

    assert (done.status, codes(done)) == (1, ["R10!"])
    assert "node '/act': operator Swish: Swish is there from TensorRT 11.0 on" in done.out
    assert "TensorRT 11.0 is the first that has it" in done.out


_FLAT = [node("ReduceMax", ["x"], ["b"], keepdims=0)]
zeros = tensor("z", np.zeros((), np.int8))
scale = tensor("s", np.float32(0.1))
MODELS: dict[str, Any] = {
    "float64": graph([node("Exp", ["x"], ["y"])], TensorProto.DOUBLE, TensorProto.DOUBLE),
    "int64_beyond_int32": graph([node("Add", ["x", "k"], ["y"])], INT64, INT64, [tensor("k", [[1 << 40] * 4])]),
    "uint16_constant": graph(
        [node("Cast", ["k"], ["c"], to=FLOAT), node("Add", ["x", "c"], ["y"])],
        tensors=[tensor("k", np.ones(4, np.uint16))],
    ),
    "uint8_read_by_a_cast": graph([node("Cast", ["x"], ["y"], to=FLOAT)], UINT8),
    "uint8_made_at_the_end": graph([node("Cast", ["x"], ["y"], to=UINT8)], out=UINT8),
    "quantisers_of_onnxruntime": graph(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"], domain="com.microsoft"),
            node("DequantizeLinear", ["q", "s", "z"], ["y"], domain="com.microsoft"),
        ],
        tensors=[scale, zeros],
    ),
    "uint8_inside": graph([node("Cast", ["x"], ["u"], to=UINT8), node("Cast", ["u"], ["y"], to=FLOAT)]),
    "uint8_gathered": graph(
        [node("Gather", ["x", "i"], ["g"]), node("Cast", ["g"], ["y"], to=FLOAT)], UINT8, tensors=[tensor("i", [0, 1])]
    ),
    "uint8_under_another_name": graph([node("Identity", ["x"], ["i"]), node("Add", ["i", "i"], ["y"])], UINT8, UINT8),
    "int16_inside": graph([node("Cast", ["x"], ["u"], to=TensorProto.INT16), node("Cast", ["u"], ["y"], to=FLOAT)]),
    "strings": graph([node("Identity", ["x"], ["y"])], TensorProto.STRING, TensorProto.STRING),
    "a_branch_of_another_rank": graph(
        [
            node("ReduceSum", ["x"], ["sum"], keepdims=0),
            node("Cast", ["sum"], ["c"], to=TensorProto.BOOL),
            node(
                "If",
                ["c"],
                ["y"],
                then_branch=helper.make_graph([node("Relu", ["x"], ["a"])], "a", [], [value("a", None)]),
                else_branch=helper.make_graph(_FLAT, "b", [], [value("b", None)]),
            ),
        ]
    ),
}  # fmt: skip


def test_check_refuses_what_the_builder_refuses_and_nothing_else(files: Project) -> None:
    """trt-ops: the controls raise nothing, and the types that the parser refuses are found before it sees them."""
    for name, made in MODELS.items():
        saved(files, made, name)
    words = ("-m", f"model={','.join(f'{name}.onnx' for name in MODELS)}", "hardware=l4")

    told = json.loads(files.mobuild("check", *words, "format=json", check=False).out)["findings"]
    files.mobuild(*words, WITHOUT_RULES, check=False)

    refused = {each["recipe"] for each in told if each["severity"] == "error"}
    unbuilt = {name for name in MODELS if not list((files.root / "build" / name).glob("*/engine.plan"))}
    assert refused == unbuilt
    assert len(unbuilt) == 6


# trt-memory-and-target, trt11-fp16-gone


def measured(project: Project, line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.root / f"{line.strip()}.json").read_text())["measurements"]
    return found


def weights_mib(project: Project, line: str) -> float:
    """What the builder's log says that the engine holds."""
    return float(measured(project, line)["device_weight_bytes"]) / (1 << 20)


def test_half_that_is_asked_for_is_in_the_engine(files: Project) -> None:
    """trt-memory-and-target, trt11-fp16-gone: rf-detr#1453; a flag is not believed, the graph is rewritten."""
    saved(files, matmul(1024))
    words = ("-m", "model=m.onnx", "shapes.n=[1,2,4]")

    whole = files.mobuild(*words, "hardware=l4").out.splitlines()
    done = files.mobuild(*words, "hardware=l4,t4", "precision=fp16")
    half = done.out.splitlines()

    assert [weights_mib(files, each) for each in whole] == [pytest.approx(4, abs=0.1)]
    assert [weights_mib(files, each) for each in half] == [pytest.approx(2, abs=0.1)] * 2
    assert [measured(files, each)["precision"] for each in half] == [["fp16"]] * 2
    assert "may compute in float32" not in done.err


def test_float32_for_turing_ends_before_the_builder_and_names_card_and_remedy(files: Project) -> None:
    """trt-memory-and-target: the builder's words are Myelin's."""
    saved(files, matmul())

    done = files.mobuild("model=m.onnx", "shapes.n=4", "hardware=t4", check=False)
    forced = files.mobuild(AS_IT_IS, "model=m.onnx", "shapes.n=4", "hardware=t4", "check.ignore=[R3]", check=False)

    assert (done.status, forced.status) == (1, 1)
    assert "R3: model of node 'sanitized': TensorRT-RTX 1.7.1.116 has no float32 MatMul" in done.err
    assert "compute capability 7.5" in done.err
    assert "\n  precision=fp16\n" in done.err
    assert "Turing (SM75): FP32 GEMM is not supported" in forced.err
    assert "precision=fp16" in forced.err


@pytest.mark.skipif(not cuda.probe()[1], reason="a GPU is here")
@pytest.mark.parametrize("verb", ["check", "build"])
def test_the_card_that_is_here_is_no_target_where_there_is_none(files: Project, verb: str) -> None:
    """trt-memory-and-target: CURRENT without a GPU."""
    saved(files, matmul())

    done = files.mobuild(verb, "model=m.onnx", "shapes.n=4", "hardware=auto", check=False)

    assert (done.status, done.out) == (1, "")
    assert done.errors[0].startswith("hardware=auto: no CUDA driver here")
    assert "hardware=l4 for a card that is not here" in done.errors[0]


def test_a_workspace_that_is_too_small_is_told_for_a_network_that_needs_one(files: Project) -> None:
    """trt-memory-and-target: a sum alone needs none, and builds in 1 KiB."""
    random = np.random.default_rng(0)
    weights = [
        tensor(name, random.standard_normal(shape).astype("f4"))
        for name, shape in (("a", (64, 3, 3, 3)), ("b", (256, 64, 3, 3)), ("c", (4096, 64)))
    ]
    nodes = [
        node("Conv", ["x", "a"], ["1"]),
        node("Relu", ["1"], ["2"]),
        node("Conv", ["2", "b"], ["3"]),
        node("Flatten", ["3"], ["4"]),
        node("MatMul", ["4", "c"], ["y"]),
    ]
    saved(files, model(nodes, [value("x", [1, 3, 8, 8])], [value("y", [1, 64])], weights), "wide")
    saved(files, graph([node("Add", ["x", "x"], ["y"])]), "sum")

    small = files.mobuild(AS_IT_IS, "model=wide.onnx", "hardware=l4", "workspace=1KiB", check=False)
    fine = files.mobuild(AS_IT_IS, "model=sum.onnx", "hardware=l4", "workspace=1KiB")

    assert (small.status, fine.status) == (1, 0)
    assert "within workspace limit" in small.err or "OutOfMemory" in small.err
    assert "the builder has too little scratch memory: give it more: workspace=4GiB" in small.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["backend.typing=weak", "precision=fp16"], "R4", "weak typing was removed in 11.0"),
        (["backend.raw={FP16: true}"], "R4", "BuilderFlag.FP16 was removed in 11.0"),
        (["backend.raw={INT8: true}"], "R4", "BuilderFlag.INT8 was removed in 11.0"),
        (["precision=fp16"], "", ""),
    ],
)
@pytest.mark.parametrize("version", ["10.4", "11.4"])
def test_flags_of_precision_are_refused_for_a_tensorrt_that_has_none(
    files: Project, words: list[str], code: str, said: str, version: str
) -> None:
    """trt11-fp16-gone: KataGo#1206; with types in the graph, and with TensorRT 10, nothing is said."""
    saved(files, matmul())
    asked = ("model=m.onnx", "hardware=l4", "backend=tensorrt", f'backend.version="{version}"', "shapes.n=4")

    done = files.mobuild("check", *asked, *words, check=False)

    is_gone = bool(code) and version.startswith("11")
    assert (done.status, codes(done)) == (int(is_gone), [f"{code}!"] * is_gone)
    assert not is_gone or (said in done.out and "types in the graph: precision=… writes them" in done.out)


def test_a_command_line_of_trtexec_that_asks_for_half_is_refused_for_tensorrt_11(tmp_path: Path) -> None:
    """trt11-fp16-gone: a line that the recipe itself runs."""
    line = "sh trtexec --onnx=m.onnx --fp16 --saveEngine={out}"
    nodes = f'  plan: {{kind: command, cmd: "{line}", out: .plan}}\n'
    engine = "  onnx: {kind: source, uri: m.onnx}\n  engine: {kind: build_engine, needs: {model: onnx}}\n"
    project = recipe_project(tmp_path, nodes + engine)
    project.write("trtexec", "")
    saved(project, matmul())
    words = ("check", "target=[plan,engine]", "hardware=l4", "backend=tensorrt", "shapes.n=4")

    gone = project.mobuild(*words, 'backend.version="11.4"', check=False)
    there = project.mobuild(*words, 'backend.version="10.4"', check=False)

    assert (gone.status, codes(gone)) == (1, ["R5!"])
    assert "node 'plan': trtexec: --fp16 was removed in 11.0" in gone.out
    assert "types in the graph: precision=… writes them" in gone.out
    assert (there.status, codes(there)) == (0, [])


# trt-profile, trt-batch-const


def fixed(target: list[int], name: str = "/head/Reshape") -> Any:
    """x [n, 16] → Relu → Reshape to sizes that are constants → MatMul."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Reshape", ["r", "to"], ["s"], name),
        node("MatMul", ["s", "w"], ["y"]),
    ]
    tensors = [tensor("to", target), tensor("w", np.ones((target[-1], 3), np.float32))]
    return model(nodes, [value("x", ["n", 16])], [value("y", None)], tensors)


def joined(operator: str, table: Any, name: str, **attributes: Any) -> Any:
    """x [n, 16] with a table whose rows are those of one batch."""
    made = node(operator, ["x", "table"], ["y"], name, **attributes)
    return model([made], [value("x", ["n", 16])], [value("y", None)], [tensor("table", table)])


@pytest.mark.parametrize(
    ("made", "sizes", "said"),
    [
        (fixed([1, 16]), "[1,2,4]", ["IShuffleLayer /head/Reshape", "reshape would change volume"]),
        (fixed([2, 8], ""), "[1,2,4]", ["IShuffleLayer node_of_s", "reshape would change volume"]),
        (fixed([4, 4, 4], "/blocks.0/Reshape_1"), "[4,4,8]", ["/blocks.0/Reshape_1", "would change volume"]),
        (joined("Concat", np.ones((4, 1), "f4"), "/cls", axis=1), "[1,2,4]", ["take n=1: node '/cls' (Concat)"]),
        (joined("Add", np.ones((3, 16), "f4"), "/pos/Add"), "[3,3,4]", ["take n=4: node '/pos/Add' (Add)"]),
    ],
)
def test_a_batch_that_is_a_constant_of_the_graph_fails_the_build_and_names_the_node(
    files: Project, made: Any, sizes: str, said: list[str]
) -> None:
    """trt-batch-const: rf-detr#376, ultralytics#17541; also where the builder builds, and the engine would fail."""
    saved(files, made)

    done = files.mobuild(AS_IT_IS, "model=m.onnx", "hardware=l4", f"shapes.n={sizes}", check=False)

    assert (done.status, done.out) == (1, "")
    assert [words for words in said if words not in done.err] == []
    assert "with that axis dynamic" in done.err


@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        (fixed([-1, 4]), "[1,2,4]"),
        (fixed([0, 16]), "[1,2,4]"),
        (fixed([2, 8]), "1"),
        (joined("Concat", np.ones((4, 1), "f4"), "/cls", axis=1), "4"),
        (joined("Add", np.ones((1, 16), "f4"), "/pos/Add"), "[1,2,4]"),
    ],
)
def test_sizes_that_the_graph_takes_raise_nothing(files: Project, made: Any, sizes: str) -> None:
    """trt-batch-const, trt-profile: controls."""
    saved(files, made)

    assert codes(files.mobuild("check", "model=m.onnx", "hardware=l4", f"shapes.n={sizes}")) == []
    assert files.mobuild(AS_IT_IS, "model=m.onnx", "hardware=l4", f"shapes.n={sizes}").out.endswith("engine.plan\n")


# trt-version-mismatch

SITE = "/home/user/venv/lib/python3.11/site-packages"
SYSTEM = "/usr/lib/x86_64-linux-gnu/libnvinfer.so.8.6.1"
TWO = {
    "packages": {"tensorrt": {"version": "10.3.0.26"}, "tensorrt-cu12-libs": {"version": "10.3.0.26"}},
    f"names {SITE}/tensorrt_libs": ["libnvinfer.so.10"],
    "known_libraries": {"libnvinfer.so.8": SYSTEM},
    f"real {SYSTEM}": SYSTEM,
}
BOTH = (f"10.3.0.26 in {SITE}/tensorrt_libs/libnvinfer.so.10", f"8.6.1 in {SYSTEM}")
MET = (
    "[TRT] [E] IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion stdVersionRead == "
    "kSERIALIZATION_VERSION failed.Version tag does not match. Note: Current Version: 237, Serialized Engine Version: "
    "239)",
    "[TRT] [E] 6: The engine plan file is not compatible with this version of TensorRT, expecting library version "
    "10.3.0.26 got 8.6.1.6, please rebuild.",
)


def test_two_tensorrt_on_one_machine_are_told_with_their_versions_and_libraries(files: Project) -> None:
    """trt-version-mismatch: TensorRT#3898, #2544."""
    files.write("machine.json", recording("healthy", TWO))

    done = files.mobuild("doctor", "machine.json", check=False)

    assert done.status == 1
    assert "D41 error: TensorRT: several versions can be found" in done.out
    assert all(words in done.out for words in BOTH)
    assert "an engine opens in its own version alone" in done.out


@pytest.mark.parametrize("message", MET)
@pytest.mark.parametrize("is_recorded", [True, False])
def test_an_engine_of_another_version_is_told_with_the_libraries_that_are_here(message: str, is_recorded: bool) -> None:
    """trt-version-mismatch: ComfyUI-Dwpose-Tensorrt#5, by the log that it left."""
    found = findings("healthy" if is_recorded else "no_gpu", TWO if is_recorded else None, message=message)["D91"]

    assert found.severity == "error"
    assert "another TensorRT built this engine than the one that opens it" in found.why
    if is_recorded:
        assert all(words in found.found for words in BOTH)
    else:
        assert found.found.endswith("; here no TensorRT is found")
    assert "build it again where it shall run" in found.fix
