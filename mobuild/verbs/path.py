"""`mobuild path TARGET`: where the artifact of a target lies, for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mobuild.errors import NodeFailed
from mobuild.graph import local_source
from mobuild.job import Job
from mobuild.report import messages
from mobuild.report.artifacts import artifact_path
from mobuild.steps import Step
from mobuild.store import Store
from mobuild.verbs.session import Session


def path(jobs: Sequence[Job]) -> int:
    """Print one path per target and job; 1 when what lies there is not what a build would leave there.

    Raises:
        NodeFailed: it was not built yet; the message says the command.
    """
    session = Session.open(jobs)
    planned = session.plan(jobs)
    status = 0
    for number, job in enumerate(jobs):
        for target in job.graph.targets:
            step = planned.steps[planned.of[number][target]]
            found = _existing(job, target, step)
            print(found)
            if outdated := _outdated(step, found, session.store):
                messages.warning(
                    f"recipe {job.recipe!r}, variant {job.variant!r}: {target!r} is not up to date: {outdated}\n"
                    f"  build it: mobuild {job.words}"
                )
                status = 1
    return status


def _existing(job: Job, target: str, step: Step) -> Path:
    if local := local_source(step.spec):
        candidates = [local]
    else:
        found = artifact_path(job, target, step.spec.node.suffix)
        candidates = [found, found.with_suffix("")]
    existing = next((one for one in candidates if one.exists()), None)
    if existing is None:
        raise NodeFailed(
            f"recipe {job.recipe!r}, variant {job.variant!r}: {target!r} is not built; expected {candidates[0]}",
            f"build it: mobuild {job.words}",
        )
    return existing


def _outdated(step: Step, found: Path, store: Store) -> str:
    """Why a build would leave something else at `found`; empty when it would not."""
    if step.state != "fresh":
        return "; ".join(step.reasons)
    if step.record and not store.objects.is_copy(step.record.artifact.digest, found):
        return "it differs from the artifact in the cache"
    return ""
