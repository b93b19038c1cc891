"""Kinds and backends as they were when their revision was last raised.

`python -m tests.golden_kinds` writes golden_kinds.json anew: after `revision` was raised, or for a change
of the code that cannot change an artifact.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mobuild.closure import module_digest
from mobuild.data import Data
from mobuild.fingerprint import canonical, digest_bytes
from mobuild.node import is_code, is_keyed

GOLDEN = Path(__file__).with_suffix(".json")
PACKAGE = Path(__file__).parents[1] / "mobuild"


def described() -> dict[str, Any]:
    """Class path → revision, keyed fields, and the digest of the code that makes its artifact."""
    return {f"{cls.__module__}.{cls.__qualname__}": _describe(cls) for cls in classes()}


def classes() -> Iterator[type]:
    """Every dataclass with a revision below `nodes` and `backends`, and the data that several kinds hold."""
    yield Data
    for room in ("nodes", "backends"):
        for path in sorted((PACKAGE / room).iterdir()):
            if path.stem.startswith("__") or not (path.suffix == ".py" or path.is_dir()):
                continue
            module = importlib.import_module(f"mobuild.{room}.{path.stem}")
            for value in vars(module).values():
                if (
                    dataclasses.is_dataclass(value)
                    and hasattr(value, "revision")
                    and value.__module__ == module.__name__
                ):
                    assert isinstance(value, type)
                    yield value


def _describe(cls: type) -> dict[str, Any]:
    fields = {
        spec.name: ("code " if is_code(spec) else "") + str(spec.type)
        for spec in dataclasses.fields(cls)
        if is_keyed(spec)
    }
    module = importlib.import_module(cls.__module__)
    assert module.__file__
    file = Path(module.__file__)
    is_room = file.name == "__init__.py" or cls is Data
    files = sorted(file.parent.rglob("*.py")) if is_room else sorted({file, *of_images(file)})
    code = {path.relative_to(PACKAGE).as_posix(): module_digest(path) for path in files}
    return {"revision": cls.revision, "fields": fields, "code": digest_bytes(canonical(code))}  # type: ignore[attr-defined]


_IMAGE = re.compile(r"^\s*from mobuild\.(image|runtime)(?:\.(\w+))? import (.+)$", re.MULTILINE)


def of_images(file: Path) -> set[Path]:
    """The modules that write images, of which the kinds of images make theirs, as far as `file` reaches them."""
    found: set[Path] = set()
    waiting = [file] if file.stem.startswith("image") else []
    while waiting:
        for room, module, names in _IMAGE.findall(waiting.pop().read_text()):
            for name in [module] if module else names.split(", "):
                path = PACKAGE / room / f"{name.split()[0]}.py"
                if path.is_file() and path not in found:
                    found.add(path)
                    waiting.append(path)
    return found


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(described(), indent=1, sort_keys=True) + "\n")
