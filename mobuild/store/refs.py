"""Refs: the last finished build of each node of each recipe, the "old" of `why` and what gc keeps.

A ref is a convenience: losing one costs an explanation, or a build after a gc, never a wrong answer. The
latest writer wins. Refs stay on the machine, because they name project folders.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.errors import ConfigError
from mobuild.fingerprint import Fingerprint, canonical, digest_bytes
from mobuild.store.record import Condition, Record, file_name

_SCHEMA = 1
_PLACE = ("project", "recipe", "variant", "node")
_UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, ConfigError)


@dataclass(frozen=True)
class Ref:
    """What a node was made of when it was last finished: its fingerprint, and what was observed beyond it."""

    fingerprint: Fingerprint
    conditions: tuple[Condition, ...]

    @property
    def record(self) -> str:
        """The name of the record, which gc keeps."""
        return f"{self.fingerprint.key}/{file_name(self.conditions)}"


@dataclass(frozen=True)
class Noted:
    """A ref, and what it is the last build of."""

    path: Path  # of the ref itself
    project: Path
    recipe: str
    variant: str
    node: str
    ref: Ref


class Refs:
    """The refs of one store."""

    def __init__(self, root: Path, warnings: list[str], writable: bool) -> None:
        self._root, self._warnings, self._writable = root, warnings, writable

    def get(self, project: Path, recipe: str, variant: str, node: str) -> Ref | None:
        """What `put` wrote last, if it can be read."""
        try:
            return _ref(json.loads(self._path(project, recipe, variant, node).read_bytes()))
        except _UNREADABLE:
            return None

    def all(self) -> Iterator[Noted]:
        """Every ref that can be read."""
        for path in sorted(self._root.glob("*/*.json")):
            with suppress(*_UNREADABLE):
                document = json.loads(path.read_bytes())
                project, recipe, variant, node = (str(document[name]) for name in _PLACE)
                yield Noted(path, Path(project), recipe, variant, node, _ref(document))

    def put(self, project: Path, recipe: str, variant: str, node: str, record: Record) -> None:
        """Remember `record`; a disk that refuses is a warning, for the build itself is done."""
        if not self._writable:
            return
        document = {
            "schema": _SCHEMA,
            "project": str(project.resolve()),
            "recipe": recipe,
            "variant": variant,
            "node": node,
            "key": record.key,
            "fingerprint": record.fingerprint.document(),
            "conditions": [dataclasses.asdict(one) for one in record.conditions],
        }
        path, data = self._path(project, recipe, variant, node), canonical(document)
        try:
            if not _touched(path, data):
                replace(path, data)
        except OSError as error:
            sentence = f"cache '{self._root}': `why` will not know this run ({error.strerror or error})"
            if sentence not in self._warnings:
                self._warnings.append(sentence)

    def _path(self, project: Path, recipe: str, variant: str, node: str) -> Path:
        # Digests, because a variant may hold any character and be longer than a file name.
        return self._root / folder_of(project) / f"{digest_bytes(canonical([recipe, variant, node]))}.json"


@functools.lru_cache(maxsize=16)
def folder_of(project: Path) -> str:
    """The name of the folder for what is kept of a project: asked for each node of each job."""
    return digest_bytes(os.fsencode(project.resolve()))[:12]


def _touched(path: Path, data: bytes) -> bool:
    """Whether the file says that already; then it is of today again, for a tenth of what writing it costs."""
    try:
        if path.read_bytes() != data:
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _ref(document: Mapping[str, Any]) -> Ref:
    fingerprint = Fingerprint.from_document(document["fingerprint"])
    if fingerprint.key != document["key"]:
        raise ValueError("it belongs to another key")
    return Ref(fingerprint, tuple(Condition(**one) for one in document["conditions"]))


def replace(path: Path, data: bytes) -> None:
    """Write a file in one move.

    Raises:
        OSError: the disk refuses; what was there before is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
