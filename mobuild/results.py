"""What came of a step: values that the scheduler makes and reports read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

from mobuild.errors import GateFailed, MobuildError
from mobuild.gates import Verdict
from mobuild.job import Job
from mobuild.steps import Plan, Step, verdict
from mobuild.store import Record
from mobuild.values import value

Outcome = Literal["fresh", "built", "failed", "blocked", "cancelled", "elsewhere"]


@value
class Result:
    """The end of one step. `seconds` is the wall time here: waiting, staging, building, publishing."""

    step: Step
    state: Outcome
    seconds: float = 0.0
    error: MobuildError | None = None
    log: Path | None = None  # of a failed build, kept outside the store

    @property
    def record(self) -> Record | None:
        return self.step.record

    @property
    def is_done(self) -> bool:
        return self.state in ("fresh", "built")


@dataclass(frozen=True)
class Run:
    """The end of a whole command."""

    plan: Plan
    results: Mapping[str, Result]  # step's identity → result
    seconds: float

    def of(self, job: int, name: str) -> Result:
        return self.results[self.plan.of[job][name]]

    def verdict(self, job: int, name: str) -> Verdict | None:
        """The judgement on a node's measurements by that job's constraints; None without either."""
        return verdict(self.of(job, name).step, self.plan.jobs[job])

    def is_refused(self, job: int) -> bool:
        """Whether nothing came of a job because its request was wrong: no target, and no failure of another sort."""
        graph = self.plan.jobs[job].graph
        results = [self.of(job, name) for name in graph.nodes]
        statuses = {result.error.status for result in results if result.error}
        return statuses == {2} and not any(self.of(job, target).is_done for target in graph.targets)

    def misses(self) -> list[GateFailed]:
        """One error for each node of each job that misses a constraint."""
        found = []
        for number, job in enumerate(self.plan.jobs):
            for name in job.graph.nodes if job.constraints else ():
                judged = self.verdict(number, name)
                if judged and judged.blocks:
                    found.append(_gate_failed(job, name, judged))
        return found

    def is_delivered(self, job: int, name: str) -> bool:
        """Whether a job gets a node's artifact: it is finished and misses no constraint."""
        judged = self.verdict(job, name)
        return self.of(job, name).is_done and not (judged and judged.blocks)

    @cached_property
    def status(self) -> int:
        """0 done; 2 when all that failed was the request; 1 otherwise."""
        errors: list[MobuildError] = [result.error for result in self.results.values() if result.error]
        errors += self.misses()
        if not errors and all(result.is_done or result.state == "elsewhere" for result in self.results.values()):
            return 0
        return 2 if errors and all(error.status == 2 for error in errors) else 1


def _gate_failed(job: Job, name: str, judged: Verdict) -> GateFailed:
    below = [one for one, edges in job.graph.edges.items() if any(need.node == name for need in edges.values())]
    blocked = f"; blocks {', '.join(below)}" if below else ""
    is_measured = judged.word != "not run"
    word = "gate failed" if is_measured else "not measured"
    lines = [*judged.misses, *([] if is_measured else [_UNMEASURED])]
    return GateFailed(
        f"recipe {job.recipe!r}, variant {job.variant!r}, node {name!r}: {word}{blocked}", "\n".join(lines)
    )


_UNMEASURED = "take it out of constraints, or go on without proof of it: ++constraints.allow_unmeasured=true"


class Watcher(Protocol):
    """Hears of a run while it goes on; `waiting` comes from the step's own thread, the others from one."""

    def started(self, step: Step) -> None: ...

    def waiting(self, step: Step) -> None:
        """Another process builds the step already; this one waits for the hit."""

    def finished(self, result: Result) -> None: ...
