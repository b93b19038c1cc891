"""Refs: the last finished build of each node of each recipe, the "old" of `why` and what gc keeps.

A ref is a convenience: losing one costs an explanation, or a build after a gc, never a wrong answer. The
latest writer wins. Those of one variant share a file, since they are read and written together. Refs stay on the
machine, because they name project folders.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.errors import ConfigError, StoreError
from mobuild.fingerprint import Fingerprint, canonical, digest_bytes
from mobuild.store import locks
from mobuild.store.record import Condition, Record, file_name

_SCHEMA = 2
_DAY_NS = 86_400 * 1_000_000_000
_PLACE = ("project", "recipe", "variant")
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
            return _ref(_nodes(Path(self.place_of(project, recipe, variant)))[node])
        except _UNREADABLE:
            return None

    def all(self) -> Iterator[Noted]:
        """Every ref that can be read."""
        for path in sorted(self._root.glob("*/*.json")):
            with suppress(*_UNREADABLE):
                document = json.loads(path.read_bytes())
                project, recipe, variant = (str(document[name]) for name in _PLACE)
                for node, row in document["nodes"].items():
                    with suppress(*_UNREADABLE):
                        yield Noted(path, Path(project), recipe, variant, node, _ref(row))

    def put(self, project: Path, recipe: str, variant: str, records: Mapping[str, Record]) -> None:
        """Remember the record of each node; a disk that refuses is a warning, for the build itself is done."""
        if not self._writable or not records:
            return
        path = Path(self.place_of(project, recipe, variant))
        try:
            if _says(path, records):
                with suppress(OSError):
                    if not self.is_young(path.stat().st_mtime_ns):
                        os.utime(path)
                return
            with locks.held(path.parent / "lock"):  # others may put other nodes of the variant
                nodes = {**_readable(path), **{node: _row(record) for node, record in records.items()}}
                place = dict(zip(_PLACE, (str(project.resolve()), recipe, variant), strict=True))
                replace(path, canonical({"schema": _SCHEMA, **place, "nodes": nodes}))
        except (OSError, StoreError) as error:
            reason = error.message if isinstance(error, StoreError) else error.strerror or error
            sentence = f"cache '{self._root}': `why` will not know this run ({reason})"
            if sentence not in self._warnings:
                self._warnings.append(sentence)

    def is_young(self, written_ns: int) -> bool:
        """Whether refs of that time need no other to say that they are still right: gc goes by their days."""
        return written_ns > time.time_ns() - _DAY_NS

    def place_of(self, project: Path, recipe: str, variant: str) -> str:
        """The file of a variant's refs, as text, for those who ask for thousands."""
        # Digests, because a variant may hold any character and be longer than a file name.
        return f"{self._root}/{folder_of(project)}/{digest_bytes(canonical([recipe, variant]))}.json"


@functools.lru_cache(maxsize=16)
def folder_of(project: Path) -> str:
    """The name of the folder for what is kept of a project: asked for each node of each job."""
    return digest_bytes(os.fsencode(project.resolve()))[:12]


def _nodes(path: Path) -> dict[str, Any]:
    """Node → what `_row` made of its record."""
    with open(path, "rb", buffering=0) as stream:
        nodes: dict[str, Any] = json.loads(stream.read())["nodes"]
    return nodes


def _readable(path: Path) -> dict[str, Any]:
    try:
        return {node: row for node, row in _nodes(path).items() if _ref(row)}
    except _UNREADABLE:
        return {}


def _says(path: Path, records: Mapping[str, Record]) -> bool:
    """Whether the file names those records already: what has the name of a record has its content."""
    try:
        nodes = _nodes(path)
        return all(nodes[node]["record"] == _name(record) for node, record in records.items())
    except _UNREADABLE:
        return False


def _name(record: Record) -> str:
    return f"{record.key}/{file_name(record.conditions)}"


def _row(record: Record) -> dict[str, Any]:
    return {
        "record": _name(record),
        "fingerprint": record.fingerprint.document(),
        "conditions": [dataclasses.asdict(one) for one in record.conditions],
    }


def _ref(row: Mapping[str, Any]) -> Ref:
    fingerprint = Fingerprint.from_document(row["fingerprint"])
    ref = Ref(fingerprint, tuple(Condition(**one) for one in row["conditions"]))
    if ref.record != row["record"]:
        raise ValueError("it belongs to another record")
    return ref


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
