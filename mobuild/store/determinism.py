"""Whether building again gives the same bytes, as `mobuild verify` found on this machine.

*deterministic* means that every rebuild so far was equal; one that differs makes it *varies* for good.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from mobuild.fingerprint import Key
from mobuild.store.disk import explained


@dataclass(frozen=True)
class Rebuilt:
    """What the rebuilds of one key showed."""

    kind: str
    node: str  # as the recipe called it last
    equal: int = 0
    different: int = 0

    @property
    def word(self) -> str:
        return "varies" if self.different else "deterministic"


class Rebuilds:
    """The findings of one machine; losing them costs a `verify`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, key: Key) -> Rebuilt | None:
        """What is known of `key`; None when it was never built again."""
        try:
            return Rebuilt(**json.loads(self._path(key).read_bytes()))
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def note(self, key: Key, kind: str, node: str, is_equal: bool) -> Rebuilt:
        """Count one more rebuild."""
        known = self.get(key) or Rebuilt(kind, node)
        found = Rebuilt(kind, node, known.equal + is_equal, known.different + (not is_equal))
        path = self._path(key)
        with explained(path):
            self._root.mkdir(exist_ok=True)
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            partial.write_text(json.dumps(asdict(found)))
            partial.replace(path)
        return found

    def forget(self, key: Key) -> None:
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._root / f"{key}.json"
