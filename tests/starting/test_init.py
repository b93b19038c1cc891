"""`mobuild init FILE`: each kind of file in an empty folder, and what is printed is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tests.projects import Finished, Project
from tests.starting import saved


@pytest.fixture
def empty(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project", tmp_path / "cache")


def recipe(project: Project, name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((project.root / "recipes" / f"{name}.yaml").read_text()))


def follow(project: Project, done: Finished) -> Finished:
    """Type what the last line says."""
    line = done.out.splitlines()[-1]
    assert line.startswith("now: mobuild "), line
    return project.mobuild(*line.removeprefix("now: mobuild ").split())


@pytest.mark.parametrize("form", ["traced", "program"])
def test_a_network_with_its_code_builds_as_it_is(empty: Project, form: str) -> None:
    if form == "program":
        saved.program(empty.root / "det.pt2")
    else:
        saved.script(empty.root / "det.pt")

    done = empty.mobuild("init", "det.pt2" if form == "program" else "det.pt")
    built = follow(empty, done)

    assert Path(built.out.strip()) == empty.root / "build/det/cpu/engine.onnx"
    assert recipe(empty, "det")["nodes"]["onnx"]["inputs"] == {"x": ["batch", 8]}


def test_weights_build_when_a_class_of_the_project_fits_them(empty: Project) -> None:
    saved.state(empty.root / "det.pt")
    empty.write("src/nets.py", saved.NETWORK)

    done = empty.mobuild("init", "det.pt")
    follow(empty, done)

    assert "note: class Net of src/nets.py has parts with the names of these weights\n" in done.err
    assert "from src.nets import Net  # " in (empty.root / "recipes/det.py").read_text()


def test_weights_without_a_class_say_what_to_fill_in(empty: Project) -> None:
    saved.state(empty.root / "det.pt")

    done = empty.mobuild("init", "det.pt")
    failed = empty.mobuild("target=onnx", check=False)

    assert done.out.splitlines()[-1] == (
        "now: fill in network() in recipes/det.py, then mobuild target=engine recipe=det"
    )
    assert failed.status == 1
    assert "NotImplementedError: fill in network() in recipes/det.py: import your class and return it" in failed.err
    assert "    first.weight: float32 [16, 8]\n" in (empty.root / "recipes/det.py").read_text()


def test_a_class_with_arguments_is_named_with_them(empty: Project) -> None:
    saved.state(empty.root / "det.pt")
    empty.write("nets.py", saved.NETWORK.replace("def __init__(self)", "def __init__(self, width, depth=2)"))

    done = empty.mobuild("init", "det.pt")

    assert "note: class Net of nets.py has parts with the names of these weights; it needs width\n" in done.err
    assert "fill in network() in recipes/det.py: return Net(width=…)" in (empty.root / "recipes/det.py").read_text()


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod."])
def test_what_wrappers_put_before_names_is_taken_off(empty: Project, prefix: str) -> None:
    saved.state(empty.root / "det.pt", prefix)

    empty.mobuild("init", "det.pt")

    text = (empty.root / "recipes/det.py").read_text()
    assert f'state = {{name.removeprefix("{prefix}"): value for name, value in state.items()}}' in text
    assert "    first.weight: float32 [16, 8]\n" in text


def test_the_checkpoint_of_a_trainer_is_opened_where_its_weights_are(empty: Project) -> None:
    state = {f"model.{name}": value for name, value in saved.network().state_dict().items()}
    torch.save({"epoch": 3, "state_dict": state}, empty.root / "epoch=3-step=10.ckpt")
    empty.write("nets.py", saved.NETWORK)

    done = empty.mobuild("init", "epoch=3-step=10.ckpt")
    follow(empty, done)

    assert "note: epoch=3-step=10.ckpt is a checkpoint: its weights are 'state_dict', beside epoch\n" in done.err


def test_safetensors_build_with_a_class_of_the_project(empty: Project) -> None:
    saved.safetensors(empty.root / "det.safetensors")
    empty.write("nets.py", saved.NETWORK)

    empty.mobuild("init", "det.safetensors")
    empty.mobuild("target=onnx")

    assert recipe(empty, "det")["nodes"]["onnx"]["inputs"] == {"x": ["batch", 8]}


def test_a_pickled_network_is_not_read_and_that_is_said(empty: Project) -> None:
    torch.save(saved.network(), empty.root / "det.pt")

    done = empty.mobuild("init", "det.pt")

    assert "is a pickled tests.starting.saved.Net, which only torch.load(…, weights_only=False) reads" in done.err
    assert done.out.splitlines()[-1].startswith("now: fill in load() in recipes/det.py, then mobuild ")
    assert "weights_only=True" not in (empty.root / "recipes/det.py").read_text()


def test_an_onnx_file_tells_its_inputs_and_builds(empty: Project) -> None:
    write_onnx(empty.root / "det.onnx")

    done = empty.mobuild("init", "det.onnx")
    follow(empty, done)

    found = recipe(empty, "det")
    assert found["nodes"]["sanitized"]["ranges"] == {"ids": [0, 50], "mask": [0, 1]}
    assert found["shapes"] == {"batch": [1, 8, 32], "sequence": [8, 128, 256]}
    assert "# input ids: int64 [batch, sequence]\n" in (empty.root / "recipes/det.yaml").read_text()


def test_what_check_finds_of_an_onnx_file_is_printed(empty: Project) -> None:
    write_onnx(empty.root / "det.onnx", batch=1)

    done = empty.mobuild("init", "det.onnx")

    assert "F3" in done.out
    assert "axis 0 of every input is 1" in done.out


def write_onnx(path: Path, batch: int | str = "batch") -> None:
    """An embedding of 50 rows, summed where the mask is 1."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    shape = [batch, "sequence"]
    table = numpy_helper.from_array(np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32), "table")
    axes = numpy_helper.from_array(np.array([2]), "axes")
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["words"]),
        helper.make_node("Cast", ["mask"], ["present"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["present", "axes"], ["column"]),
        helper.make_node("Mul", ["words", "column"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("ids", "mask")]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [*shape, 4])
    graph = helper.make_graph(nodes, "g", inputs, [output], [table, axes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_a_second_init_of_a_file_is_refused_and_changes_nothing(empty: Project) -> None:
    saved.state(empty.root / "det.pt")
    empty.mobuild("init", "det.pt")
    empty.write("recipes/det.py", "mine")

    done = empty.mobuild("init", "det.pt", check=False)

    assert done.status == 2
    assert done.errors == (
        f"init: {empty.root}/recipes/det.yaml is there already\n"
        "  choose another name: mobuild init det_2 det.pt, or remove it first",
    )
    assert (empty.root / "recipes/det.py").read_text() == "mine"


def test_a_recipe_can_be_named_before_or_after_its_file(empty: Project) -> None:
    saved.state(empty.root / "det.pt")

    empty.mobuild("init", "one", "det.pt")
    empty.mobuild("init", "det.pt", "two")

    assert {path.name for path in (empty.root / "recipes").glob("*.yaml")} == {"one.yaml", "two.yaml"}


def test_the_python_beside_a_recipe_hides_no_module_of_the_project(empty: Project) -> None:
    saved.state(empty.root / "net.pt")
    empty.write("net.py", saved.NETWORK)

    empty.mobuild("init", "net.pt")
    empty.mobuild("target=onnx")

    assert (empty.root / "recipes/net_loader.py").is_file()


NAMES = {
    "a space": ("my model v2.pt", "my_model_v2"),
    "unicode": ("Modèle é.pt", "mod_le"),
    "no letters": ("123.pt", "model_123"),
    "quotes": ("a\"b'c.pt", "a_b_c"),
    "an interpolation": ("${x}.pt", "x"),
    "a comment": ("a # b.pt", "a_b"),
    "a line break": ("a\nimport os.pt", "a_import_os"),
}


@pytest.mark.parametrize(("file", "name"), NAMES.values(), ids=NAMES)
def test_any_file_name_makes_a_recipe_that_finds_its_file(empty: Project, file: str, name: str) -> None:
    saved.state(empty.root / file)

    empty.mobuild("init", file)
    planned = empty.mobuild("plan", f"recipe={name}")

    assert f"fresh    {name}/cpu weights" in planned.out
    compile((empty.root / f"recipes/{name}.py").read_text(), name, "exec")
    assert not any(
        line.startswith("import os") for line in (empty.root / f"recipes/{name}.py").read_text().splitlines()
    )


def test_what_a_file_calls_its_parts_becomes_no_line_of_the_recipe(empty: Project) -> None:
    evil = '"""\nraise SystemExit\nx: [1]'
    saved.safetensors(empty.root / "det.safetensors", {evil: {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 0]}})

    empty.mobuild("init", "det.safetensors")

    for file in ("det.py", "det.yaml"):
        assert not any(
            line.startswith(("raise", "x:")) for line in (empty.root / "recipes" / file).read_text().splitlines()
        )
    compile((empty.root / "recipes/det.py").read_text(), "det", "exec")
    recipe(empty, "det")


@pytest.mark.parametrize("is_absolute", [True, False])
def test_paths_are_those_of_the_shell_and_become_the_projects(empty: Project, is_absolute: bool) -> None:
    (empty.root / "deep/models").mkdir(parents=True)
    (empty.root / "recipes").mkdir()
    path = saved.state(empty.root / "deep/models/det.pt")
    inside = Project(empty.root / "deep", empty.cache)

    inside.mobuild("init", str(path) if is_absolute else "models/det.pt")

    assert recipe(empty, "det")["nodes"]["weights"] == {"uri": "deep/models/det.pt"}


def test_a_file_outside_the_project_is_named_whole_and_that_is_said(empty: Project, tmp_path: Path) -> None:
    path = saved.state(tmp_path / "det.pt")

    done = empty.mobuild("init", "../det.pt")

    assert recipe(empty, "det")["nodes"]["weights"] == {"uri": str(path)}
    assert f"note: {path} lies outside the project: nobody else has it there" in done.err


def test_a_file_that_is_not_there_is_named_with_the_folder(empty: Project) -> None:
    done = empty.mobuild("init", "det.pt", check=False)

    assert done.status == 1
    assert done.errors[0].startswith(f"init: det.pt: there is no such file in {empty.root}\n")
    assert list(empty.root.iterdir()) == []


def test_a_wrong_file_leaves_nothing_behind(empty: Project) -> None:
    empty.write("det.pt", "GGUF....")

    done = empty.mobuild("init", "det.pt", check=False)

    assert done.status == 1
    assert [path.name for path in empty.root.iterdir()] == ["det.pt"]


def test_the_folder_conf_of_another_application_is_left_alone(empty: Project) -> None:
    saved.script(empty.root / "det.pt")
    empty.write("conf/config.yaml", "db: {driver: mysql}\n")
    before = sorted((empty.root / "conf").rglob("*"))

    empty.mobuild("init", "det.pt")

    assert sorted((empty.root / "conf").rglob("*")) == before
    assert "fresh    det/cpu weights" in empty.mobuild("plan").out


def test_init_writes_the_schema_that_a_recipe_names_once(empty: Project) -> None:
    saved.script(empty.root / "det.pt")
    empty.mobuild("init", "det.pt")
    path = empty.root / ".mobuild.schema.json"

    assert json.loads(path.read_text())["title"] == "recipes and hardware files of mobuild"
    first = (empty.root / "recipes/det.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../.mobuild.schema.json"
    path.write_text("mine")
    empty.mobuild("init", "other")
    assert path.read_text() == "mine"


def test_a_recipe_that_init_wrote_is_valid_by_its_schema(empty: Project) -> None:
    import jsonschema

    write_onnx(empty.root / "det.onnx")
    saved.script(empty.root / "net.pt")
    empty.mobuild("init", "det.onnx")
    empty.mobuild("init", "net.pt")
    schema = json.loads((empty.root / ".mobuild.schema.json").read_text())

    for name in ("det", "net"):
        jsonschema.validate(recipe(empty, name), schema)


def test_a_folder_with_one_onnx_file_and_its_data_is_a_model(empty: Project) -> None:
    (empty.root / "det").mkdir()
    write_onnx(empty.root / "det/model.onnx")

    empty.mobuild("init", "./det")

    assert "fresh    det/cpu onnx" in empty.mobuild("plan").out
    assert recipe(empty, "det")["shapes"] == {"batch": [1, 8, 32], "sequence": [8, 128, 256]}


def test_a_folder_of_many_files_is_none(empty: Project) -> None:
    (empty.root / "det").mkdir()
    for name in ("a", "b"):
        write_onnx(empty.root / f"det/{name}.onnx")

    done = empty.mobuild("init", "./det", check=False)

    assert done.errors[0].startswith("init: det: is a folder without one ONNX file in it")
