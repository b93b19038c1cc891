"""Whether a job's folder below build/ is as an earlier run left it, by the stat tokens of all that lies there.

A sweep that finds nothing to do has thousands of files that say already what they are to say; reading them all
takes longer than planning. What is noted is disposable: without it, every file is looked into.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

from mobuild import __version__
from mobuild.fingerprint import digest_bytes
from mobuild.results import Run
from mobuild.store import StatCache, Store
from mobuild.store.stat_cache import token


@dataclass(frozen=True)
class View:
    """The folder of a job whose nodes are all fresh: what it is to tell, and by which files."""

    told: str  # a digest of all that its documents are made of
    paths: tuple[str, ...]  # of the folder itself, and of every file that mobuild puts there

    def is_left(self, files: StatCache) -> bool:
        """Whether its files are those of an earlier run which told the same."""
        seen = files.together(self.paths)
        return bool(seen) and files.noted(self._name) == (seen, self.told)

    def found_right(self, files: StatCache, since_ns: int) -> list[tuple[str, str, str]]:
        """What to note when all was looked into from `since_ns` on; nothing where something was written meanwhile."""
        seen = files.together(self.paths, since_ns)
        return [(self._name, seen, self.told)] if seen else []

    @property
    def _name(self) -> str:
        return f"view {digest_bytes(os.fsencode(self.paths[0]))}"  # a path may hold what no database takes


def of(run: Run, number: int, store: Store) -> View | None:
    """The view of a job; None where something is not fresh, misses a gate, or is a folder, or has others beside it."""
    job = run.plan.jobs[number]
    rows: list[tuple[str, ...]] = []
    folder = f"{job.settings.build}/{job.recipe}/{job.variant}"
    paths = [folder, f"{folder}/run.json"]
    for name in job.graph.nodes:
        result = run.of(number, name)
        record, source = result.record, result.step.source
        if result.state != "fresh" or result.step.reasons or (job.constraints and not run.is_delivered(number, name)):
            return None
        if record:
            rows.append((name, store.records.name(record), record.created, record.artifact.sha256))
        else:
            rows.append((name, source.digest if source else ""))
        if record and name in job.graph.targets:
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
