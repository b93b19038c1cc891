"""`mobuild check`, and what a build refuses once it knows the graph."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnxmodel.models import embedding, matmul, model, save_external, value
from tests.projects import Finished, Project, recipe_project, toy_project

ZEROS = np.zeros((1, 4), np.int64)


@pytest.fixture
def files(tmp_path: Path) -> Project:
    """A project without recipes, for ONNX files."""
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    return project


def put(project: Project, made: Any, name: str = "m.onnx") -> None:
    onnx.save(made, project.root / name)


def said(done: Finished) -> str:
    """What was printed, without the digits that overrides give to the names of variants."""
    return re.sub(r"\+[0-9a-f]{8}", "", done.out + done.err)


def states(project: Project, variant: str) -> dict[str, str]:
    """Node → state of the last run of a variant whose name ends in digits."""
    (found,) = (project.root / "build" / "m").glob(f"{variant}+????????")
    return project.states(found.name, "m")


def unsupported() -> Any:
    """Two nodes that TensorRT-RTX has no plugin for."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"], name="find"), helper.make_node("NonZero", ["x"], ["z"])]
    outputs = [value(name, [2, "k"], TensorProto.INT64) for name in ("y", "z")]
    return model(nodes, [value("x", ["n", 4])], outputs)


def test_a_fine_model_has_nothing_to_say(files: Project) -> None:
    put(files, matmul())

    done = files.mobuild("check", "model=m.onnx", "hardware=l4", "shapes.n=[1,4,8]")

    assert (done.status, done.out, done.err) == (0, "0 errors, 0 warnings, 0 notes\n", "")


def test_an_onnx_file_is_judged_without_a_build(files: Project) -> None:
    put(files, unsupported())

    done = files.mobuild("check", "model=m.onnx", "hardware=l4", "shapes.n=[1,4,8]", check=False)

    assert done.status == 1
    assert said(done).splitlines() == [
        "error   R10  m/l4 engine: nodes 'find', 'z': operator NonZero: TensorRT-RTX takes no NonZero",
        "             TensorRT has NonZero from 8.5 on: backend=tensorrt; or export the model without it, or say that "
        "a plugin has it: check.plugins=[NonZero]; or backend=onnxruntime",
        "1 error, 0 warnings, 0 notes",
    ]
    assert not (files.root / "build").exists()


def test_a_version_on_the_command_line_keeps_its_zeros(files: Project) -> None:
    put(files, matmul())

    words = ("check", "model=m.onnx", "hardware=rtx5090", "backend=tensorrt", "shapes.n=4")

    assert files.mobuild(*words, "backend.version=10.10", check=False).status == 0
    assert "TensorRT 10.1 ends at 9.0" in files.mobuild(*words, "backend.version=10.1", check=False).out


def test_an_older_builder_is_judged_by_its_own_tables(files: Project) -> None:
    put(files, unsupported())
    stft = helper.make_node("STFT", ["x", "s", "", "l"], ["y"], name="spectrum")
    lengths = [helper.make_tensor(name, TensorProto.INT64, [], [4]) for name in ("s", "l")]
    put(files, model([stft], [value("x", ["n", 16, 1])], [value("y", None)], lengths), "stft.onnx")
    words = ("check", "model=stft.onnx", "hardware=t4", "backend=tensorrt", "shapes.n=4")

    old = files.mobuild(*words, "backend.version=10.4", check=False)

    assert old.status == 1
    assert "node 'spectrum': operator STFT: STFT is there from TensorRT 10.5 on" in old.out
    assert files.mobuild(*words, "backend.version=10.5").status == 0


def test_findings_are_data_for_scripts(files: Project) -> None:
    put(files, unsupported())

    done = files.mobuild("check", "model=m.onnx", "hardware=l4", "shapes.n=4", "format=json", check=False)

    document = json.loads(done.out)
    assert (document["schema"], document["not_run"]) == (1, [])
    (found,) = document["findings"]
    assert {key: found[key] for key in ("recipe", "variant", "node", "code", "family", "severity")} == {
        "recipe": "m",
        "variant": found["variant"],
        "node": "engine",
        "code": "R10",
        "family": "operators",
        "severity": "error",
    }


def test_findings_are_sarif_for_code_scanning(tmp_path: Path) -> None:
    project = toy_project(tmp_path)

    done = project.mobuild("check", "hardware=t4", "format=sarif")

    document = json.loads(done.out)
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    assert {"R13", "N1"} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [("R13", "warning")]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "recipes/toy.yaml"


def test_a_finding_about_a_model_without_a_recipe_lies_at_its_file(files: Project) -> None:
    onnx.save(matmul(), files.root / "my größe 7%.onnx")

    done = files.mobuild("check", "model='my größe 7%.onnx'", "hardware=l4", "format=sarif", check=False)

    (result,) = json.loads(done.out)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20gr%C3%B6%C3%9Fe%207%25.onnx"


