"""Public faults of weights that lie beside the ONNX file: `exp-external-data`, `exp-external-links`, `exp-over-2gb`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnxmodel.models import model, save_external, value
from tests.projects import Project, recipe_project

CHAIN = """\
  onnx: {kind: export, needs: {}, model: "net.py:load", inputs: {x: [batch, 64]}, raw: {external_data: true}}
  sanitized: {kind: sanitize, fold: false, simplify: false}
  engine: {kind: build_engine, needs: {model: sanitized}}
shapes: {batch: [1, 2, 4]}
"""
NET = "import torch\ndef load(): return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())\n"
NODES = ("onnx", "sanitized", "engine")
ALL = "target=[onnx,sanitized,engine]"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """An exported model with its weights beside it, up to the engine."""
    pytest.importorskip("torch")
    project = recipe_project(tmp_path_factory.mktemp("external"), CHAIN, {"recipes/net.py": NET})
    project.mobuild(ALL)
    return project


def placed(project: Project, node: str) -> Path:
    return project.root / "build/small/cpu" / node


def zeroed(file: Path) -> None:
    """400 bytes of the weights become zeros, size and time as before."""
    before, data = file.stat(), bytearray(file.read_bytes())
    data[5000:5400] = bytes(400)
    file.chmod(0o644)
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def cut(file: Path) -> None:
    file.chmod(0o644)
    os.truncate(file, 9000)


DAMAGES: dict[str, Callable[[Path], None]] = {"zeroed": zeroed, "cut short": cut, "lost": Path.unlink}


@pytest.mark.parametrize("node", NODES)
def test_both_files_are_moved_together_and_open_with_every_tool(built: Project, tmp_path: Path, node: str) -> None:
    """exp-external-data: onnx#6655, onnxruntime/mobius#488; real files, which onnx and its checker take."""
    folder = placed(built, node)
    moved = Path(folder.rename(tmp_path / "moved"))
    moved.rename(folder)  # as it was, for the other tests

    assert sorted(each.name for each in folder.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert not any(each.is_symlink() or each.stat().st_nlink > 1 for each in folder.iterdir())
    onnx.load(folder / "model.onnx")
    onnx.checker.check_model(str(folder / "model.onnx"))
    loaded = built.python(
        "import mobuild, numpy\n"
        f"print(*(each.shape for each in mobuild.load({str(folder)!r})(x=numpy.ones((3, 64), numpy.float32)).values()))"
    )
    assert loaded.out.strip() == "(3, 64)"


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights_in_the_cache_are_found_and_heal(built: Project, tmp_path: Path, damage: str) -> None:
    """exp-external-data: neuralmagic/sparsezoo#320; the checker would pass, and the output be off."""
    project = built.copy(tmp_path)
    project.mobuild(ALL)
    data = placed(project, "sanitized") / "model.onnx.data"
    good = data.read_bytes()
    objects = [each for each in (project.cache / "objects").rglob("*") if each.is_file() and each.read_bytes() == good]
    (kept,) = objects
    DAMAGES[damage](kept)

    verified = project.mobuild("verify", "format=json", check=False)
    again = project.mobuild(ALL)

    assert verified.status == 1
    named = [one["name"] for one in json.loads(verified.out)["damaged"]]
    assert any("sanitized" in name for name in named), named
    assert project.mobuild("verify").status == 0
    assert again.status == 0
    for node in ("onnx", "sanitized"):
        assert (placed(project, node) / "model.onnx.data").read_bytes() == good


def test_the_same_build_again_leaves_the_size_of_the_weights(built: Project, tmp_path: Path) -> None:
    """exp-external-data: onnx appends to a data file that is there, or raises, as the working directory has it."""
    sizes = {node: (placed(built, node) / "model.onnx.data").stat().st_size for node in NODES}
    project = Project(built.root, tmp_path / "another cache")

    project.mobuild(ALL)
    inside = Project(placed(project, "onnx"), tmp_path / "a third cache")
    inside.mobuild(ALL)

    assert {node: (placed(built, node) / "model.onnx.data").stat().st_size for node in NODES} == sizes
    assert sizes["onnx"] == 64 * 64 * 4


@pytest.fixture
def files(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    return project


@pytest.mark.parametrize(
    ("damage", "said"),
    [(cut, "is cut short: expected at least 16384 bytes, found 9000"), (Path.unlink, "is missing")],
    ids=["cut short", "left behind"],
)
def test_a_model_whose_weights_are_not_whole_is_refused_before_anything_is_built(
    files: Project, damage: Callable[[Path], None], said: str
) -> None:
    """exp-external-data: moved without its weights, or truncated."""
    data = save_external(files.root / "net").with_name("w.bin")
    words = ("target=engine", "model=net/m.onnx", "shapes.n=4")
    assert files.mobuild(*words).status == 0
    damage(data)

    checked, built = files.mobuild("check", *words, check=False), files.mobuild(*words, check=False)

    assert (checked.status, built.status) == (1, 1)
    assert f"its external data '{data}' {said}" in checked.out
    assert f"its external data '{data}' {said}" in built.err
    assert "2 blocked, 1 failed" in built.err


def test_weights_of_other_content_are_another_model(files: Project) -> None:
    """exp-external-data: of equal size and time, which no checker sees."""
    data = save_external(files.root / "net").with_name("w.bin")
    words = ("target=sanitized", "model=net/m.onnx")
    files.mobuild(*words)
    zeroed(data)

    why = files.mobuild("why", *words)

    assert "inputs.model: " in why.out
    assert "in net/m.onnx" in why.out
    assert files.built(*words, recipe="net+m") == {"sanitized"}


def linked(folder: Path, kind: str) -> str:
    """A model whose weights are reached by a link; its path."""
    made, data = save_external(folder / "src"), folder / "src" / "w.bin"
    home = folder / "linked"
    if kind == "folder":
        home.symlink_to(made.parent, target_is_directory=True)
        return "linked/m.onnx"
    home.mkdir()
    if kind == "hard links":
        os.link(made, home / "m.onnx")
        os.link(data, home / "w.bin")
        return "linked/m.onnx"
    if kind == "cache of a hub":
        blobs = folder / "blobs"
        blobs.mkdir()
        for file, name in ((made, "ab12"), (data, "cd34")):
            file.rename(blobs / name)
            (home / file.name).symlink_to(f"../blobs/{name}")
        return "linked/m.onnx"
    (home / "m.onnx").write_bytes(made.read_bytes())
    if kind == "weights inside":
        (home / "real.bin").write_bytes(data.read_bytes())
        (home / "w.bin").symlink_to("real.bin")
    if kind == "weights outside":
        (home / "w.bin").symlink_to("../src/w.bin")
    return "linked/m.onnx"


@pytest.mark.parametrize("hardware", ["cpu", "l4"])
@pytest.mark.parametrize(
    "kind",
    ["hard links", "weights inside", "weights outside", "cache of a hub", "folder", "cache of a hub as a folder"],
)
def test_weights_behind_a_link_reach_every_tool(files: Project, kind: str, hardware: str) -> None:
    """exp-external-links: ORT#27353, qdrant/fastembed#603, vespa-engine/vespa#37195, onnx#3991."""
    if hardware == "l4":
        pytest.importorskip("tensorrt_rtx")
    is_folder = kind.endswith("as a folder")
    path = linked(files.root, kind.removesuffix(" as a folder"))
    words = ("target=engine", f"model={Path(path).parent if is_folder else path}", f"hardware={hardware}", "shapes.n=4")

    assert files.mobuild("check", *words).out == "0 errors, 0 warnings, 0 notes\n"
    files.mobuild(*words)


@pytest.mark.parametrize("location", ["../src/w.bin", "sub/../../src/w.bin", "{folder}/src/w.bin"])
def test_weights_outside_of_the_folder_are_refused_by_name(files: Project, location: str) -> None:
    """exp-external-links: onnxsim opens them, and the others do not."""
    made = save_external(files.root / "src")
    escaped = onnx.load(made, load_external_data=False)
    told = location.format(folder=files.root)
    escaped.graph.initializer[0].external_data[0].value = told
    (files.root / "net").mkdir()
    (files.root / "net" / "m.onnx").write_bytes(escaped.SerializeToString())
    words = ("target=engine", "model=net/m.onnx", "shapes.n=4")

    checked, built = files.mobuild("check", *words, check=False), files.mobuild(*words, check=False)

    said = f"'{files.root}/net/m.onnx': its external data location {told!r} leaves the model's folder"
    assert (checked.status, built.status) == (1, 1)
    assert said in checked.out
    assert said in built.err
    assert "save the model again with its data beside it" in built.err


def large(folder: Path, gib: int) -> None:
    """A model whose weights are a hole of so many GiB."""
    folder.mkdir()
    rows = gib * 2**30 // (1024 * 4)
    table = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 1024], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": "w.bin", "offset": "0", "length": str(gib * 2**30)}.items():
        table.external_data.add(key=key, value=text)
    nodes = [helper.make_node("Gather", ["w", "i"], ["y"])]
    made = model(nodes, [value("i", ["n"], TensorProto.INT64)], [value("y", ["n", 1024])], [table])
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    with (folder / "w.bin").open("wb") as stream:
        stream.truncate(gib * 2**30)


def test_more_than_2_gib_of_weights_are_told_with_the_memory_that_they_take(files: Project) -> None:
    """exp-over-2gb: onnxsim#262, onnx#3275, pytorch#110982; the limit of one protobuf message is no fault."""
    large(files.root / "net", gib=3)

    done = files.mobuild("check", "model=net/m.onnx", "shapes.n=4")
    plan = files.mobuild("plan", "target=sanitized", "model=net/m.onnx", "format=json")

    assert "0 errors, 0 warnings, 1 note" in done.out
    assert "F5 " in done.out
    assert (
        "3.0 GiB of weights, more than the 2 GiB of one protobuf message: they stay in external data, and simplifying "
        "or quantising may need 9 GiB of memory"
    ) in done.out
    steps = json.loads(plan.out)
    assert "sanitized" in json.dumps(steps)


def test_weights_beside_the_model_go_by_path_through_every_node(built: Project) -> None:
    """exp-over-2gb: no node puts them into one message; `tests/large_model.py` does the same with 3 GB."""
    for node in NODES:
        folder = placed(built, node)
        graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
        big = [each for each in graph.initializer if len(each.dims) == 2]
        assert [each.data_location for each in big] == [TensorProto.EXTERNAL]
        assert (folder / "model.onnx").stat().st_size < 64 * 64 * 4
