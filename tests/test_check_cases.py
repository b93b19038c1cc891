"""Faults met in the field, each as a test of its kind: what `check` says of it, and what it leaves alone."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mobuild.contract.rules import Model, Request, check_model
from mobuild.onnxmodel.summary import summary
from tests.onnxmodel.models import matmul, model, save_external, value
from tests.projects import Finished, Project, hardware, toy_project

RTX = ("hardware=l4",)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@pytest.fixture
def files(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    return project


def checked(project: Project, made: Any, *words: str) -> Finished:
    onnx.save(made, project.root / "m.onnx")
    return project.mobuild("check", "model=m.onnx", *words, check=False)


def codes(done: Finished) -> list[str]:
    """`R10!` for an error, `R10` for a warning; notes are left out."""
    found = re.findall(r"^(error|warning) +([A-Z]\d+)", done.out, re.MULTILINE)
    return [f"{code}{'!' * (word == 'error')}" for word, code in found]


def judged(made: Any, tmp_path: Path, shapes: Any = None, backend: str = "tensorrt_rtx") -> tuple[list[str], str]:
    """The codes of the findings about a model, as `codes` has them, and all their words."""
    onnx.save(made, tmp_path / "m.onnx")
    request = Request(hardware("l4"), backend, "1.7.1.116" if backend == "tensorrt_rtx" else "1.32.0")
    found = check_model(Model(request, summary(tmp_path / "m.onnx"), "onnx", shapes=shapes))
    loud = [each for each in found if each.severity != "note"]
    said = [f"{each.code}{'!' * (each.severity == 'error')}" for each in loud]
    return said, "\n".join(f"{each.where}: {each.message}" for each in loud)


def one(operator: str, kind: int = FLOAT, shape: Any = (2, 4), out: int | None = None, **attributes: Any) -> Any:
    """A model of one node without a name, from `x` to `y`."""
    inputs = attributes.pop("inputs", ["x"])
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    opsets = [helper.make_opsetid("", 18)] + [helper.make_opsetid("acme", 1)] * (attributes.get("domain") == "acme")
    graph = helper.make_graph([node], "g", [value("x", shape, kind)], [value("y", None, out or kind)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def relu(opset: int) -> Any:
    return model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])], opset=opset)


def branches(*shapes: tuple[int, ...]) -> Any:
    def constant(name: str, shape: tuple[int, ...]) -> Any:
        zeros = numpy_helper.from_array(np.zeros(shape, np.float32))
        node = helper.make_node("Constant", [], [name], value=zeros)
        return helper.make_graph([node], name, [], [value(name, shape)])

    then, other = (constant(name, shape) for name, shape in zip("ab", shapes, strict=True))
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=other)
    return model([node], [value("c", [], TensorProto.BOOL)], [value("y", None)])


OPERATORS = {
    "custom domain": (one("MyNorm", domain="acme", name="head.norm"), ["R10!"], ["node 'head.norm'", "domain 'acme'"]),
    "string": (one("Identity", TensorProto.STRING), ["F2!", "F2!"], ["input 'x'", "no type string"]),
    "uint8 computed": (one("Add", TensorProto.UINT8, inputs=["x", "x"]), ["O1!"], ["node 'y'", "uint8"]),
    "float64": (one("Exp", TensorProto.DOUBLE), ["F2", "F2"], ["computes float64 as float32"]),
    "Det": (one("Det", shape=(2, 4, 4)), ["R10!"], ["node 'y'", "operator Det", "nor does any TensorRT"]),
    "Unique": (one("Unique", shape=(8,)), ["R10!"], ["operator Unique"]),
    "Multinomial": (one("Multinomial", out=TensorProto.INT32, sample_size=2), ["R10!"], ["operator Multinomial"]),
    "BitShift": (
        one("BitShift", TensorProto.UINT32, inputs=["x", "x"], direction="LEFT"),
        ["F2!", "F2!", "R10!"],
        ["operator BitShift", "no type uint32"],
    ),
    "ConvInteger": (
        one("ConvInteger", TensorProto.UINT8, (1, 1, 4, 4), TensorProto.INT32, inputs=["x", "x"]),
        ["R10!", "O1!"],
        ["node 'y'", "operator ConvInteger", "nor does any TensorRT"],
    ),
    "SequenceAt": (
        model(
            [
                helper.make_node("SequenceConstruct", ["x"], ["s"]),
                helper.make_node("SequenceAt", ["s", "i"], ["y"], name="take"),
            ],
            [value("x", [2]), value("i", [], INT64)],
            [value("y", None)],
        ),
        ["R10!", "R10!"],
        ["node 's': operator SequenceConstruct", "node 'take': operator SequenceAt"],
    ),
    "int64 beyond int32": (
        model(
            [helper.make_node("Add", ["x", "k"], ["y"])],
            [value("x", [2], INT64)],
            [value("y", [2], INT64)],
            [numpy_helper.from_array(np.array([1 << 40, 1]), "k")],
        ),
        [],
        [],
    ),
    "NonZero": (one("NonZero", out=INT64), ["R10!"], ["operator NonZero"]),
    "branches of other ranks": (branches((2, 4), (4,)), ["S1!"], ["node 'choice'", "ranks 1 and 2"]),
    "branches of one rank": (branches((2, 4), (4, 4)), [], []),
    "newest opset": (relu(99), ["R9"], ["opset 99"]),
    "plain": (one("Softmax"), [], []),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_and_types_that_the_parser_refuses(tmp_path: Path, name: str) -> None:
    """trt-ops: TensorRT#1775, mmdeploy#2398, onnx-tensorrt#553."""
    made, expected, words = OPERATORS[name]

    found, said = judged(made, tmp_path)

    assert found == expected
    assert [word for word in words if word not in said] == []