def test_format_of_another_verb_is_not_understood(files: Project) -> None:
    put(files, matmul())

    assert files.mobuild("check", "model=m.onnx", "format=dot", check=False).status == 2
    assert files.mobuild("plan", "model=m.onnx", "format=sarif", check=False).status == 2


def test_a_never_built_recipe_lists_what_is_not_run(tmp_path: Path) -> None:
    done = toy_project(tmp_path).mobuild("check", "-m", "hardware=l4,l20")

    assert done.out.splitlines() == [
        "not run      toy/l4,l20 engine: format, operators, quantisation, profiles, memory, tokens: node 'sanitized' "
        "was never built",
        "0 errors, 0 warnings, 0 notes",
    ]


def test_each_variant_of_a_sweep_is_judged_alone(tmp_path: Path) -> None:
    words = ("check", "-m", "hardware=v100,l4", "backend=tensorrt", "backend.version=10.4,10.5")

    done = toy_project(tmp_path).mobuild(*words, check=False)

    assert done.status == 1
    errors = [line for line in done.out.splitlines() if line.startswith("error")]
    assert len(errors) == 1
    assert "toy/v100+tensorrt" in errors[0]
    assert "compute capability 7.0: TensorRT 10.5 starts at 7.5; the last TensorRT that fits is 10.4" in errors[0]


def test_strict_makes_errors_of_warnings(tmp_path: Path) -> None:
    project = toy_project(tmp_path)

    assert project.mobuild("check", "hardware=t4").status == 0
    assert project.mobuild("check", "hardware=t4", "check.strict=true", check=False).status == 1


def test_a_rule_can_be_ignored_by_its_code(files: Project) -> None:
    put(files, unsupported())
    words = ("check", "model=m.onnx", "hardware=l4", "shapes.n=4")

    unknown = files.mobuild(*words, "check.ignore=[R100]", check=False)

    assert files.mobuild(*words, "check.ignore=[R10]").out == "0 errors, 0 warnings, 0 notes\n"
    assert unknown.status == 2
    assert "check.ignore: there is no rule 'R100'. Did you mean 'R10'?" in unknown.err


def test_names_asked_twice_are_refused_before_the_export(tmp_path: Path) -> None:
    project = toy_project(tmp_path)

    checked = project.mobuild("check", "nodes.onnx.outputs=[y,y]", check=False)
    built = project.mobuild("nodes.onnx.outputs=[x]", check=False)

    assert checked.status == 1
    assert "node 'onnx': output 'y' stands 2 times" in checked.out
    assert built.status == 1
    assert "F1: node 'onnx': 'x' is both an input and an output" in built.err
    assert not (project.root / "build" / "toy").exists()


def test_outputs_with_shapes_of_their_own_are_names_as_well(tmp_path: Path) -> None:
    project = toy_project(tmp_path)

    project.edit("recipes/toy.yaml", "outputs: [y]", "outputs: {y: [batch, 4]}")
    assert project.mobuild("check").status == 0
    project.edit("recipes/toy.yaml", "outputs: {y: [batch, 4]}", "outputs: {x: [batch, 4]}")
    assert project.mobuild("check", check=False).status == 1


def test_a_node_that_cannot_run_is_a_finding(tmp_path: Path) -> None:
    done = toy_project(tmp_path).mobuild("check", "nodes.weights.uri=models/none.pt", check=False)

    assert done.status == 1
    assert "error   N1   toy/cpu weights: node 'weights': source '" in said(done)


def test_weights_of_a_foreign_model_are_not_read(files: Project, tmp_path: Path) -> None:
    made = save_external(files.root / "net")
    (made.parent / "w.bin").write_bytes(b"\0" * (64 * 64 * 4))  # the values do not matter

    done = files.mobuild("check", "model=net/m.onnx", "hardware=l4", "shapes.n=4")
    (made.parent / "w.bin").unlink()
    without = files.mobuild("check", "model=net/m.onnx", "hardware=l4", "shapes.n=4", check=False)

    assert done.status == 0
    assert without.status == 1
    assert "w.bin" in without.out + without.err


def test_ids_beyond_a_table_are_refused(files: Project) -> None:
    made = embedding()
    helper.set_model_props(made, {"mobuild.range.ids": "0,52"})
    put(files, made)

    done = files.mobuild("check", "model=m.onnx", "shapes={batch: 1, length: 4}", check=False)

    assert done.status == 1
    assert "input 'ids': its range goes up to 52, its table has 50 rows" in done.out


def test_check_reads_records_without_onnx(tmp_path: Path) -> None:
    project = toy_project(tmp_path)
    project.mobuild("target=sanitized")

    done = project.python(
        "import sys; from mobuild.cli import run; status = run(['check', 'hardware=t4', 'precision=fp32']);"
        "print(status, sorted({'onnx', 'torch', 'numpy', 'onnxruntime', 'tensorrt_rtx'} & set(sys.modules)))"
    )

    lines = done.out.splitlines()
    assert lines[-1] == "1 []"
    assert "error   R3   toy/t4 engine: model of node 'sanitized'" in lines[0]
    assert project.mobuild("check", "hardware=t4", "precision=fp16").status == 0  # quantize will change the types


