"""Models that stand for a recipe: several of one file name keep to themselves."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from mobuild.config.model_name import model_name
from tests.onnxmodel.models import matmul
from tests.projects import Project

ROOT = Path("/home/me/project")


def name(model: str, here: str = ".") -> str:
    return model_name(model, ROOT / here, ROOT)


def test_models_of_one_name_in_two_folders_keep_their_artifacts_apart(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", tmp_path / "cache")
    for folder in ("enc", "dec"):
        (project.root / folder).mkdir(parents=True)
        onnx.save(matmul(), project.root / folder / "model.onnx")

    paths = [project.mobuild("target=sanitized", f"model={folder}/model.onnx").out for folder in ("enc", "dec")]

    assert [path.removeprefix(str(project.root)).strip() for path in paths] == [
        "/build/enc+model/cpu/sanitized.onnx",
        "/build/dec+model/cpu/sanitized.onnx",
    ]
    run = json.loads((project.root / "build/enc+model/cpu/run.json").read_text())
    assert "model=enc/model.onnx" in run["overrides"]


def test_a_model_of_the_projects_folder_has_the_name_of_its_file() -> None:
    assert [name("det.onnx"), name("det.v2.onnx"), name("./det.onnx")] == ["det", "det.v2", "det"]


def test_one_model_has_one_name_from_every_folder() -> None:
    assert {name("enc/m.onnx"), name("m.onnx", "enc"), name("../enc/m.onnx", "dec"), name(f"{ROOT}/enc/m.onnx")} == {
        "enc+m"
    }


@pytest.mark.parametrize(
    "models",
    [
        ("enc/model.onnx", "enc+model.onnx", "model.onnx", "dec/model.onnx"),
        ("a+b/c.onnx", "a/b+c.onnx", "a/b/c.onnx"),
        ("net", "net.onnx", "net.ONNX", "net/model.onnx"),
        ("../det.onnx", "det.onnx", "/data/det.onnx", "/other/det.onnx"),
        ("hf:org/one/model.onnx", "hf:org/two/model.onnx", "https://x.org/model.onnx", "model.onnx"),
    ],
    ids=" ".join,
)
def test_models_that_differ_have_names_that_differ(models: tuple[str, ...]) -> None:
    assert len(set(map(name, models))) == len(models)


def test_a_signed_address_that_is_signed_anew_keeps_its_name() -> None:
    assert name("https://x.org/m.onnx?sig=1") == name("https://x.org/m.onnx?sig=2")