def test_operators_are_refused_all_at_once(files: Project) -> None:
    done = checked(files, OPERATORS["BitShift"][0], *RTX)

    assert (done.status, codes(done)) == (1, ["F2!", "F2!", "R10!"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "input 'x', axis 0: 'n' has no size in shapes"),
        (("shapes.m=[1,2,4]",), "shapes: axis 'm' is no dynamic axis of the model"),
        (("shapes.x=[1,2,4]",), "'x' is no dynamic axis of the model. 'x' is an input: sizes are given by axis"),
        (("shapes=[{n: 1}, {m: 2}]",), "shapes: profile 1: axis 'm' is no dynamic axis of the model"),
        (("shapes=[{n: 1}, {}]",), "profile 1: input 'x', axis 0: 'n' has no size in shapes"),
        (("shapes.n=[8,4,16]",), "node 'engine': shapes: axis 'n': min 8 is larger than opt 4"),
        (("shapes.n=[1,32,16]",), "node 'engine': shapes: axis 'n': opt 32 is larger than max 16"),
    ],
)
def test_no_profile_is_invented(files: Project, words: tuple[str, ...], said: str) -> None:
    """trt-profile: TensorRT#1116, #1812, #4204, #1111."""
    done = checked(files, matmul(), *RTX, *words)

    is_unknown = "is no dynamic axis" in said  # which is no size that is missing: the request itself is wrong
    assert (done.status, codes(done)) == (2 if is_unknown else 1, ["P1!"])
    assert said in done.out
    assert codes(checked(files, matmul(), *RTX, "shapes.n=[1,2,4]")) == []


