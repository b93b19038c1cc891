"""Where a line is typed, and what the recipe that it becomes is called."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from mobuild.errors import ConfigError
from mobuild.paths import expanded


@dataclass(frozen=True)
class Place:
    """Where a line is typed, and the project that it becomes a recipe of."""

    here: Path
    root: Path

    def file(self, path: str) -> Path:
        return self.here / expanded(path)

    def uri(self, path: str) -> str:
        """A path as a recipe says it: from the project's root, or as it is when it leads out of it."""
        found = self.file(path).absolute()
        whole = Path(*found.parts[:1], *(part for part in found.parts[1:] if part != "."))
        if ".." in whole.parts:
            whole = whole.parent.resolve() / whole.name
        return whole.relative_to(self.root).as_posix() if whole.is_relative_to(self.root) else str(whole)

    def maker(self, path: str) -> str:
        """What makes a file that is not there, where a recipe was adopted from a line that writes it; or nothing."""
        name = Path(path).name
        for recipe in filter(Path.is_file, sorted(self.root.glob("recipes/*.yaml"))):
            text = recipe.read_text(encoding="utf-8", errors="replace")
            lines = [line for line in text.splitlines() if line.startswith("#   ")]
            written = {Path(word.rpartition("=")[2]).name for line in lines for word in line.split()}
            target = re.search(r"^target: (\w+)$", text, re.MULTILINE)
            if target and name in written and not re.search(rf"uri: \W?(\S*/)?{re.escape(name)}\W", text):
                return (
                    f"node {target[1]!r} of recipe {recipe.stem!r} makes it, and its engine is "
                    f"mobuild target=engine recipe={recipe.stem};\n"
                    f"or adopt the path that this prints: mobuild target={target[1]} recipe={recipe.stem}"
                )
        return ""


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
