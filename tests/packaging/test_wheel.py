"""What is installed is what the repository holds, and it works wherever a user stands."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.installations import Environment, tree
from tests.projects import Finished, Project

SHIPPED = {"mobuild/": "mobuild", "mobuild/conf/": "conf", "mobuild/recipes/": "recipes"}


def files_below(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in found}


def test_wheel_holds_the_package_the_configs_and_the_recipes_and_nothing_else(checkout: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert names == {inside + name for inside, folder in SHIPPED.items() for name in files_below(checkout / folder)}


def test_wheel_holds_the_recipes_and_configs_as_they_are(checkout: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name: archive.read(name) for name in archive.namelist()}

    for inside, folder in list(SHIPPED.items())[1:]:
        for name in files_below(checkout / folder):
            assert shipped[inside + name] == (checkout / folder / name).read_bytes()


def test_source_distribution_holds_no_cache_and_no_build(distributions: Path) -> None:
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"conf/mobuild.yaml", "recipes/crepe_tiny.py", "mobuild/cli.py", "cache/README.md"} <= names
    assert not {name for name in names if name.startswith(("build/", "outputs/", "cache/objects")) or ".pyc" in name}


def states(planned: Finished) -> list[str]:
    return [line.split()[0] for line in planned.out.splitlines()]


@pytest.fixture(scope="module")
def built_in_an_empty_folder(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    assert states(installed.mobuild(folder, "plan")) == ["stale", "waiting", "waiting", "waiting"]
    assert installed.mobuild(folder).out == f"{folder}/build/crepe_tiny/cpu/engine.onnx\n"
    return folder


def test_in_an_empty_folder_the_shipped_recipe_is_built(installed: Environment, built_in_an_empty_folder: Path) -> None:
    folder = built_in_an_empty_folder

    assert "crepe_tiny" in installed.mobuild(folder, "list").out.splitlines()[0].split()
    assert (folder / "build/crepe_tiny/cpu/engine.onnx").stat().st_size > 1_000_000
    assert states(installed.mobuild(folder, "plan")) == ["fresh"] * 4
    assert tree(folder) == {"build", "cache"}


def test_a_shipped_recipe_is_the_same_work_wherever_it_is_installed(
    built_in_an_empty_folder: Path, tmp_path: Path
) -> None:
    """The folder of the installation is in no key, so that checkouts and wheels share a cache."""
    from_checkout = Project(tmp_path, built_in_an_empty_folder / "cache")

    assert states(from_checkout.mobuild("plan")) == ["fresh"] * 4


def test_the_only_recipe_of_a_folder_is_the_default(installed: Environment, tmp_path: Path) -> None:
    installed.mobuild(tmp_path, "init", "det")

    built = installed.mobuild(tmp_path, "target=engine", "nodes.onnx.exporter=torchscript")

    assert Path(built.out.strip()).parent.parent == tmp_path / "build/det"
    assert tree(tmp_path) == {"recipes", "build", "cache", ".gitignore", ".mobuild.schema.json"}


def test_a_sweep_litters_nothing(installed: Environment, tmp_path: Path) -> None:
    rows = installed.mobuild(tmp_path, "-m", "plan", "target=engine", "hardware=cpu,l4").out.splitlines()

    assert [row.split()[1] for row in rows if row.endswith("'sanitized'")] == ["crepe_tiny/cpu", "crepe_tiny/l4"]
    assert tree(tmp_path) == set()


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """A training repository with Hydra configs of its own, among them a primary config and a group `hydra`."""
    files = {
        "conf/config.yaml": "defaults: [model: resnet, _self_]\ntarget: nonsense\nhydra: {run: {dir: runs}}\n",
        "conf/mobuild_is_not_this.yaml": "target: nonsense\n",
        "conf/model/resnet.yaml": "depth: 50\n",
        "pyproject.toml": '[project]\nname = "training"\nversion = "1"\n',
        "src/train.py": "import hydra\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def stands_in(root: Path) -> str:
    return (
        f"note: there is no recipe in {root}, so this is about the shipped example 'crepe_tiny'; "
        "mobuild init NAME starts your own\n"
    )


def test_a_foreign_hydra_project_is_left_alone_and_named(installed: Environment, training: Path) -> None:
    before = files_below(training / "conf")

    planned, listed = installed.mobuild(training, "plan"), installed.mobuild(training, "list")

    assert planned.err == stands_in(training)
    assert f"note: {training}/conf has no folder of mobuild's groups" in listed.err
    assert planned.out.splitlines()[-1].split()[:3] == ["waiting", "crepe_tiny/cpu", "engine"]
    assert files_below(training / "conf") == before
    assert tree(training) == {"conf", "pyproject.toml", "src"}


def test_the_folder_that_a_foreign_project_names_is_used(installed: Environment, training: Path) -> None:
    with (training / "pyproject.toml").open("a") as stream:
        stream.write('[tool.mobuild]\nconf = "deploy/conf"\n')
    hardware = training / "deploy/conf/hardware/mine.yaml"
    hardware.parent.mkdir(parents=True)
    hardware.write_text('name: mine\nvendor: nvidia\ncompute_capability: "8.6"\nbackends: [tensorrt_rtx]\n')
    (training / "deploy/conf/project").mkdir()
    (training / "deploy/conf/project/default.yaml").write_text("# @package _global_\ntarget: onnx\n")

    planned = installed.mobuild(training, "plan", "hardware=mine")

    assert planned.err == stands_in(training)
    assert planned.out.splitlines()[-1].split()[:3] == ["waiting", "crepe_tiny/mine", "onnx"]


def test_from_a_subfolder_everything_lands_in_the_project(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/note.yaml").write_text(
        "# @package _global_\nnodes: {note: {kind: command, cmd: 'cp recipes/note.yaml {out}', out: .txt}}\n"
    )
    below = tmp_path / "notebooks/first"
    below.mkdir(parents=True)

    built = installed.mobuild(below, "target=note")

    assert built.out == f"{tmp_path}/build/note/cpu/note.txt\n"
    assert tree(tmp_path) == {"recipes", "notebooks", "build", "cache"}
    assert tree(below) == set()