def test_the_hint_for_missing_sizes_can_be_appended_whatever_the_axes_are_called(files: Project) -> None:
    shapes = {"x": ["p2o.DynamicDimension.0", 3, "?", "?"], "input.1": [None, "width"], "in:0": ["len-1"]}
    nodes = [helper.make_node("Relu", [name], [f"y{i}"]) for i, name in enumerate(shapes)]
    ends = [value(name, shape) for name, shape in shapes.items()], [value(f"y{i}", None) for i in range(len(shapes))]
    made = helper.make_model(
        helper.make_graph(nodes, "g", *ends), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )

    done = checked(files, made, *RTX)
    (hint,) = re.findall(r"^ *add (.*), or one number each$", done.out, re.MULTILINE)
    words = [word.replace("[min,opt,max]", "[2,4,8]") for word in shlex.split(hint)]

    assert codes(done) == ["P1!"]
    assert len(words) == 6
    assert codes(checked(files, made, *RTX, *words)) == []
    assert files.mobuild("model=m.onnx", *RTX, *words).status == 0


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [("Reshape", ["x", "t"]), ("Expand", ["x", "t"]), ("Tile", ["x", "s"]), ("Slice", ["x", "zeros", "s"])],
)
def test_an_input_that_holds_sizes_needs_values_as_the_builder_says(
    files: Project, operator: str, inputs: list[str]
) -> None:
    nodes = [helper.make_node("Cast", ["s"], ["t"], to=INT64), helper.make_node(operator, inputs, ["y"])]
    zeros = numpy_helper.from_array(np.zeros(2, np.int64), "zeros")
    ends = [value("x", [4, 6]), value("s", [2], INT64)], [value("y", None)]
    made = helper.make_model(
        helper.make_graph(nodes, "g", *ends, [zeros]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )

    done = checked(files, made, *RTX)
    unheard = files.mobuild("model=m.onnx", *RTX, "check.ignore=[P1]", check=False)
    given = "shapes.s=[[4,6],[4,6],[4,6]]"

    assert codes(done) == ["P1!"]
    assert "input 's': what it holds decides sizes" in done.out
    assert "add shapes.s=[[…,…],[…,…],[…,…]]" in done.out
    assert "no optimization profile has been defined" in unheard.err
    assert codes(checked(files, made, *RTX, given)) == []
    assert files.mobuild("model=m.onnx", *RTX, given).status == 0


def test_operators_that_broadcast_as_before_opset_7_are_found_as_the_builder_finds_them(files: Project) -> None:
    made = one("Add", shape=(2, 3), inputs=["x", "x"], broadcast=1, axis=0)
    made.opset_import[0].version, made.ir_version = 6, 3

    done = checked(files, made, *RTX)
    unheard = files.mobuild("model=m.onnx", *RTX, "check.ignore=[O1]", check=False)

    assert codes(done) == ["O1!"]
    assert "onnx.version_converter.convert_version(model, 13)" in done.out
    assert "Pre-opset 7 broadcasting is unsupported" in unheard.err
    assert "convert_version(model, 13)" in unheard.err


def test_float32_for_turing_and_a_card_that_the_builder_lacks(files: Project) -> None:
    """trt-memory-and-target: TensorRT#512, #4258."""
    turing = checked(files, matmul(), "hardware=t4", "shapes.n=4")
    hopper = checked(files, matmul(), "hardware=h100", "backend=tensorrt_rtx", "shapes.n=4")
    half = checked(files, matmul(), "hardware=t4", "shapes.n=4", "precision=fp16")

    assert codes(turing) == ["R3!", "R13"]
    assert "no float32 MatMul for compute capability 7.5" in turing.out
    assert codes(hopper) == ["R13!"]
    assert "has no compute capability 9.0" in hopper.out
    assert (half.status, codes(half)) == (0, ["R13"])


def test_a_build_and_a_check_agree_on_sizes_that_are_missing_or_fall(files: Project) -> None:
    """trt-profile: no engine of sizes that nobody gave."""
    onnx.save(matmul(), files.root / "m.onnx")
    words = ("model=m.onnx", *RTX)

    missing = files.mobuild(*words, check=False)
    falling = files.mobuild(*words, "shapes.n=[8,4,16]", check=False)

    assert (missing.status, missing.out, falling.status, falling.out) == (1, "", 1, "")
    assert "input 'x', axis 0: 'n' has no size in shapes" in missing.err
    assert "P1: node 'engine': shapes: axis 'n': min 8 is larger than opt 4" in falling.err


def test_precision_that_the_backend_lacks_is_a_finding(files: Project) -> None:
    done = checked(files, matmul(), "hardware=cpu", "precision=bf16", "shapes.n=4")
    turing = checked(files, matmul(), "hardware=t4", "precision=bf16", "shapes.n=4")

    assert (done.status, codes(done)) == (1, ["R3!"])
    assert "node 'engine': precision bf16: ONNX Runtime has no bfloat16 kernels for CPUs" in done.out
    assert codes(turing).count("R3!") == 1
    assert "Turing (7.5) has no bf16" in turing.out


def test_precision_flags_are_gone_with_tensorrt_11(files: Project) -> None:
    words = (*RTX, "backend=tensorrt", "backend.typing=weak", "precision=fp16", "shapes.n=4")

    gone = checked(files, matmul(), *words, "backend.version=11.0")

    assert (gone.status, codes(gone)) == (1, ["R4!"])
    assert "option backend.typing: TensorRT 11.0: backend.typing=weak: weak typing was removed in 11.0" in gone.out
    assert codes(checked(files, matmul(), *words, "backend.version=10.12")) == ["R4"]
    assert codes(checked(files, matmul(), *words, "backend.version=10.4")) == []


def newest(ir: int, opset: int) -> Any:
    made = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n"])], [value("y", ["n"])], opset=opset)
    made.ir_version = ir
    return made


@pytest.mark.parametrize(
    ("ir", "opset", "runtime", "expected"),
    [
        (99, 21, "", ["R9!"]),
        (10, 21, "", []),
        (14, 21, "1.31.1", []),  # which the sanitized model, of IR version 10, does not stop
        (14, 21, "1.17.3", ["R9!"]),
        (10, 21, "1.17.3", ["R9!"]),
    ],
)
def test_format_is_judged_by_the_runtime_that_will_load_it(
    files: Project, ir: int, opset: int, runtime: str, expected: list[str]
) -> None:
    """ort-ir-opset: ORT#20559, #23602, enpasos/jax2onnx#28."""
    words = ("hardware=cpu", "shapes.n=4", *([f"check.runtime={runtime}"] if runtime else []))

    done = checked(files, newest(ir, opset), *words)

    assert codes(done) == expected
    assert f"opset {opset}, IR version {ir}" in done.out or not expected


def test_the_runtime_is_that_of_the_interpreter_that_builds(files: Project) -> None:
    import venv

    venv.create(files.root / "venv", symlinks=True)
    site = next((files.root / "venv" / "lib").glob("python*/site-packages"))
    (site / "onnxruntime-1.17.3.dist-info").mkdir()
    (site / "onnxruntime-1.17.3.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: onnxruntime\nVersion: 1.17.3\n"
    )

    done = checked(files, newest(10, 21), "hardware=cpu", "shapes.n=4", "nodes.engine.python=venv/bin/python")

    assert codes(done) == ["R9!"]
    assert "ONNX Runtime 1.17.3 loads opsets up to 20" in done.out
    assert "ONNX Runtime 1.18 loads opset 21" in done.out


def test_output_names_repeated_or_called_like_an_input(files: Project, tmp_path: Path) -> None:
    made = matmul()
    made.graph.output.append(made.graph.output[0])

    done = checked(files, made, *RTX, "shapes.n=4")

    assert (done.status, codes(done)) == (1, ["F1!"])
    assert "output 'y' stands 2 times" in done.out
    asked = toy_project(tmp_path).mobuild("check", "nodes.onnx.outputs=[x]", check=False)
    assert (asked.status, codes(asked)) == (1, ["F1!"])


@pytest.mark.parametrize("location", ["../elsewhere/w.bin", "/w.bin"])
def test_external_data_outside_the_folder(files: Project, location: str) -> None:
    made = save_external(files.root / "net")
    escaped = onnx.load(made, load_external_data=False)
    escaped.graph.initializer[0].external_data[0].value = location
    made.write_bytes(escaped.SerializeToString())

    done = files.mobuild("check", "model=net/m.onnx", *RTX, "shapes.n=4", check=False)

    assert (done.status, codes(done)) == (1, ["N1!"])
    assert location in done.out


def test_external_data_by_links_of_a_hub_is_fine(files: Project) -> None:
    made = save_external(files.root / "blobs")
    hub = files.root / "snapshot"
    hub.mkdir()
    for file in (made, made.parent / "w.bin"):
        (hub / file.name).symlink_to(file)

    done = files.mobuild("check", "model=snapshot/m.onnx", *RTX, "shapes.n=4", check=False)

    assert (done.status, codes(done)) == (0, [])


def test_fewer_processors_than_the_machine_has_are_no_fault(files: Project) -> None:
    """ort-affinity: ORT#8313, #10113; a control, as in a container with a CPU set.

    Nothing is said, and the session's threads print nothing.
    """
    onnx.save(matmul(), files.root / "m.onnx")
    words = ["target=engine", "model=m.onnx", "hardware=cpu", "shapes.n=4"]
    alone = (
        "import os, subprocess, sys\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        f"done = subprocess.run([sys.executable, '-m', 'mobuild', *{words}], capture_output=True, text=True)\n"
        "print(done.returncode, done.stderr)\n"
    )

    said = files.python(alone).out

    assert said.startswith("0 ")
    assert "warning" not in said
    assert "affinity" not in files.mobuild("log", "engine", *words[1:]).out
