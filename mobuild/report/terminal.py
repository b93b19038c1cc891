"""Lines for people: progress on standard error, results on standard output.

A terminal gets a live table (rich, imported only then); a pipe or a CI log gets one line per event.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobuild.errors import MobuildError
from mobuild.executors.local import cleaned
from mobuild.judging import told
from mobuild.report import judged
from mobuild.report.messages import warning
from mobuild.results import Result, Run, Watcher
from mobuild.steps import Plan, Step

if TYPE_CHECKING:
    from rich.live import Live

_BUILDING = "building"
_READ_BYTES = 4096  # of a log's end
_PROGRESS = "[PROGRESS] "  # begins a line by which a builder says how far it is
_LONGEST = 100  # characters of its last line


@contextlib.contextmanager
def live(plan: Plan, log_of: Callable[[Step], Path]) -> Iterator[Watcher]:
    """A watcher that shows the run: a live table on a terminal, else lines. `log_of` says where a step's log grows."""
    work = any(step.state != "fresh" for step in plan.steps.values())
    if not (work and sys.stderr.isatty()):
        yield Lines(plan)
        return
    from rich.console import Console
    from rich.live import Live

    table = Table(plan, log_of)
    with Live(console=Console(stderr=True), get_renderable=table.render, refresh_per_second=4) as view:
        table.view = view
        yield table


def label(plan: Plan, step: Step) -> str:
    """`crepe_tiny/l20 engine`, with how many other variants share the step."""
    first = step.users[0]
    job = plan.jobs[first.job]
    more = len({user.job for user in step.users}) - 1
    shared = f" (and {more} more)" if more else ""
    return f"{job.recipe}/{job.variant} {first.name}{shared}"


class Lines:
    """One line when a node starts and one when it ends; nothing for what was fresh."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def started(self, step: Step) -> None:
        print(f"build   {label(self.plan, step)}: {'; '.join(step.reasons)}", file=sys.stderr)

    def waiting(self, step: Step) -> None:
        print(f"wait    {label(self.plan, step)}: another process builds it", file=sys.stderr)

    def finished(self, result: Result) -> None:
        if result.state == "elsewhere" or (result.state == "fresh" and not result.seconds):
            return  # the summary lists what is left
        print(f"{result.state:7} {label(self.plan, result.step)}{_took(result)}", file=sys.stderr)


class Table:
    """A table that is redrawn a few times a second; of what is being built, it shows progress or the last words."""

    def __init__(self, plan: Plan, log_of: Callable[[Step], Path]) -> None:
        self.plan, self.log_of = plan, log_of
        self.view: Live | None = None
        self.begun: dict[str, float] = {}
        self.elsewhere: set[str] = set()
        self.results: dict[str, Result] = {}

    def started(self, step: Step) -> None:
        self.begun[step.identity] = time.monotonic()

    def waiting(self, step: Step) -> None:
        self.elsewhere.add(step.identity)

    def finished(self, result: Result) -> None:
        self.results[result.step.identity] = result

    def render(self) -> Any:
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=None, pad_edge=False)
        for heading in ("state", "node", "seconds", "why"):
            table.add_column(heading)
        for identity, step in self.plan.steps.items():
            state, seconds = self._state(identity, step)
            why = self._last_words(step) if state == _BUILDING else ""
            cells = (state, label(self.plan, step), seconds, why or (step.reasons[0] if step.reasons else ""))
            table.add_row(*map(Text, cells))  # as text: square brackets are no markup here
        return table

    def _last_words(self, step: Step) -> str:
        lines = [line.strip() for line in _end(self.log_of(step)).replace("\r", "\n").split("\n")]
        told = [line.removeprefix(_PROGRESS) for line in lines if line.startswith(_PROGRESS)]
        text = (told or list(filter(None, lines)) or [""])[-1]
        return cleaned(text, self.plan.jobs[step.users[0].job].settings.secrets)[:_LONGEST]

    def _state(self, identity: str, step: Step) -> tuple[str, str]:
        if result := self.results.get(identity):
            return result.state, f"{result.seconds:.1f}" if result.seconds else ""
        if begun := self.begun.get(identity):
            word = "waiting for another process" if identity in self.elsewhere else _BUILDING
            return word, f"{time.monotonic() - begun:.1f}"
        return step.state, ""


def summary(
    run: Run, name: str, healed: Sequence[str], on_error: Callable[[MobuildError], None], refused: int = 0
) -> None:
    """Warnings, measured numbers, failures and counts on standard error; `refused` jobs are not in the run."""
    for text in dict.fromkeys([*healed, *_warnings(run)]):
        warning(text)
    for line in judged.lines(run):
        print(f"judged  {line}", file=sys.stderr)
    for line in judged.proofs(run):
        print(f"proved  {line}", file=sys.stderr)
    for result in run.results.values():
        if result.error:
            if len(run.plan.jobs) > 1:  # several nodes may have this name
                result.error.message = f"{label(run.plan, result.step)}: {result.error.message}"
            on_error(result.error)
    for miss in run.misses():
        on_error(miss)
    for line in _left(run):
        print(line, file=sys.stderr)
    states = [result.state for result in run.results.values()]
    counts = ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(sorted(states)))
    left_out = f"; {refused} of {len(run.plan.jobs) + refused} jobs refused" if refused else ""
    print(f"{counts} in {run.seconds:.1f} s{left_out} (run {name})", file=sys.stderr)


def _left(run: Run) -> Iterator[str]:
    """What `here=true` left to another machine, why, and the command for it there."""
    left = [result.step for result in run.results.values() if result.state == "elsewhere"]
    for step in left:
        yield f"left    {label(run.plan, step)}: {'; '.join(step.reasons)}"
    for number in dict.fromkeys(user.job for step in left for user in step.users):
        yield f"        there: mobuild {run.plan.jobs[number].words}"


def _warnings(run: Run) -> list[str]:
    """What nodes that were built in this run had to say."""
    built = [result for result in run.results.values() if result.state == "built" and result.record]
    return [f"{label(run.plan, one.step)}: {text}" for one in built for text in _said(one)]


def _said(result: Result) -> list[str]:
    """What a built step had to say: rules about its model before, the node itself while it ran."""
    doubts = [f"{each.code}: {told(each)}" for each in result.step.findings if each.severity == "warning"]
    return [*doubts, *(result.record.warnings if result.record else ())]


def _end(log: Path) -> str:
    """The last few lines of a log that may not be there yet."""
    try:
        with open(log, "rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _READ_BYTES))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def _took(result: Result) -> str:
    return f" in {result.seconds:.1f} s" if result.seconds else ""
