"""`mobuild cache export|import|key`: carry what targets need to another machine, and a key for caches of pipelines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed
from mobuild.fingerprint import canonical, digest_bytes, sha256_file
from mobuild.job import Job, Settings
from mobuild.report.terminal import label
from mobuild.steps import Plan, cause, work_keys
from mobuild.store import Record, Store
from mobuild.store import exporting as exports
from mobuild.store import importing as imports
from mobuild.units import about
from mobuild.verbs.session import Session

_PREFIX = "mobuild-1"  # the layout of the cache, since one of another layout is of no use


def export(jobs: Sequence[Job], file: str = "") -> int:
    """Write one file with the records and objects of everything that the targets need, themselves included.

    Raises:
        NodeFailed: one of them is not fresh.
        StoreError: the file cannot be written.
    """
    settings = jobs[0].settings
    session = Session.open(jobs)
    with session.store.claims.run():  # until the file is written, the claims of the plan hold
        planned = session.plan(jobs)
        key = _key(work_keys(planned))
        path = Path(file or f"{key}.tar")
        done = exports.export(session.store, _records(planned), path)
    if settings.format == "json":
        _print({"file": str(path), "key": key, "sha256": sha256_file(path), **vars(done)})
    else:
        print(f"{path}: {done.records} records, {done.objects} objects, {about(done.size_bytes)}")
    return 0


def import_file(settings: Sequence[Settings], file: str) -> int:
    """Take in what `export` wrote.

    Raises:
        SourceError: it is not that; nothing of it was taken in.
    """
    done = imports.import_file(Store.open(settings[0].cache), Path(file))
    if settings[0].format == "json":
        _print({"file": file, **vars(done)})
    else:
        print(f"{file}: {done.added} records added, {done.present} were here already")
    return 0


def key(jobs: Sequence[Job]) -> int:
    """Print one key of all that the targets need; it is known before anything is built, and needs no cache.

    Raises:
        MobuildError: a file or the code of a node cannot be read.
    """
    planned = Session.open(jobs).plan(jobs)
    keys = work_keys(planned)
    if jobs[0].settings.format == "json":
        nodes = {label(planned, planned.steps[identity]): one for identity, one in keys.items()}
        _print({"key": _key(keys), "nodes": nodes})
    else:
        print(_key(keys))
    return 0


def _key(keys: dict[str, str]) -> str:
    return f"{_PREFIX}-{digest_bytes(canonical(sorted(set(keys.values()))))}"


def _records(planned: Plan) -> list[Record]:
    found = []
    for step in planned.steps.values():
        if step.record:
            found.append(step.record)
        elif problem := cause(planned, step):
            raise problem
        elif not step.source:
            job = planned.jobs[step.users[0].job]
            raise NodeFailed(
                f"{label(planned, step)} is {step.state}, and only what is built can be exported",
                f"build it: mobuild {job.words}",
            )
    return found


def _print(document: dict[str, Any]) -> None:
    print(json.dumps({"schema": 1, **document}, indent=2, ensure_ascii=False))
