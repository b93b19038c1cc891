"""Runs the stale steps of a plan: longest path first, a few at a time, past failures.

The scheduler decides order and ends; what one step does lies in `building`. A step that was waiting is
settled again when its inputs are known, so equal bytes upstream stop the wave.
"""

from __future__ import annotations

import dataclasses
import heapq
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from mobuild.building import Builder
from mobuild.errors import MobuildError
from mobuild.planner import Planner
from mobuild.results import Result, Run, Watcher
from mobuild.steps import Plan, Step

_DEFAULT_SECONDS = 1.0  # of a step that was never timed
_SETTLED = ("fresh", "blocked", "elsewhere")


class Scheduler:
    """One run over one plan."""

    def __init__(
        self,
        planner: Planner,
        builder: Builder,
        watcher: Watcher,
        slots: int,
        keep_going: bool,
        pool: Executor | None = None,
    ) -> None:
        self.planner, self.builder, self.watcher = planner, builder, watcher
        self.slots, self.keep_going = slots, keep_going
        self.pool = pool or ThreadPoolExecutor(slots, thread_name_prefix="mobuild")

    def run(self, plan: Plan) -> Run:
        """Build what is stale; every step of the plan gets a result.

        Raises:
            KeyboardInterrupt: after the running nodes were killed; finished work is in the store.
        """
        begun = time.monotonic()
        steps = dict(plan.steps)
        results = {identity: _settled(step) for identity, step in steps.items() if step.state in _SETTLED}
        open_steps = steps.keys() - results.keys()
        unwanted = open_steps - _wanted(plan) if open_steps else ()
        results |= {identity: Result(steps[identity], "cancelled") for identity in unwanted}
        for result in results.values():
            self.watcher.finished(result)
        queue = _Queue(plan, results)
        running: dict[Future[Result], str] = {}
        try:
            while len(results) < len(steps):
                if not self.keep_going and any(one.state == "failed" for one in results.values()):
                    for identity in [one for one in steps if one not in results and one not in running.values()]:
                        self._finish(identity, Result(steps[identity], "cancelled"), steps, results)
                self._start(steps, results, running, queue)
                for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                    identity = running.pop(future)
                    self._finish(identity, future.result(), steps, results)
                    queue.done(identity)
        except KeyboardInterrupt:
            self.builder.kill()
            raise
        finally:
            self.pool.shutdown(cancel_futures=True)
        return Run(dataclasses.replace(plan, steps=steps), results, time.monotonic() - begun)

    def _start(
        self, steps: dict[str, Step], results: dict[str, Result], running: dict[Future[Result], str], queue: _Queue
    ) -> None:
        """Settle what can be settled and start what is stale, while slots are free."""
        held: list[str] = []
        while len(running) < self.slots and (identity := queue.next()):
            if identity in results:  # cancelled
                continue
            step = steps[identity] = self.planner.settle(steps[identity], steps)
            if step.state != "stale":
                self._finish(identity, _settled(step), steps, results)
                queue.done(identity)
            elif self._is_running(step, steps, running):
                held.append(identity)
            else:
                self.watcher.started(step)
                running[self.pool.submit(self.builder.build, step, dict(steps))] = identity
        for identity in held:
            queue.add(identity)

    def _is_running(self, step: Step, steps: Mapping[str, Step], running: Mapping[Future[Result], str]) -> bool:
        """Two steps may turn out to have one key; the second waits here and then hits."""
        assert step.fingerprint
        key = step.fingerprint.key
        return any((other := steps[one].fingerprint) and other.key == key for one in running.values())

    def _finish(self, identity: str, result: Result, steps: dict[str, Step], results: dict[str, Result]) -> None:
        is_settled = result.is_done or result.state == "elsewhere"
        steps[identity] = result.step if is_settled else dataclasses.replace(result.step, state="blocked")
        results[identity] = result
        self.watcher.finished(result)


class _Queue:
    """The steps whose needs are all done, longest path first; each is taken once, since settling it reads files."""

    def __init__(self, plan: Plan, done: Collection[str]) -> None:
        self._seconds = _path_seconds(plan) if len(done) < len(plan.steps) else {}
        self._order = {identity: number for number, identity in enumerate(plan.steps)}
        self._open: dict[str, set[str]] = {}
        self._below: dict[str, list[str]] = {}
        self._ready: list[tuple[float, int, str]] = []
        for identity, step in plan.steps.items():
            if identity not in done:
                self._open[identity] = {edge.identity for edge in step.needs.values()} - set(done)
                for need in self._open[identity]:
                    self._below.setdefault(need, []).append(identity)
        for identity in [one for one, needs in self._open.items() if not needs]:
            self.add(identity)

    def add(self, identity: str) -> None:
        """What is ready, or ready once more."""
        heapq.heappush(self._ready, (-self._seconds[identity], self._order[identity], identity))

    def next(self) -> str | None:
        """Takes out the first; None when nothing is ready."""
        return heapq.heappop(self._ready)[2] if self._ready else None

    def done(self, identity: str) -> None:
        """Makes ready what waited for `identity` alone."""
        for one in self._below.get(identity, ()):
            self._open[one].discard(identity)
            if not self._open[one]:
                self.add(one)


def _wanted(plan: Plan) -> set[str]:
    """The steps behind those targets that can still come about."""
    targets = {of[target] for job, of in zip(plan.jobs, plan.of, strict=True) for target in job.graph.targets}
    waiting = [target for target in targets if plan.steps[target].state != "blocked"]
    found: set[str] = set()
    while waiting:
        if (identity := waiting.pop()) not in found:
            found.add(identity)
            waiting += [edge.identity for edge in plan.steps[identity].needs.values()]
    return found


def unrun(plan: Plan) -> Run:
    """The end of a command that was not to build anything: what is stale stays so and counts as cancelled."""
    results = {
        identity: _settled(step) if step.state in _SETTLED else Result(step, "cancelled")
        for identity, step in plan.steps.items()
    }
    return Run(plan, results, 0.0)


class AtOnce(Executor):
    """A pool without threads: who submits does the work, since a debugger wants the main thread."""

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(task(*arguments, **named))
        return future


def _settled(step: Step) -> Result:
    """The result of a step that needs no work: fresh, left to another machine, or blocked by something above or by
    its own error."""
    if step.state == "fresh":
        return Result(step, "fresh")
    if step.state == "elsewhere":
        return Result(step, "elsewhere")
    own: MobuildError | None = step.error
    return Result(step, "failed" if own else "blocked", error=own)


def _path_seconds(plan: Plan) -> dict[str, float]:
    """Expected seconds from the start of each step to the end of the longest path below it."""
    longest = {
        identity: (step.expected_seconds or _DEFAULT_SECONDS) if step.state != "fresh" else 0.0
        for identity, step in plan.steps.items()
    }
    for identity, step in reversed(list(plan.steps.items())):
        for edge in step.needs.values():
            above = plan.steps[edge.identity]
            own = (above.expected_seconds or _DEFAULT_SECONDS) if above.state != "fresh" else 0.0
            longest[edge.identity] = max(longest[edge.identity], own + longest[identity])
    return longest
