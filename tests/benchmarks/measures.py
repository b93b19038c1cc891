"""CPU time of child processes, and tables of figures beside their floors."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One figure, and what it is compared with in the same run; `aim` is in words."""

    work: str
    figure: float
    unit: str
    floor: float | None = None
    aim: str = ""

    def __str__(self) -> str:
        floor = f"{self.floor:10.4g} {self.figure / self.floor:8.3f}" if self.floor else " " * 19
        return f"{self.work:62} {self.figure:10.4g} {self.unit:8} {floor}  {self.aim}"


def show(rows: Sequence[Row]) -> None:
    print(f"{'':62} {'figure':>10} {'':8} {'beside':>10} {'ratio':>8}  aim")
    for row in rows:
        print(row)


def surroundings(place: str | Path) -> dict[str, str]:
    """The environment of measured programs: byte code is kept, as an installer does, though not in the checkout."""
    own = {"MOBUILD_CACHE": f"{place}/cache", "PYTHONPYCACHEPREFIX": f"{place}/bytecode"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | own


def cpu_seconds(command: Sequence[str], folder: str | Path, environment: Mapping[str, str] | None = None) -> float:
    """User and system seconds of a command and all its children; it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def medians(
    commands: Mapping[str, Sequence[str]], rounds: int, folder: str | Path, environment: Mapping[str, str]
) -> dict[str, float]:
    """Median CPU seconds of each command; rounds interleave, since machines are shared."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(cpu_seconds(command, folder, environment))
    return {name: statistics.median(values) for name, values in times.items()}


@contextmanager
def sweep_project(jobs: int) -> Iterator[tuple[Path, dict[str, str], list[str]]]:
    """A project of three shared nodes and two of each job's own, its environment, and the words that sweep over it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "project")
        (folder / "recipes").mkdir(parents=True)
        (folder / "recipes" / "small.yaml").write_text(RECIPE)
        (folder / "text.txt").write_text("one\n")
        yield folder, surroundings(place), ["-m", "target=end", f"width=range(0,{jobs})"]


RECIPE = """\
# @package _global_
width: 0
nodes:
  text: {kind: source, uri: text.txt}
  up: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  base: {kind: command, cmd: "cp {in.up} {out}", in: {up: up}, out: .txt}
  own: {kind: command, cmd: "cp -${width} {in.base} {out}", in: {base: base}, out: .txt}
  end: {kind: command, cmd: "cp -x${width} {in.own} {out}", in: {own: own}, out: .txt}
"""
