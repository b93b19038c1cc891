"""What came of a step: values that the scheduler makes and reports read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from mobuild.errors import MobuildError
from mobuild.planner import Plan, Step
from mobuild.store import Record

Outcome = Literal["fresh", "built", "failed", "blocked", "cancelled"]


@dataclass(frozen=True)
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

    @property
    def status(self) -> int:
        """0 done; 2 when all that failed was the request; 1 otherwise."""
        errors = [result.error for result in self.results.values() if result.error]
        if not errors and all(result.is_done for result in self.results.values()):
            return 0
        return 2 if errors and all(error.status == 2 for error in errors) else 1


class Watcher(Protocol):
    """Hears of a run while it goes on; called from one thread."""

    def started(self, step: Step) -> None: ...

    def finished(self, result: Result) -> None: ...
