"""Runs: which record each node of each finished command had, so that two of them can be compared.

A run's folder also holds the logs of its nodes. Runs stay on the machine, because they name project folders.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mobuild.errors import StoreError, did_you_mean
from mobuild.fingerprint import Key
from mobuild.store.record import Record
from mobuild.store.records import Records
from mobuild.store.refs import replace

_SCHEMA = 2
_FILE = "run.json"
LATEST = "latest"
_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4,7}")  # of four digits before they told milliseconds
_SHOWN = 5


class Place(NamedTuple):
    """What a finished node of a run was called."""

    recipe: str
    variant: str
    node: str


def new_name() -> str:
    """A name for a run, unique enough for one project: `20261130-031500-123a1b2`.

    Names sort as runs begin, to the millisecond: `latest` is the last of them.
    """
    now = datetime.now(UTC)
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03}{os.urandom(2).hex()}"


def is_name(word: str) -> bool:
    """Whether `word` is the name of a run, or `latest`."""
    return word == LATEST or _NAME.fullmatch(word) is not None


class Runs:
    """The runs of one store."""

    def __init__(self, root: Path, warnings: list[str]) -> None:
        self._root, self._warnings = root, warnings

    def folder(self, name: str) -> Path:
        """Where the logs of a run lie."""
        return self._root / name

    def put(self, name: str, project: Path, members: Sequence[tuple[str, str, Mapping[str, str]]]) -> None:
        """Remember a run, whose members are (recipe, variant, node → name of its record); a disk that refuses is a
        warning, for the build itself is done."""
        document = {"schema": _SCHEMA, "project": str(project.resolve()), "members": members}
        try:
            replace(self.folder(name) / _FILE, json.dumps(document).encode())
        except OSError as error:
            self._warnings.append(f"run {name}: `why` cannot compare with it ({error.strerror or error})")

    def get(self, name: str, project: Path) -> dict[Place, str]:
        """The finished nodes of a run of `project`, and the names of their records; `latest` is its last one.

        Raises:
            StoreError: it is not known.
        """
        of_project = ((each, found) for each in self._names() if (found := self._read(each, project)) is not None)
        if name != LATEST:
            found = self._read(name, project) if name in self._names() else None
        else:
            found = next((members for _, members in of_project), None)
        if found is None:
            known = [each for each, _ in islice(of_project, _SHOWN)]
            hint = f"the last runs here: {', '.join(known)}" if known else "nothing was built here yet"
            raise StoreError(f"run {name!r}: is not known.{did_you_mean(name, known)}", hint)
        return found

    def record(self, records: Records, place: Place, name: str) -> Record:
        """What a node of a run was made of; `name` is that of its record.

        Raises:
            StoreError: its record is not in the cache any more.
        """
        for found in records.find(Key(name.partition("/")[0])):
            if records.name(found) == name:
                return found
        raise StoreError(
            f"node {place.node!r} of {place.recipe}/{place.variant}: its record is not in the cache any more",
            "gc keeps what a pin holds: mobuild pin NAME target=…",
        )

    def _names(self) -> list[str]:
        """All runs, the last one first: names begin with the time."""
        return sorted((path.parent.name for path in self._root.glob(f"*/{_FILE}")), reverse=True)

    def _read(self, name: str, project: Path) -> dict[Place, str] | None:
        """The members of a run; None for another project's and for what cannot be read."""
        try:
            document = json.loads((self.folder(name) / _FILE).read_bytes())
            rows = document["members"]
            members = {
                Place(recipe, variant, node): called
                for recipe, variant, nodes in rows
                for node, called in nodes.items()
            }
            return members if document["project"] == str(project.resolve()) else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
