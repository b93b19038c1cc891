"""What a project offers: recipes with their nodes, and the options of every group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mobuild.config.project import GROUPS, Project, shipped
from mobuild.config.recipes import recipe_folders

INTERNAL = ("standard", "onnx_file")  # recipes that others build on


def catalogue(project: Project) -> Mapping[str, Sequence[str]]:
    """Group → names, the project's own beside the shipped ones."""
    recipes = _stems(recipe_folders(project))
    found = {"recipe": [name for name in recipes if name not in INTERNAL]}
    for group in GROUPS:
        if names := _stems([folder / group for folder in (shipped("conf"), project.conf) if folder]):
            found["kind" if group == "node" else group] = names
    return found


def _stems(folders: Sequence[Path]) -> list[str]:
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})
