"""`mobuild verify`: read the cache again, find damage, and find out which builds give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mobuild.building import Builder
from mobuild.errors import ConfigError, MobuildError, StoreError
from mobuild.executors.local import LocalExecutor
from mobuild.job import Job, Settings
from mobuild.report import messages
from mobuild.report.naming import Names
from mobuild.report.terminal import label
from mobuild.steps import Plan, Step
from mobuild.store import Store, runs
from mobuild.store.disk import ELSEWHERE
from mobuild.store.verification import Damage, Verification
from mobuild.units import about
from mobuild.verbs.session import Session

_FATES = {
    "artifact": "its record was set aside, and it is built again when it is needed",
    "log": "the artifact is whole, and nothing needs its log",
    "record": "it was set aside",
    "stray": "no record needs it",
}


def verify_all(settings: Sequence[Settings]) -> int:
    """Read every object of the cache; 1 when something was damaged.

    Raises:
        ConfigError: `verify.rebuild` without a target.
    """
    if settings[0].upkeep.rebuild:
        raise ConfigError("verify.rebuild: of what?", "name a target: mobuild verify verify.rebuild=true target=engine")
    store = Store.open(settings[0].cache, make=False)
    found = Verification(store)
    with _undisturbed(store):
        damages = _told(store, found.everything(), settings[0])
        strays = found.strays()
    document = _document(found, damages) | {"stray_objects": len(strays), "stray_bytes": sum(strays.values())}
    return _end(document, settings[0])


def verify(jobs: Sequence[Job]) -> int:
    """Read what the targets need and, with `verify.rebuild`, build it again; 1 when damage or a failure was found."""
    settings = jobs[0].settings
    session = Session.open(jobs, make=settings.upkeep.rebuild)
    store = session.store
    found, last = Verification(store), _last_keys(jobs, store)
    with _undisturbed(store):
        damages = _told(store, found.records(last), settings)
        planned = session.plan(jobs)  # after that, since it moves damage aside itself; what no ref knows is left
        keys = {step.fingerprint.key for step in planned.steps.values() if step.fingerprint}
        damages += _told(store, found.records(keys - last), settings)
    document = _document(found, damages)
    if settings.upkeep.rebuild:
        document["rebuilt"] = _rebuild(session, jobs, settings)
    return _end(document, settings)


@contextmanager
def _undisturbed(store: Store) -> Iterator[None]:
    """gc waits while this lasts."""
    if not store.writable:
        yield
        return
    with store.claims.run(), store.claims.keeping():
        yield


def _last_keys(jobs: Sequence[Job], store: Store) -> set[str]:
    places = [(job.settings.project, job.recipe, job.variant, name) for job in jobs for name in job.graph.nodes]
    return {last.fingerprint.key for place in places if (last := store.refs.get(*place))}


def _told(store: Store, found: Iterable[Damage], settings: Settings) -> list[dict[str, Any]]:
    """Print each finding when it is made, as reading may take long; all of them as data."""
    names, told = Names(store), []
    for one in found:
        name = names.label(one.record) if one.record else ""
        told.append({"problem": one.problem, "part": one.part, "subject": one.subject, "name": name})
        if settings.format != "json":
            print(f"{one.problem:10} {_words(one, name)}", flush=True)
    return told


def _words(one: Damage, name: str) -> str:
    fate = _FATES[one.part]
    if one.part == "record":
        return f"record {one.subject} ({one.reason}); {fate}"
    what = f"{name}: {one.part}, object {one.subject}" if name else f"object {one.subject}"
    moved = " was moved to quarantine" if one.problem == "damaged" else " is missing"
    return f"{what}{moved}; {fate}"


def _document(found: Verification, damages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schema": 1, "objects": len(found.read), "size_bytes": found.size_bytes, "damaged": damages}


def _rebuild(session: Session, jobs: Sequence[Job], settings: Settings) -> list[dict[str, Any]]:
    """Build each fresh step again and compare; one row a step.

    Raises:
        StoreError: the cache is read-only.
    """
    store = session.store
    if not store.writable:
        raise StoreError(f"cache '{store.root}': is read-only, nothing can be built there", ELSEWHERE)
    executor, logs = LocalExecutor(), store.local / "runs" / runs.new_name()
    try:
        with store.claims.run():
            planned = session.plan(jobs)  # again, so that it is claimed
            builder = Builder(
                store, session.planner, executor, logs, settings.strict, settings.timeout_seconds, lambda step: None
            )
            return list(_rows(planned, builder, store, settings.format != "json"))
    finally:
        executor.close()


def _rows(planned: Plan, builder: Builder, store: Store, aloud: bool) -> Iterator[dict[str, Any]]:
    width = max((len(label(planned, step)) for step in planned.steps.values()), default=0)
    for step in planned.steps.values():
        if step.source:
            continue
        row = _row(planned, step, builder, store)
        if aloud:
            print(f"{row['result']:13} {row['node']:{width}}  {row['detail']}".rstrip(), flush=True)
        yield row


def _row(planned: Plan, step: Step, builder: Builder, store: Store) -> dict[str, Any]:
    row = {"node": label(planned, step), "kind": step.spec.node.kind, "result": "", "detail": ""}
    if step.record is None or step.fingerprint is None:
        return row | {"result": step.state, "detail": "not built, so there is nothing to compare with"}
    try:
        digest = builder.rebuild(step, planned.steps)
    except MobuildError as error:
        return row | {"result": "failed", "detail": error.message.partition("\n")[0]}
    found = store.rebuilds.note(step.fingerprint.key, step.spec.node.kind, row["node"], digest == step.digest)
    times = f"equal {found.equal} of {found.equal + found.different} times"
    return row | {"result": found.word, "detail": f"{times} ({step.spec.node.kind})"}


def _end(document: dict[str, Any], settings: Settings) -> int:
    failed = [row for row in document.get("rebuilt", ()) if row["result"] == "failed"]
    damages = [row for row in document["damaged"] if (row["problem"], row["part"]) != ("lost", "log")]
    if settings.format == "json":
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(
            f"read {document['objects']} objects, {about(document['size_bytes'])}: {len(damages) or 'nothing'} damaged"
        )
        if document.get("stray_objects"):
            strays = f"{document['stray_objects']} objects, {about(document['stray_bytes'])}"
            print(f"of no record: {strays}; mobuild gc removes them")
    if failed:
        messages.warning(f"{len(failed)} of {len(document['rebuilt'])} could not be built again")
    return 1 if damages or failed else 0
