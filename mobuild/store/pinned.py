"""Pins: named sets of finished work that gc keeps, whatever becomes of the projects.

A pin is one file of the store, `pins/<name>.json`, and travels with its records to other machines. Unlike a
ref, one that cannot be read is an error: what it kept would be lost in silence.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mobuild.errors import ConfigError, StoreError
from mobuild.store.disk import explained

_SCHEMA = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


@dataclass(frozen=True)
class Pinned:
    """One artifact of a pin."""

    recipe: str
    variant: str
    node: str
    record: str  # name of the record
    digest: str


@dataclass(frozen=True)
class Pin:
    """A name and the artifacts that it keeps."""

    name: str
    created: str  # ISO 8601, UTC
    artifacts: tuple[Pinned, ...]


class Pins:
    """The pins of one store."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def all(self) -> tuple[Pin, ...]:
        """Every pin, by name.

        Raises:
            StoreError: one cannot be read.
        """
        return tuple(self._read(path) for path in sorted(self._root.glob("*.json")))

    def get(self, name: str) -> Pin | None:
        """The pin called `name`.

        Raises:
            ConfigError: that can be no name of a pin.
            StoreError: it cannot be read.
        """
        path = self.path(name)
        return self._read(path) if path.exists() else None

    def put(self, name: str, created: str, artifacts: Sequence[Pinned]) -> None:
        """Make or replace a pin."""
        path = self.path(name)
        rows = [asdict(one) for one in artifacts]
        text = json.dumps({"schema": _SCHEMA, "created": created, "artifacts": rows}, indent=1, ensure_ascii=False)
        with explained(path):
            self._root.mkdir(exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self._root)
            with open(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(descriptor)
            Path(temporary).replace(path)

    def remove(self, name: str) -> bool:
        """Let go of a pin, also of one that cannot be read; whether there was one."""
        path = self.path(name)
        if not path.exists():
            return False
        with explained(path):
            path.unlink()
        return True

    def path(self, name: str) -> Path:
        """Where the pin called `name` lies.

        Raises:
            ConfigError: that can be no name of a pin.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(f"pin: {name!r} is no name for a pin", "use letters, digits and . _ + -")
        return self._root / f"{name}.json"

    def _read(self, path: Path) -> Pin:
        try:
            document = json.loads(path.read_bytes())
            if document["schema"] != _SCHEMA:
                raise ValueError(f"schema {document['schema']!r}, expected {_SCHEMA}")
            artifacts = tuple(Pinned(**row) for row in document["artifacts"])
            if not all(isinstance(value, str) for one in artifacts for value in vars(one).values()):
                raise TypeError("a field is no text")
            return Pin(path.stem, str(document["created"]), artifacts)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StoreError(
                f"pin '{path}': cannot be read: {error}",
                f"put it back from a copy, or let go of what it keeps: mobuild pin {path.stem} pin.remove=true",
            ) from error
