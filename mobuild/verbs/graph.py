"""`mobuild graph`: the steps behind the targets as a drawing."""

from __future__ import annotations

from collections.abc import Sequence

from mobuild.job import Job
from mobuild.report.drawing import dot, drawing, mermaid
from mobuild.verbs.session import Session


def graph(jobs: Sequence[Job]) -> int:
    """Print the graph of all jobs with the states of the plan, as Mermaid, or as DOT with `format=dot`."""
    chosen = jobs[0].settings.format
    drawn = drawing(Session.open(jobs).plan(jobs))
    print(dot(drawn) if chosen == "dot" else mermaid(drawn))
    return 0
