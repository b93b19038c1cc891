"""`mobuild why`: what changed since the last build of the same variant, old → new."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mobuild.job import Job
from mobuild.report.explanation import misses, reasons
from mobuild.report.terminal import label
from mobuild.steps import Plan, Step
from mobuild.verbs.against import against
from mobuild.verbs.between import between
from mobuild.verbs.session import Session

__all__ = ["between", "why"]


def why(jobs: Sequence[Job]) -> int:
    """Print, for each step that would run, the changes that make it run; or what differs from a revision."""
    chosen = jobs[0].settings.format
    if jobs[0].settings.against:
        return against(jobs)
    session = Session.open(jobs)
    planned = session.plan(jobs)
    telling = [step for step in planned.steps.values() if step.state != "fresh" or misses(planned, step)]
    if chosen == "json":
        print(
            json.dumps(
                {"schema": 1, "steps": [_document(planned, step) for step in telling]}, indent=2, ensure_ascii=False
            )
        )
        return 0
    for step in telling:
        print(f"{label(planned, step)} is {step.state}:")
        for reason in reasons(planned, step):
            print(f"  {reason}")
    if not telling:
        print("nothing is stale")
    return 0


def _document(planned: Plan, step: Step) -> dict[str, object]:
    return {
        "node": label(planned, step),
        "state": step.state,
        "reasons": list(reasons(planned, step)),
        "changes": [change.document() for change in step.changes],
    }