def test_a_build_refuses_a_graph_before_what_depends_on_it(files: Project) -> None:
    """What simplifying might have mended is judged of what it made."""
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add", name="gather")
    constants = [numpy_helper.from_array(array, name) for name, array in (("i", ZEROS), ("u", ZEROS.astype("f4")))]
    put(files, model([node], [value("x", ["n", 4])], [value("y", ["n", 4])], constants))

    done = files.mobuild("model=m.onnx", "hardware=l4", "precision=fp16", "shapes.n=4", check=False)

    assert done.status == 1
    assert "node 'quantized': O1: node 'gather': TensorRT-RTX 1.7.1.116: a scatter reduces nothing" in done.err
    assert states(files, "l4+fp16") == {
        "onnx": "fresh",
        "sanitized": "built",
        "quantized": "failed",
        "engine": "blocked",
    }


def test_what_one_card_cannot_have_is_still_built_for_another(files: Project) -> None:
    put(files, unsupported())

    done = files.mobuild(
        "-m", "model=m.onnx", "hardware=cpu,l4", "precision=fp16", "builders=[onnxruntime,tensorrt_rtx]", "shapes.n=4",
        check=False,
    )  # fmt: skip

    assert done.status == 1
    assert states(files, "cpu+fp16")["quantized"] == "built"
    assert states(files, "l4+fp16")["engine"] == "failed"


def test_a_build_warns_of_what_a_rule_is_not_sure_of(files: Project) -> None:
    made = matmul()
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    put(files, made)

    done = files.mobuild("model=m.onnx", "hardware=l4", "shapes.n=64")

    assert "warning: m/l4 engine: P2: input 'x': axes 0, 1 share the name 'n'" in said(done)


def test_commands_are_judged_before_they_run(tmp_path: Path) -> None:
    nodes = (
        "  model: {kind: source, uri: m.onnx}\n"
        '  engine: {kind: command, cmd: "trtexec --onnx={in.model} --workspace=64", in: {model: model}, out: .plan}\n'
        "  other: {kind: build_engine, needs: {model: model}}\n"
    )
    project = recipe_project(tmp_path, nodes)
    put(project, matmul())

    words = ("target=[engine,other]", "hardware=l4", "backend=tensorrt", "backend.version=10.4", "shapes.n=4")
    done = project.mobuild("check", *words, check=False)

    assert done.status == 1
    assert "node 'engine': trtexec: --workspace=64 was removed in 10.0" in done.out
    assert "--memPoolSize=workspace:N" in done.out


def test_a_command_that_cannot_start_is_a_finding(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        "  note: {kind: command, cmd: 'python -u tools/note.py {out}', out: .txt}\n"
        "  script: {kind: command, cmd: 'python tools/nope.py {out}', out: .txt}\n"
        "  program: {kind: command, cmd: 'nosuchtool {out}', out: .txt}\n"
        "  copy: {kind: command, in: {note: note}, cmd: 'cp {in.note} {out}', out: .txt}\n",
        {"tools/note.py": ""},
    )

    done = project.mobuild("check", "target=[copy,script,program]", check=False)

    hint = "             relative paths begin at the project, or at cwd; a program without a path is looked up on PATH"
    assert done.status == 1
    assert done.out.splitlines() == [
        "error   N1   small/cpu script: node 'script': cmd: there is no file 'tools/nope.py' for python to run",
        hint.partition(";")[0],
        "error   N1   small/cpu program: node 'program': cmd: there is no program 'nosuchtool' on PATH",
        hint,
        "2 errors, 0 warnings, 0 notes",
    ]


def test_the_parser_itself_is_asked_on_request(files: Project) -> None:
    pytest.importorskip("tensorrt_rtx")
    put(files, unsupported())

    words = ("check", "model=m.onnx", "hardware=l4", "shapes.n=4", "check.plugins=[NonZero]")

    assert files.mobuild(*words).status == 0
    asked = files.mobuild(*words, "check.parser=true", check=False)
    assert asked.status == 1
    assert "error   N2   m/l4 engine: node 'find': the parser of TensorRT-RTX" in said(asked)
    assert "\n             TensorRT has NonZero from 8.5 on: backend=tensorrt\n" in said(asked)


def test_a_model_outside_of_the_project_is_named_as_it_was_typed(files: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "m.onnx"
    elsewhere.parent.mkdir()
    onnx.save(matmul(), elsewhere)

    done = files.mobuild("check", f"model={elsewhere}", "hardware=l4", check=False)

    assert done.out.startswith(f"error   P1   {elsewhere} l4 engine: ")
