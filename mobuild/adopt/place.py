"""Where a line is typed, and what the recipe that it becomes is called."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from mobuild.errors import ConfigError


@dataclass(frozen=True)
class Place:
    """Where a line is typed, and the project that it becomes a recipe of."""

    here: Path
    root: Path

    def file(self, path: str) -> Path:
        return self.here / Path(path).expanduser()

    def uri(self, path: str) -> str:
        """A path as a recipe says it: from the project's root, or as it is when it leads out of it."""
        found = self.file(path).absolute()
        whole = Path(*found.parts[:1], *(part for part in found.parts[1:] if part != "."))
        if ".." in whole.parts:
            whole = whole.parent.resolve() / whole.name
        return whole.relative_to(self.root).as_posix() if whole.is_relative_to(self.root) else str(whole)


def named_after(model: str) -> str:
    """A recipe's name from a file's: small letters, digits and `_`."""
    stem = re.sub(r"[^a-z0-9_]+", "_", Path(model).stem.lower()).strip("_")
    return stem if re.match(r"[a-z]", stem) else f"model_{stem}".strip("_")


def checked_name(name: str, root: Path, taken: Collection[str]) -> str:
    """`name`, when a recipe can have it.

    Raises:
        ConfigError: it is none, or taken.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"adopt: {name!r} is no name for a recipe", "use small letters, digits and _")
    path = root / "recipes" / f"{name}.yaml"
    if name in taken or path.exists():
        what = f"{path} is there already" if path.exists() else f"{name!r} is a recipe that mobuild ships"
        raise ConfigError(f"adopt: {what}", f"name the recipe: mobuild adopt {name}_2 -- …, or remove it first")
    return name
