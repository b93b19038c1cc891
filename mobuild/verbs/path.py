"""`mobuild path TARGET`: where the artifact of a target lies, for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mobuild.errors import MobuildError, NodeFailed
from mobuild.graph import local_source
from mobuild.job import Job
from mobuild.report import messages
from mobuild.report.documents import artifact_path
from mobuild.report.explanation import misses, reasons
from mobuild.steps import Plan, Step, cause
from mobuild.store import Store
from mobuild.verbs.session import Session


def path(jobs: Sequence[Job]) -> int:
    """Print one path per target and job; 1 when what lies there is not what a build would leave there, 2 when the
    request is why."""
    session = Session.open(jobs)
    planned = session.plan(jobs)
    statuses: set[int] = set()
    for number, job in enumerate(jobs):
        for target in job.graph.targets:
            step = planned.steps[planned.of[number][target]]
            found, expected = _existing(job, target, step)
            if found is None:
                error = _absent(planned, step, job, target, expected)
                messages.error(error)
                statuses.add(error.status)
                continue
            print(found)
            if outdated := _outdated(planned, step, found, session.store):
                messages.warning(f"{_label(job, target)} is not up to date: {outdated}\n  {_fix(planned, step, job)}")
                problem = cause(planned, step)
                statuses.add(problem.status if problem else 1)
    return 1 if 1 in statuses else max(statuses, default=0)


def _label(job: Job, target: str) -> str:
    return f"recipe {job.recipe!r}, variant {job.variant!r}: {target!r}"


def _existing(job: Job, target: str, step: Step) -> tuple[Path | None, Path]:
    """What lies where the artifact of a target belongs, and where that is."""
    if local := local_source(step.spec):
        candidates = [local]
    else:
        expected = artifact_path(job, target, step.spec.node.suffix)
        candidates = [expected, expected.with_suffix("")]
    return next((one for one in candidates if one.exists()), None), candidates[0]


def _absent(planned: Plan, step: Step, job: Job, target: str, expected: Path) -> MobuildError:
    """Why nothing lies there, in the words of `plan`, and what helps."""
    if problem := cause(planned, step):
        return type(problem)(f"{_label(job, target)} is not built; expected {expected}\n  {problem}")
    why = "; ".join(reasons(planned, step))
    if step.state == "fresh" and not why:
        return NodeFailed(
            f"{_label(job, target)} is in the cache and not in build/; expected {expected}",
            f"put it there, which runs nothing: mobuild {job.words}",
        )
    return NodeFailed(f"{_label(job, target)} is not built; expected {expected}\n  {why}", _fix(planned, step, job))


def _fix(planned: Plan, step: Step, job: Job) -> str:
    """What to do about a step: what the error says that blocks it, else the build."""
    problem = cause(planned, step)
    if step.state == "fresh" and misses(planned, step):
        return "it is built and held back: make it smaller or better, or change the limit that it misses"
    return (problem.hint if problem else "") or f"build it: mobuild {job.words}"


def _outdated(planned: Plan, step: Step, found: Path, store: Store) -> str:
    """Why a build would leave something else at `found`; empty when it would not."""
    if why := reasons(planned, step):
        return "; ".join(why)
    if step.record and not store.objects.is_copy(step.record.artifact.digest, found):
        return "it differs from the artifact in the cache"
    return ""
