"""`mobuild inspect PATH`: what a file was made of, and how."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mobuild.errors import SourceError
from mobuild.job import Settings
from mobuild.report import inspection
from mobuild.store import Store
from mobuild.store.finding import find
from mobuild.verbs.session import wanted_format


def inspect(settings: Sequence[Settings], name: str) -> int:
    """Tell all that the cache and a sidecar know of the file or folder `name`.

    Raises:
        SourceError: nobody knows it.
    """
    chosen = wanted_format("inspect", settings[0], ("text", "json"))
    store = Store.open(settings[0].cache)
    subject = find(store, Path(name).expanduser().absolute())
    if not subject.matches and subject.sidecar is None:
        notes = "".join(f"{note}\n" for note in subject.notes)
        raise SourceError(
            f"'{name}': nobody knows this content (digest {subject.digest})",
            f"{notes}no record of cache '{store.root}' has it, and no sidecar lies beside it;"
            " another cache: cache.dir=<folder>",
        )
    told = inspection.document(store, subject)
    if chosen == "json":
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        print("\n".join(inspection.lines(told)))
    return 0
