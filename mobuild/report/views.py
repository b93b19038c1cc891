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
from mobuild.results import Run
from mobuild.store import StatCache, Store
from mobuild.store.stat_cache import token


@dataclass(frozen=True)
class View:
    """The folder of a job whose nodes are all fresh: what it is to tell, and by which files."""

    told: str  # a digest of all that its documents are made of
    paths: tuple[str, ...]  # of its refs, of the folder, and of every file that mobuild puts there

    def is_left(self, files: StatCache) -> bool:
        """Whether its files are those of an earlier run which told the same."""
        seen = files.together(self.paths)
        return bool(seen) and files.noted(self._name) == (seen, self.told)

    def found_right(self, files: StatCache, since_ns: int) -> list[tuple[str, str, str]]:
        """What to note when all was looked into from `since_ns` on; nothing where something was written meanwhile."""
        seen = files.together(self.paths, since_ns)
        return [(self._name, seen, self.told)] if seen else []

    @property
    def ref(self) -> str:
        """The file of its refs."""
        return self.paths[0]

    @property
    def _name(self) -> str:
        return f"view {digest_bytes(os.fsencode(self.paths[1]))}"  # a path may hold what no database takes


@dataclass(frozen=True)
class Views:
    """Those of a run's jobs that have one, by number, as they were before the run wrote anything."""

    of: Mapping[int, View]
    left: frozenset[int]  # the jobs of which nothing is to be written
    since_ns: int

    @staticmethod
    def look(run: Run, store: Store) -> Views:
        since_ns = store.files.now_ns()
        found = {number: view for number in range(len(run.plan.jobs)) if (view := _view(run, number, store))}
        with store.files.reading():
            left = frozenset(number for number, view in found.items() if view.is_left(store.files))
        return Views(found, left, since_ns)

    def note(self, numbers: Iterable[int], files: StatCache) -> None:
        """The jobs of those numbers were looked into, file by file, and are right."""
        views = [self.of[number] for number in numbers if number in self.of]
        if rows := [row for view in views for row in view.found_right(files, self.since_ns)]:
            files.note_as(rows)


def _view(run: Run, number: int, store: Store) -> View | None:
    """The view of a job; None where something is not fresh, misses a gate, or is a folder, or has others beside it."""
    job = run.plan.jobs[number]
    rows: list[tuple[str, ...]] = []
    folder = place_of(job)
    paths = [store.refs.place_of(job.settings.project, job.recipe, job.variant), folder, f"{folder}/run.json"]
    for name, identity in run.plan.of[number].items():
        result = run.results[identity]
        record, source = result.record, result.step.source
        if result.state != "fresh" or result.step.reasons or (job.constraints and not run.is_delivered(number, name)):
            return None
        if record is None:
            rows.append((name, source.digest if source else ""))
            continue
        rows.append((name, store.records.name(record), record.created, record.artifact.sha256))
        if name in job.graph.targets:
            if record.artifact.is_folder or hasattr(result.step.spec.node, "beside"):
                return None
            path = f"{folder}/{name}{record.suffix}"
            paths += [path, f"{path}.json"]
    told = (_code(), str(job.settings.project), job.overrides, job.graph.targets, str(job.constraints), rows)
    return View(digest_bytes(repr(told).encode()), tuple(paths))


@functools.cache
def _code() -> str:
    """What writes the documents: mobuild as it is installed, or edited."""
    written_by = (Path(__file__), Path(__file__).with_name("artifacts.py"))
    return f"{__version__} {' '.join(token(os.stat(path)) for path in written_by)}"  # noqa: PTH116
