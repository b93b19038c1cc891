"""`mobuild inspect PATH`: what a file was made of, and how."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mobuild.errors import SourceError
from mobuild.job import Settings
from mobuild.observers.environment import secret_values
from mobuild.report import inspection, messages, provenance
from mobuild.report.documents import record_document, sayable
from mobuild.store import Store
from mobuild.store.finding import Subject, find


def inspect(settings: Sequence[Settings], name: str) -> int:
    """Tell all that the cache and a sidecar know of the file or folder `name`; `format=in-toto` attests it.

    Raises:
        SourceError: nobody knows it, or it is no artifact and cannot be attested.
    """
    chosen = settings[0].format
    store = Store.open(settings[0].cache, make=False)
    path = Path(name).expanduser().absolute()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise SourceError(f"'{name}': is neither a file nor a folder", "name an artifact, a sidecar or a record")
    subject = find(store, path)
    is_known = any(match.role == "artifact" for match in subject.matches) or subject.sidecar is not None
    if not is_known and path.is_file() and not path.stat().st_size:
        raise SourceError(f"'{name}': is empty, and so are many logs: its content tells nothing")
    if not subject.matches and subject.sidecar is None:
        notes = "".join(f"{note}\n" for note in subject.notes)
        raise SourceError(
            f"'{name}': nobody knows this content (digest {subject.digest})",
            f"{notes}no record of cache '{store.root}' has it, and no sidecar lies beside it;"
            " another cache: cache.dir=<folder>",
        )
    if chosen == "text":
        print("\n".join(inspection.lines(inspection.document(store, subject))))
        return 0
    told = inspection.document(store, subject) if chosen == "json" else _attested(subject, settings[0].secrets)
    print(json.dumps(sayable(told), indent=2, ensure_ascii=False))  # a sidecar may be of anyone's
    return 0


def _attested(subject: Subject, secrets: Sequence[str]) -> dict[str, Any]:
    """The in-toto statement of an artifact; the record is believed before a sidecar, which adds names."""
    match, sidecar = inspection.told_by(subject), subject.sidecar or {}
    if match and match.role != "artifact":
        raise SourceError(
            f"'{subject.path}': is {match.role!r} of an artifact, and statements are about artifacts as a whole",
            "give the artifact's path",
        )
    for text in subject.notes:
        messages.warning(text)
    known = {**sidecar, **(record_document(match.record) if match else {})}
    return provenance.statement(known, _file_name(subject, known), secret_values(os.environ, secrets))


def _file_name(subject: Subject, known: dict[str, Any]) -> str:
    """What the artifact is called: a sidecar is called after it, a record knows its kind alone."""
    if subject.digest:
        return subject.path.name
    return subject.path.name.removesuffix(".json") if subject.sidecar else str(known["kind"])
