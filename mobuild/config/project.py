"""Where a project is and which folders and settings are its own.

The root is the nearest parent that holds `recipes/` or a pyproject.toml with `[tool.mobuild]`; without one
it is the current folder. `cache/` and `build/` lie there.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.errors import ConfigError

PACKAGE = Path(__file__).resolve().parents[1]
GROUPS = ("node", "hardware", "backend", "precision", "shapes", "toolchain", "executor", "project")


@dataclass(frozen=True)
class Project:
    """One user's repository as mobuild sees it. `conf` is None when its folder is not for us."""

    root: Path
    conf: Path | None
    recipes: Path | None
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def build(self) -> Path:
        return self.root / "build"

    def cache(self, configured: str | None) -> Path:
        """`cache.dir`, else $MOBUILD_CACHE, else cache/ in the project; relative paths start at the root."""
        chosen = configured or os.environ.get("MOBUILD_CACHE") or "cache"
        return self.root / Path(chosen).expanduser()


def shipped(folder: str) -> Path:
    """The `conf` or `recipes` that mobuild ships: beside the package in a checkout, inside it in a wheel."""
    inside = PACKAGE / folder
    return inside if inside.is_dir() else PACKAGE.parent / folder


def find_project(start: Path) -> Project:
    """The project that holds `start`.

    Raises:
        ConfigError: its pyproject.toml is no TOML, or names a conf folder that does not exist.
    """
    for folder in (start, *start.parents):
        settings = _settings(folder)
        if (folder / "recipes").is_dir() or settings is not None:
            return _project(folder, settings or {})
    return _project(start, {})


def _settings(folder: Path) -> Mapping[str, Any] | None:
    path = folder / "pyproject.toml"
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    settings = document.get("tool", {}).get("mobuild")
    return settings if isinstance(settings, dict) else None


def _project(root: Path, settings: Mapping[str, Any]) -> Project:
    recipes = root / "recipes"
    conf, notes = _conf(root, settings)
    return Project(root, conf, recipes if recipes.is_dir() else None, settings, notes)


def _conf(root: Path, settings: Mapping[str, Any]) -> tuple[Path | None, tuple[str, ...]]:
    if named := settings.get("conf"):
        if not (root / named).is_dir():
            raise ConfigError(
                f"{root / 'pyproject.toml'}: [tool.mobuild] conf = {named!r} is no folder",
                f"tried {root / named}",
            )
        return root / named, ()
    conf = root / "conf"
    if not conf.is_dir() or conf.samefile(shipped("conf")):
        return None, ()
    if any((conf / group).is_dir() for group in GROUPS):
        return conf, ()
    return None, (
        f"{conf} has no folder of mobuild's groups ({', '.join(GROUPS)}) and is left alone; "
        'to use it, write [tool.mobuild] conf = "conf" in pyproject.toml',
    )
