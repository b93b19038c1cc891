"""Whether a job's folder below build/ is as an earlier run left it, by the stat tokens of all that lies there.

A sweep that finds nothing to do has thousands of files that say already what they are to say; reading them all
takes longer than planning. What is noted is disposable: without it, every file is looked into.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mobuild import __version__
from mobuild.fingerprint import digest_bytes
from mobuild.report.documents import place_of
from mobuild.results import Result, Run
from mobuild.store import StatCache, Store
from mobuild.store.record import file_name
from mobuild.store.stat_cache import token, written_ns
from mobuild.values import value


@value
class View:
    """The folder of a job whose nodes are all fresh: what it is to tell, and by which files."""

    told: str  # a digest of all that its documents are made of
    paths: tuple[str, ...]  # of its refs, of the folder, and of every file that mobuild puts there

    def left(self, files: StatCache) -> str:
        """The token of its files when they are those of an earlier run which told the same, else nothing."""
        seen, told = files.noted(self._name)
        return seen if told == self.told and files.is_still(self.paths, seen) else ""

    def found_right(self, files: StatCache, since_ns: int) -> list[tuple[str, str, str]]:
        """What to note when all was looked into from `since_ns` on; nothing where something was written meanwhile."""
        seen = files.together(self.paths, since_ns)
        return [(self._name, seen, self.told)] if seen else []

    @property
    def _name(self) -> str:
        return f"view {digest_bytes(os.fsencode(self.paths[1]))}"  # a path may hold what no database takes


@dataclass(frozen=True)
class Views:
    """Those of a run's jobs that have one, by number, as they were before the run wrote anything."""

    of: Mapping[int, View]
    left: frozenset[int]  # the jobs of which nothing is to be written
    young: frozenset[int]  # those of them of which a run wrote within a day that their records are in use
    since_ns: int

    @staticmethod
    def look(run: Run, store: Store) -> Views:
        since_ns = store.files.now_ns()
        rows: dict[tuple[str, str], str] = {}
        found = {number: view for number in range(len(run.plan.jobs)) if (view := _view(run, number, store, rows))}
        with store.files.reading():
            seen = {number: view.left(store.files) for number, view in found.items()}
        left = {number: token for number, token in seen.items() if token}
        young = frozenset(number for number, token in left.items() if store.refs.is_young(written_ns(token)))
        return Views(found, frozenset(left), young, since_ns)

    def note(self, numbers: Iterable[int], files: StatCache) -> None:
        """The jobs of those numbers were looked into, file by file, and are right."""
        views = [self.of[number] for number in numbers if number in self.of]
        if rows := [row for view in views for row in view.found_right(files, self.since_ns)]:
            files.note_as(rows)


def _view(run: Run, number: int, store: Store, rows: dict[tuple[str, str], str]) -> View | None:
    """The view of a job; None where something is not fresh, misses a gate, or is a folder, or has others beside it.

    `rows` keeps what `_row` says of a node, by its name and identity, since jobs share nodes.
    """
    job = run.plan.jobs[number]
    told = [_code(), repr((str(job.settings.project), job.overrides, job.graph.targets, job.constraints))]
    for node in run.plan.of[number].items():
        row = rows.get(node)
        if row is None:
            row = rows[node] = _row(node[0], run.results[node[1]])
        if not row or (job.constraints and not run.is_delivered(number, node[0])):
            return None
        told.append(row)
    folder = place_of(job)
    paths = [store.refs.place_of(job.settings.project, job.recipe, job.variant), folder, f"{folder}/run.json"]
    for target in job.graph.targets:
        result = run.of(number, target)
        if record := result.record:
            if record.artifact.is_folder or hasattr(result.step.spec.node, "beside"):
                return None
            path = f"{folder}/{target}{record.suffix}"
            paths += (path, f"{path}.json")
    return View(digest_bytes("\n".join(told).encode()), tuple(paths))


def _row(name: str, result: Result) -> str:
    """What the documents of a job are made of, of one node; empty where it is not just as it was."""
    if result.state != "fresh" or result.step.reasons:
        return ""
    if record := result.record:
        return repr((name, record.key, file_name(record.conditions), record.created, record.artifact.sha256))
    return repr((name, result.step.source.digest if result.step.source else ""))


@functools.cache
def _code() -> str:
    """What writes the documents: mobuild as it is installed, or edited."""
    written_by = (Path(__file__), Path(__file__).with_name("artifacts.py"))
    return f"{__version__} {' '.join(token(os.stat(path)) for path in written_by)}"  # noqa: PTH116
