"""Recipes that are wrong: status 2, and a message that names the file, the node, the key and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

STANDARD = "defaults: [/recipe/standard, _self_]\n"


def planned(project: Project, *words: str) -> str:
    """The one error of a plan that cannot be made."""
    done = project.mobuild("plan", *words, check=False)
    assert (done.status, done.out) == (2, ""), done.err
    assert "Traceback" not in done.err
    (message,) = done.errors
    return message


def written(root: Path, text: str) -> Project:
    project = Project(root, root / "cache")
    project.write("recipes/det.yaml", text)
    return project


TEXTS = {
    "a tab": ("nodes:\n\tc: 1\n", "found character '\\t' that cannot start any token", "line 2, column 1"),
    "a key twice": ("target: c\ntarget: d\n", "found duplicate key target", "line 2, column 1"),
    "null as a key": ("nodes:\n  null: {kind: command}\n", "Incompatible key type 'NoneType'", "full_key: nodes"),
    "a list": ("- a\n- b\n", "expected a mapping, found a list", "a recipe has keys: nodes: {…}"),
}


@pytest.mark.parametrize(("text", "what", "where"), TEXTS.values(), ids=list(TEXTS))
def test_a_file_that_is_no_recipe_is_named_with_the_line(tmp_path: Path, text: str, what: str, where: str) -> None:
    message = planned(written(tmp_path, text))

    assert message.startswith(f"{tmp_path}/recipes/det.yaml: ")
    assert what in message and where in message


CASES = {
    "nothing in it": (
        "",
        "recipe 'det': has no nodes, so there is no 'engine' to build\n"
        "  begin it with the standard chain: defaults: [/recipe/standard, _self_]",
    ),
    "a misspelt key": (
        f"{STANDARD}precison: fp16\n",
        "recipe 'det': unknown key 'precison'. Did you mean 'precision'?",
    ),
    "a misspelt default": (
        "defaults: [/recipe/standrad, _self_]\n",
        "recipe 'det': there is no recipe 'standrad'. Did you mean 'standard'?",
    ),
    "nodes without kinds": (
        "nodes: {weights: {uri: a.pt}}\n",
        "recipe 'det', node 'weights': has no kind, so 'uri' is read as a node of a chain",
    ),
    "a cycle": (
        "nodes:\n  engine: {kind: command, cmd: a, needs: {x: b}}\n  b: {kind: command, cmd: a, needs: {x: engine}}\n",
        "recipe 'det': the nodes need each other in a cycle: engine → b → engine",
    ),
    "a misspelt need": (
        f"{STANDARD}nodes: {{engine: {{needs: {{model: sanitised}}}}}}\n",
        "recipe 'det', node 'engine': needs 'model' from 'sanitised', which is no node. Did you mean 'sanitized'?",
    ),
    "a number as an input": (
        STANDARD + "nodes: {onnx: {model: 'a.py:b', inputs: {1: [batch]}}}\n",
        "recipe 'det', node 'onnx', field 'inputs': expected text as a key, found the whole number 1\n  write \"1\":",
    ),
    "inputs as a list": (
        STANDARD + "nodes: {onnx: {model: 'a.py:b', inputs: [x]}}\n",
        "recipe 'det', node 'onnx', field 'inputs': expected a mapping, found the list ['x']",
    ),
    "a number in the environment": (
        "nodes: {engine: {kind: command, cmd: a, env: {THREADS: 1}}}\n",
        "recipe 'det', node 'engine', field 'env', 'THREADS': expected text, found the whole number 1",
    ),
    "an interpolation of nothing": (
        STANDARD + "shapes: {batch: '${nope}'}\nnodes: {onnx: {model: 'a.py:b', inputs: {x: [batch]}}}\n",
        "recipe 'det', node 'engine': Interpolation key 'nope' not found",
    ),
    "a path as a node's name": (
        "nodes: {engine/x: {kind: command, cmd: a}}\n",
        "recipe 'det', node 'engine/x': the name cannot be a file's name",
    ),
    "the name of the run's own file": (
        "nodes: {run: {kind: command, cmd: a}}\n",
        "recipe 'det', node 'run': the name is taken by run.json",
    ),
    "a misspelt placeholder": (
        "nodes:\n  weights: {kind: source, uri: a.pt}\n"
        "  engine: {kind: command, cmd: 'cp {in.wieghts} {out}', needs: {weights: weights}}\n",
        "recipe 'det', node 'engine': cmd: {in.wieghts} is no input of this node. Did you mean 'in.weights'?\n"
        "  known: {in.weights}, {out}, {project}; inputs are given by `needs`",
    ),
    "a placeholder of an evaluation script": (
        f"{STANDARD}target: reference\nnodes: {{validation: {{cmd: 'python eval.py {{in.labels}} {{in.engine}}'}}}}\n",
        "recipe 'det', node 'reference': cmd: {in.labels} is no input of this node.",
    ),
    "a class that is not there": (
        "nodes: {engine: {_target_: nosuch.Thing}}\n",
        "recipe 'det', node 'engine': _target_ 'nosuch.Thing' cannot be imported: ModuleNotFoundError: No module ",
    ),
}


@pytest.mark.parametrize(("text", "message"), CASES.values(), ids=list(CASES))
def test_a_recipe_that_cannot_be_composed_says_where_and_how_to_fix(tmp_path: Path, text: str, message: str) -> None:
    assert planned(written(tmp_path, text)).startswith(message)


def test_a_recipe_needs_no_package_line(tmp_path: Path) -> None:
    project = written(tmp_path, "nodes: {c: {kind: command, cmd: 'touch {out}'}}\ntarget: c\n")

    assert project.mobuild("plan").out == "stale    det/cpu c  never built\n"


def test_a_key_of_ones_own_may_be_referred_to(tmp_path: Path) -> None:
    project = written(tmp_path, "size: 640\nnodes: {c: {kind: command, cmd: 'seq ${size} {out}'}}\ntarget: c\n")

    assert project.mobuild("plan").out == "stale    det/cpu c  never built\n"


def test_shapes_of_a_recipe_may_be_a_list_of_profiles(tmp_path: Path) -> None:
    project = written(
        tmp_path,
        STANDARD + "nodes: {onnx: {model: 'det.py:load', needs: {}, inputs: {x: [batch, 4]}}}\n"
        "shapes: [{batch: 1}, {batch: [9, 8, 32]}]\n",
    )

    done = project.mobuild("plan", check=False)

    assert (done.status, done.out) == (1, "")
    assert done.errors == (
        "recipe 'det', hardware 'cpu': P1: node 'engine': shapes: profile 1: axis 'batch': min 9 is larger than opt 8\n"
        "  write [min, opt, max] in rising order",
    )


def test_empty_needs_take_the_defaults_of_the_kind_away(tmp_path: Path) -> None:
    project = written(
        tmp_path, "nodes: {onnx: {kind: export, model: 'det.py:load', needs: {}, inputs: {x: [batch, 4]}}}\n"
    )
    project.write("recipes/det.py", "def load(): ...\n")

    assert project.mobuild("plan", "target=onnx").out == "stale    det/cpu onnx  never built\n"


def test_a_broken_node_that_no_target_needs_costs_nothing(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  good: {kind: command, cmd: 'touch {out}'}\n  bad: {kind: nonsense}\n")

    assert project.mobuild("plan", "target=good").out == "stale    small/cpu good  never built\n"


def test_defaults_that_are_no_list_are_no_fault(tmp_path: Path) -> None:
    assert planned(written(tmp_path, "defaults: 3\nnodes: {}\n")).startswith(
        "'recipe/det', defaults must be a list (got int)\n  defaults: [/recipe/standard, _self_]"
    )


def test_nodes_as_a_list_are_named_with_the_reason(tmp_path: Path) -> None:
    assert "Cannot merge DictConfig with ListConfig" in planned(written(tmp_path, "nodes: [a]\n"))


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    project = written(tmp_path, "nodes: {c: {kind: command, cmd: 'touch {out}'}}\n")
    (project.root / "conf/hardware").mkdir(parents=True)
    (project.root / "conf/hardware/mine.yaml").write_bytes(b"\xff\xfe")

    done = project.mobuild("plan", "target=c", "hardware=mine", check=False)

    assert done.status == 2
    assert done.err.startswith(f"error: {project.root}/conf/hardware/mine.yaml: cannot be read as YAML: 'utf-8' codec")


def test_a_variable_that_is_not_set_is_named_with_the_fix(tmp_path: Path) -> None:
    said = planned(written(tmp_path, "nodes: {engine: {kind: command, cmd: a, env: {A: '${oc.env:NOPE_A}'}}}\n"))

    assert "Environment variable 'NOPE_A' not found" in said
    assert said.endswith("set it, or say what stands for it: ${oc.env:NOPE_A,null}")


def test_a_fault_at_the_top_names_the_chain_that_came_there(tmp_path: Path) -> None:
    nodes = """\
nodes:
  cls:
    precision: int8
    model: {kind: command, cmd: "touch {out}", out: .onnx}
    quantized: {kind: quantize, needs: {model: model}}
"""

    message = planned(written(tmp_path, STANDARD + nodes), "target=cls.quantized")

    assert message.startswith("recipe 'det', node 'onnx': the field 'model' has no value\n")
    assert message.endswith(
        "\n  'cls.quantized' needs 'calibration' of the recipe itself: chain 'cls' has none of its own"
    )
