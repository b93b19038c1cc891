"""What people call finished work: the node of a recipe that it was last, from the refs of the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from mobuild.fingerprint import Key
from mobuild.store import Record, Store
from mobuild.store.refs import Noted, Refs

Place = tuple[str, str]  # recipe, variant


class Names:
    """The names of keys in one store, by the refs of every machine that used it."""

    def __init__(self, store: Store) -> None:
        self._refs: dict[Key, list[Noted]] = defaultdict(list)
        for folder in sorted((store.root / "local").glob("*/refs")):
            for noted in Refs(folder, [], writable=False).all():
                self._refs[noted.ref.fingerprint.key].append(noted)

    def of(self, key: Key) -> list[Noted]:
        """Every node that the key stood for."""
        return self._refs.get(key, [])

    def label(self, record: Record, beside: Collection[Place] = ()) -> str:
        """`toy/cpu engine`, with how many others share it; of work that no recipe names now, its kind.

        With `beside`, only names of those variants count, and of work that others alone name it is empty.
        """
        noted = self.of(record.key)
        near = [one for one in noted if (one.recipe, one.variant) in beside] if beside else noted
        if noted and not near:
            return ""
        names = list(dict.fromkeys(f"{one.recipe}/{one.variant} {one.node}" for one in near))
        if not names:
            return f"{record.fingerprint.kind} {record.key[:8]}"
        return names[0] + (f" (and {len(names) - 1} more)" if len(names) > 1 else "")
