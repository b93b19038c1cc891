"""`mobuild plan`: what would run, why, and how long it took last time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mobuild.job import Job
from mobuild.report import messages
from mobuild.report.explanation import misses, reasons
from mobuild.report.needs import needs, sentence, shortages
from mobuild.report.terminal import label
from mobuild.steps import Plan, Step, code_files, status
from mobuild.store.record import file_name
from mobuild.verbs.offline import refuse_absent
from mobuild.verbs.session import Session, findings, refuse, warn
from mobuild.whereabouts import shown


def plan(jobs: Sequence[Job]) -> int:
    """Print the steps of all jobs with their states; 1 when one is blocked or misses its constraints, 2 when the
    request alone is what blocks."""
    chosen = jobs[0].settings.format
    session = Session.open(jobs)
    found = {number: findings(job, session.keys) for number, job in enumerate(jobs)}
    for number, job in enumerate(jobs):
        refuse(job, found[number])
    warn(jobs, found)
    planned = session.plan(jobs)
    if chosen == "json":
        print(json.dumps(document(planned), indent=2, ensure_ascii=False))
    else:
        _print(planned)
    refuse_absent(planned)
    if any(misses(planned, step) for step in planned.steps.values()):
        return 1
    is_blocked = any(step.state == "blocked" for step in planned.steps.values())
    return status(planned) or int(is_blocked)


def document(planned: Plan) -> dict[str, object]:
    """The plan as data, `"schema": 1`."""
    steps = [
        {
            "node": label(planned, step),
            "names": list(dict.fromkeys(user.name for user in step.users)),
            "kind": step.spec.node.kind,
            "state": step.state,
            "key": step.fingerprint.key if step.fingerprint else None,
            "record": f"{step.record.key}/{file_name(step.record.conditions)}" if step.record else None,
            "reasons": list(reasons(planned, step)),
            "expected_seconds": step.expected_seconds,
            "code": dict(step.ways[-1].traits.code) if step.ways else {},
            "toolchain": dict(step.ways[-1].traits.toolchain) if step.ways else {},
            "code_files": code_files(step.ways[-1]) if step.ways else {},
            "content": step.source.digest if step.source else None,
            "content_file": shown(step.source.main, step.spec.root) if step.source else None,
        }
        for step in planned.steps.values()
    ]
    return {"schema": 1, "steps": steps, "expected": needs(planned).document()}


def _print(planned: Plan) -> None:
    rows = [(step.state, label(planned, step), _why(planned, step)) for step in planned.steps.values()]
    width = max(len(name) for _, name, _ in rows)
    for state, name, why in rows:
        print(f"{state:8} {name:{width}}  {why}".rstrip())
    expected = needs(planned)
    if text := sentence(expected):
        print(text)
    for shortage in shortages(expected, planned.jobs[0].settings.cache):
        messages.warning(shortage)


def _why(planned: Plan, step: Step) -> str:
    seconds = f" (~{step.expected_seconds:.1f} s)" if step.expected_seconds else ""
    return "; ".join(reasons(planned, step)) + seconds
