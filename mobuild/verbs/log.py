"""`mobuild log TARGET`: the log of a target's last build, also of one that failed or still goes on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed
from mobuild.executors.local import cleaned
from mobuild.graph import local_source
from mobuild.job import Job
from mobuild.report import messages
from mobuild.report.documents import last_run
from mobuild.steps import Step, cause
from mobuild.verbs.session import Session


def log(jobs: Sequence[Job]) -> int:
    """Print the log of every target: of the build that goes on, else of its failed last one, else of the one that made
    the artifact.

    Raises:
        NodeFailed: there is none.
    """
    session = Session.open(jobs)
    planned = session.plan(jobs)
    for number, job in enumerate(jobs):
        last = last_run(job)
        for target in job.graph.targets:
            step = planned.steps[planned.of[number][target]]
            running = _running(session, step)
            path = running or _failed(last, target) or _built(session, step)
            if path is None:
                raise cause(planned, step) or _missing(step, job, target, last)
            text = path.read_text(errors="replace")
            if running:
                text = cleaned(text, job.settings.secrets)  # as it will be in the end
                messages.note(f"{target!r} is being built; this is its log so far")
            elif not text:
                messages.note(f"{target!r} wrote nothing into its log")
            sys.stdout.write(text)
    return 0


def _running(session: Session, step: Step) -> Path | None:
    path = session.store.running_log(step.fingerprint.key) if step.fingerprint and step.state == "stale" else None
    return path if path and path.is_file() else None


def _failed(last: Mapping[str, Any], target: str) -> Path | None:
    path = Path(str(last.get(target, {}).get("log", "")))
    return path if path.is_file() else None


def _built(session: Session, step: Step) -> Path | None:
    record = step.record or step.past
    if record is None or record.log is None or not session.store.objects.holds(record.log):
        return None
    return session.store.objects.path(record.log)


def _missing(step: Step, job: Job, target: str, last: Mapping[str, Any]) -> NodeFailed:
    where = f"recipe {job.recipe!r}, variant {job.variant!r}: "
    if (record := step.record or step.past) and record.log:
        return NodeFailed(
            f"{where}the log of {target!r} in the cache was lost or damaged",
            "its artifact does not need it; the next build of it writes another",
        )
    return NodeFailed(f"{where}{target!r} has no log", _hint(last, target, job))


def _hint(last: Mapping[str, Any], target: str, job: Job) -> str:
    if local := local_source(job.graph.nodes[target]):
        return f"it is a file of yours, used in place: {local}"
    failed = [name for name, node in last.items() if node["state"] == "failed"]
    return f"'{failed[0]}' failed before it: mobuild log {failed[0]}" if failed else f"build it: mobuild {job.words}"
