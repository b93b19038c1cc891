"""What a project offers: recipes with their nodes, and the options of every group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mobuild.config.project import GROUPS, Project, shipped
from mobuild.config.recipes import recipe_folders

INTERNAL = ("standard", "onnx_file")  # recipes that others build on


def catalogue(project: Project) -> Mapping[str, Sequence[str]]:
    """Group → names, the project's own beside the shipped ones."""
    recipes = _names(recipe_folders(project), "*.yaml")
    found = {"recipe": [name for name in recipes if name not in INTERNAL]}
    for group in GROUPS:
        folders = [folder / group for folder in (shipped("conf"), project.conf) if folder]
        if names := _names(folders, "**/*.yaml"):
            found["kind" if group == "node" else group] = names
    return found


def shipped_recipes() -> Sequence[str]:
    """The recipes that mobuild ships, those that others build on among them."""
    return _names([shipped("recipes")], "*.yaml")


def _names(folders: Sequence[Path], pattern: str) -> list[str]:
    """What files are chosen by: their paths below their folder, without the suffix (`a100_40/1g.5gb`)."""
    files = ((path, folder) for folder in folders if folder.is_dir() for path in folder.glob(pattern))
    return sorted({path.relative_to(folder).as_posix().removesuffix(".yaml") for path, folder in files})
