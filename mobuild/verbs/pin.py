"""`mobuild pin NAME`: keep what the targets need, whatever gc does; without a name: list the pins."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mobuild.errors import NodeFailed, StoreError
from mobuild.job import Job, Settings
from mobuild.steps import Plan, cause
from mobuild.store import Store
from mobuild.store.disk import ELSEWHERE
from mobuild.store.pinned import Pinned
from mobuild.verbs.session import Session


def pin(jobs: Sequence[Job], name: str) -> int:
    """Pin every artifact that the targets of all jobs need, those of the targets included.

    Raises:
        NodeFailed: one of them is not fresh.
        StoreError: another set of artifacts has that name.
    """
    session = Session.open(jobs, make=True)
    store = session.store
    known = store.pins.get(name)
    _check_writable(store)
    with store.claims.run():  # until the pin is there, the claims of the plan hold
        wanted = tuple(_artifacts(session.plan(jobs), store))
        if known and known.artifacts != wanted:
            raise StoreError(
                f"pin {name!r}: is there already, with other artifacts",
                f"choose another name, or let it go first: mobuild pin {name} pin.remove=true",
            )
        if not known:
            store.pins.put(name, datetime.now(UTC).isoformat(timespec="seconds"), wanted)
    if jobs[0].settings.format == "json":
        _print({"pinned": name, "artifacts": [vars(each) for each in wanted]})
    else:
        print(f"pinned {name}: {', '.join(_words(wanted))}")
    return 0


def list_pins(settings: Sequence[Settings]) -> int:
    """Print every pin with what it keeps.

    Raises:
        StoreError: one cannot be read.
    """
    chosen = settings[0].format
    store = Store.open(settings[0].cache, make=False)
    pins = store.pins.all()
    if chosen == "json":
        rows = [{**vars(one), "artifacts": [vars(each) for each in one.artifacts]} for one in pins]
        _print({"pins": rows})
        return 0
    for one in pins:
        print(f"{one.name}  {one.created}  {', '.join(_words(one.artifacts))}")
    if not pins:
        print("nothing is pinned; mobuild pin NAME target=… does it")
    return 0


def unpin(settings: Sequence[Settings], name: str) -> int:
    """Let go of a pin; its artifacts stay until gc finds no other reason to keep them.

    Raises:
        StoreError: there is none of that name.
    """
    store = Store.open(settings[0].cache)
    _check_writable(store)
    if not store.pins.remove(name):
        raise StoreError(f"there is no pin {name!r}", f"Pins: {', '.join(one.name for one in store.pins.all()) or '-'}")
    if settings[0].format == "json":
        _print({"removed": name})
    else:
        print(f"removed pin {name}; mobuild gc decides on what it kept")
    return 0


def _print(document: Mapping[str, Any]) -> None:
    print(json.dumps({"schema": 1, **document}, indent=2, ensure_ascii=False))


def _artifacts(planned: Plan, store: Store) -> Iterator[Pinned]:
    for number, job in enumerate(planned.jobs):
        for node in job.graph.nodes:
            step = planned.steps[planned.of[number][node]]
            if step.source:
                continue
            if problem := cause(planned, step):
                raise problem
            if step.record is None:
                raise NodeFailed(
                    f"recipe {job.recipe!r}, variant {job.variant!r}: {node!r} is {step.state}, and only what is built"
                    " can be pinned",
                    f"build it: mobuild {job.words}",
                )
            yield Pinned(job.recipe, job.variant, node, store.records.name(step.record), step.record.artifact.digest)


def _words(artifacts: Sequence[Pinned]) -> list[str]:
    """`toy/cpu onnx engine`, one for each variant."""
    nodes: dict[str, list[str]] = {}
    for one in artifacts:
        nodes.setdefault(f"{one.recipe}/{one.variant}", []).append(one.node)
    return [f"{place} {' '.join(names)}" for place, names in nodes.items()]


def _check_writable(store: Store) -> None:
    if not store.writable:
        raise StoreError(f"cache '{store.root}': is read-only, no pin can be written", ELSEWHERE)
