"""`mobuild build`: build what is stale, put the targets below build/, say what happened."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

from mobuild import answers, witnesses
from mobuild.building import Builder, log_name
from mobuild.contract.findings import Finding
from mobuild.errors import Frozen, MobuildError
from mobuild.executors.here import InProcess
from mobuild.executors.local import LocalExecutor
from mobuild.job import Job
from mobuild.report import artifacts, junit, messages, terminal
from mobuild.report.artifacts import Placed
from mobuild.report.views import Views
from mobuild.results import Run
from mobuild.scheduler import AtOnce, Scheduler, unrun
from mobuild.steps import Plan
from mobuild.store import runs
from mobuild.store.failures import Owner
from mobuild.verbs.offline import refuse_absent
from mobuild.verbs.publishing import check_push, push
from mobuild.verbs.session import Session, default_slots, findings, refuse, warn


def build(jobs: Sequence[Job]) -> int:
    """Build the targets of all jobs as one graph; returns the exit status."""
    done, placed, refused = run(jobs, messages.error)
    if placed:
        print("\n".join(one.place for one in placed))
    if file := jobs[0].settings.junit:
        junit.write(file, done, refused)
    errors = [error.status for error in refused]
    return _status([*errors, done.status] if done else errors)


def run(
    jobs: Sequence[Job], on_error: Callable[[MobuildError], None]
) -> tuple[Run | None, list[Placed], list[MobuildError]]:
    """The story of a build: refuse, plan, run, materialise, report.

    `on_error` hears of each refusal at once, and of failed nodes at the end; progress goes to standard error.
    """
    if wrong := check_push(jobs):
        on_error(wrong)
        return None, [], [wrong]
    session = Session.open(jobs, make=True)
    allowed, refused = _judge(jobs, session, on_error)
    if not allowed:
        return None, [], refused
    name = runs.new_name()
    with session.store.claims.run() if session.store.writable else nullcontext():
        plan = session.plan(allowed)
        if plan.jobs[0].settings.frozen and (stale := _stale(plan)):
            return _frozen(plan, name, stale, on_error), [], [*refused, stale]
        refuse_absent(plan)
        if plan.jobs[0].settings.debug:
            return _debug(session, plan, name, on_error), [], refused
        done = _schedule(session, plan, name)
        views = Views.look(done, session.store)
        _remember(session, done, name, views)
        placed, misplaced = artifacts.materialise(done, session.store, name, views)
    for error in misplaced:
        on_error(error)
    refused += misplaced
    if not done.status:
        refused += push(done, placed, on_error)
    for notice in _notices(done):
        messages.note(notice)
    terminal.summary(done, name, session.store.warnings, on_error, len(jobs) - len(allowed))
    if not refused:
        _offer_answer(done, placed, session)
    return done, placed, refused


def _stale(plan: Plan) -> Frozen | None:
    """What `frozen=true` says where anything would be built; None where all is fresh."""
    rows = [
        f"{terminal.label(plan, step)}: {'; '.join(step.reasons)}"
        for step in plan.steps.values()
        if step.state in ("stale", "waiting")
    ]
    if not rows:
        return None
    return Frozen(f"frozen=true: {len(rows)} of {len(plan.steps)} nodes would be built", "\n".join(rows))


def _frozen(plan: Plan, name: str, stale: Frozen, on_error: Callable[[MobuildError], None]) -> Run:
    """Say what is stale and write it to run.json, and nothing else; what lies in build/ stays."""
    done = unrun(plan)
    on_error(stale)
    for error in artifacts.write_runs(done, name):
        on_error(error)
    return done


def _offer_answer(done: Run, placed: Sequence[Placed], session: Session) -> None:
    """Let the command line be answered without a plan next time, when there was nothing to do."""
    is_idle = all(result.state == "fresh" and result.step.reasons == () for result in done.results.values())
    if done.plan.jobs[0].settings.publishing.push:
        return  # an action that each command asks for anew
    if done.plan.jobs[0].settings.junit or any(job.constraints.get("against") for job in done.plan.jobs):
        return  # a file that may be gone next time, a revision that may be another
    if answers.recorder is None or not is_idle or done.status or session.store.warnings:
        return
    seen = witnesses.of_plan(done.plan, session.store, session.keys)
    if witnesses.is_volatile(seen, done.plan):
        return
    own, build = artifacts.written(done, placed), str(done.plan.jobs[0].settings.build)
    answers.recorder.offer(build, seen.paths, own, seen.variables, session.store.files.confirmed())


def _status(statuses: Sequence[int]) -> int:
    """1 when anything failed; 2 when all that went wrong was the request."""
    return 1 if 1 in statuses else max(statuses, default=0)


def _judge(
    jobs: Sequence[Job], session: Session, on_error: Callable[[MobuildError], None]
) -> tuple[list[Job], list[MobuildError]]:
    """The jobs that may run; the others are reported and left."""
    allowed: dict[int, tuple[Finding, ...]] = {}
    refused: list[MobuildError] = []
    for number, job in enumerate(jobs):
        try:
            found = findings(job, session.keys)
            refuse(job, found)
            allowed[number] = found
        except MobuildError as error:
            on_error(error)
            refused.append(error)
    warn(jobs, allowed)
    return [jobs[number] for number in allowed], refused


def _notices(done: Run) -> list[str]:
    """What backends want known of the engines that were asked for and are there."""
    found: dict[str, None] = {}
    for number, job in enumerate(done.plan.jobs):
        for target in job.graph.targets:
            node = job.graph.nodes[target].node
            backend = getattr(node, "backend", None) if node.kind == "build_engine" else None
            if backend and backend.notice and done.of(number, target).is_done:
                found[f"{job.recipe}/{job.variant} {target}: {backend.notice}"] = None
    return list(found)


def _schedule(session: Session, plan: Plan, name: str) -> Run:
    settings = plan.jobs[0].settings
    executor = LocalExecutor(session.store.local / "tools")
    logs = session.store.runs.folder(name)
    store, planner, strict, seconds = session.store, session.planner, settings.strict, settings.timeout_seconds
    try:
        with terminal.live(plan, lambda step: logs / log_name(step)) as watcher:
            builder = Builder(store, planner, executor, logs, strict, seconds, watcher.waiting)
            slots = settings.slots or default_slots()
            return Scheduler(planner, builder, watcher, slots, settings.keep_going).run(plan)
    finally:
        executor.close()


def _debug(session: Session, plan: Plan, name: str, on_error: Callable[[MobuildError], None]) -> Run:
    """Run the stale steps in this process, one after the other, for a debugger.

    Later steps of the run use what earlier ones made, but there is no record of it, and build/ is left alone.
    """
    logs, watcher = session.store.runs.folder(name), terminal.Lines(plan)
    builder = Builder(session.store, session.planner, InProcess(), logs, False, None, watcher.waiting, records=False)
    scheduler = Scheduler(session.planner, builder, watcher, 1, plan.jobs[0].settings.keep_going, AtOnce())
    with session.store.claims.keeping(), _interruptible():  # gc would take what no record needs
        done = scheduler.run(plan)
    ran = sum(result.state in ("built", "failed") for result in done.results.values())
    messages.note(
        f"debug=true: {ran} of the nodes ran in this process; no result of them is kept, and build/ is as it was"
    )
    terminal.summary(done, name, session.store.warnings, on_error)
    return done


@contextmanager
def _interruptible() -> Iterator[None]:
    """A debugger takes each Ctrl-C for itself; a script that calls mobuild has its own handler again afterwards."""
    former = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # in another thread than the main one nobody hears of Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        with suppress(ValueError, TypeError):  # or nothing of Python's was there
            signal.signal(signal.SIGINT, former)


def _remember(session: Session, done: Run, run: str, views: Views) -> None:
    """Note what each finished node was made of, for the next `why`, and its record as used; forget its failures."""
    store = session.store
    if not store.writable:
        return
    records = {identity: one.record for identity, one in done.results.items() if one.is_done and one.record}
    called = {identity: store.records.name(record) for identity, record in records.items()}
    members: list[tuple[str, str, dict[str, str]]] = []
    used: set[str] = set()
    for number, job in enumerate(done.plan.jobs):
        of = done.plan.of[number].items()
        members.append(
            (job.recipe, job.variant, {name: called[identity] for name, identity in of if identity in called})
        )
        if number not in views.young:
            finished = {name: records[identity] for name, identity in of if identity in records}
            store.refs.put(job.settings.project, job.recipe, job.variant, finished)
            used.update(members[-1][-1].values())
    store.uses.note(used)
    for result in done.results.values():
        if (source := result.step.source) and source.is_folder:
            store.listings.note(source.digest, source.listed)
    store.failures.drop(
        Owner(job.settings.project, job.recipe, job.variant, name)
        for number, job in enumerate(done.plan.jobs)
        for name, identity in done.plan.of[number].items()
        if done.results[identity].is_done
    )
    store.runs.put(run, done.plan.jobs[0].settings.project, members)
