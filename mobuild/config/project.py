"""Where a project is and which folders and settings are its own.

The root is the nearest parent that holds `recipes/` or a pyproject.toml with `[tool.mobuild]`; without one
it is the current folder. `cache/` and `build/` lie there.
"""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from mobuild import faults
from mobuild.errors import ConfigError, did_you_mean
from mobuild.paths import expanded

PACKAGE = Path(__file__).resolve().parents[1]
_SETTINGS = ("recipe", "conf")  # keys of [tool.mobuild]
_LISTED = ", ".join(_SETTINGS)
GROUPS = ("node", "hardware", "backend", "precision", "shapes", "toolchain", "executor", "project")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Project:
    """One user's repository as mobuild sees it. `conf` is None when its folder is not for us; `notes` say why."""

    root: Path
    conf: Path | None
    recipes: Path | None
    settings: Mapping[str, str]
    notes: tuple[str, ...] = ()
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # what `once` remembers

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def faults(self) -> Path:
        """Where the reports of mobuild's own faults lie."""
        return self.build / faults.FOLDER

    def cache(self, configured: str | None) -> Path:
        """`cache.dir`, else $MOBUILD_CACHE, else cache/ in the project; relative paths start at the root."""
        chosen = configured or os.environ.get("MOBUILD_CACHE") or "cache"
        return self.root / expanded(chosen)


def once(read: Callable[Concatenate[Project, P], T]) -> Callable[Concatenate[Project, P], T]:
    """Let a function of a project answer each question once, for one command sees one state of its files.

    Callers share the answer, and leave it as it is.
    """

    @functools.wraps(read)
    def answer(project: Project, /, *question: P.args, **named: P.kwargs) -> T:
        key = (read, question, *named.items())
        if key not in project.known:
            project.known[key] = read(project, *question, **named)
        answered: T = project.known[key]
        return answered

    return answer


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


def _settings(folder: Path) -> Mapping[str, str] | None:
    path = folder / "pyproject.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise ConfigError(f"{path}: not TOML: {error}", "mend it; mobuild reads [tool.mobuild] there") from error
    tools = document.get("tool")
    settings = tools.get("mobuild") if isinstance(tools, dict) else None
    return None if settings is None else _checked(settings, path)


def _checked(settings: Any, path: Path) -> Mapping[str, str]:
    where = f"{path}: [tool.mobuild]"
    if not isinstance(settings, dict):
        raise ConfigError(f"{where}: expected a table, found {settings!r}")
    for key, value in settings.items():
        if key not in _SETTINGS:
            raise ConfigError(f"{where}: unknown key {key!r}.{did_you_mean(key, _SETTINGS)}", f"Keys: {_LISTED}")
        if not isinstance(value, str):
            raise ConfigError(f"{where} {key}: expected text, found {value!r}")
    return settings


def _project(root: Path, settings: Mapping[str, str]) -> Project:
    recipes = root / "recipes"
    conf, notes = _conf(root, settings)
    return Project(root, conf, recipes if recipes.is_dir() else None, settings, notes)


def _conf(root: Path, settings: Mapping[str, str]) -> tuple[Path | None, tuple[str, ...]]:
    if named := settings.get("conf"):
        if not (root / named).is_dir():
            raise ConfigError(
                f"{root / 'pyproject.toml'}: [tool.mobuild] conf = {named!r} is no folder",
                f"tried {root / named}",
            )
        return root / named, ()
    conf = root / "conf"
    if named == "" or not conf.is_dir() or conf.samefile(shipped("conf")):
        return None, ()
    if any((conf / group).is_dir() for group in GROUPS):
        return conf, ()
    return None, (
        f"{conf} has no folder of mobuild's groups ({', '.join(GROUPS)}) and is left alone; "
        'to use it, write [tool.mobuild] conf = "conf" in pyproject.toml; conf = "" ends this note',
    )


@once
def witnesses(project: Project) -> frozenset[str]:
    """Every file and folder that says what the configuration is, and those that would if they were there."""
    folders = [shipped("conf"), shipped("recipes"), project.root / "conf", project.root / "recipes"]
    if project.conf:
        folders.append(project.conf)
    found = {str(path) for folder in folders for path in (folder, *folder.rglob("*")) if _is_read(path)}
    here = Path.cwd()
    for folder in (here, *here.parents):
        found.update((str(folder / "recipes"), str(folder / "pyproject.toml"), str(folder / "conf")))
        if folder == project.root:
            break
    return frozenset(found)


def _is_read(path: Path) -> bool:
    return path.suffix == ".yaml" or (path.is_dir() and path.name != "__pycache__") or not path.exists()
