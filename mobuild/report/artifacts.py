"""Artifacts below `build/<recipe>/<variant>/`, put there with their documents, and withdrawn.

`build/` is a view of the store: it can be deleted at any time.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.errors import StoreError
from mobuild.job import Job
from mobuild.observers.environment import secret_values
from mobuild.report import provenance
from mobuild.report.documents import artifact_path, inputs, place_of, run_document, sidecar, variant_folder, write
from mobuild.report.views import Views
from mobuild.results import Result, Run
from mobuild.sources import SourceContent
from mobuild.store import Record, Store

STATEMENT = ".intoto.json"
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True)
class Placed:
    """One artifact as the user finds it."""

    job: int
    node: str
    place: str  # as text: a sweep has thousands
    size_bytes: int

    @property
    def path(self) -> Path:
        return Path(self.place)


def materialise(run: Run, store: Store, name: str, views: Views) -> tuple[list[Placed], list[StoreError]]:
    """Put the finished targets, their sidecars and a run.json into every job's folder.

    A request that was refused gets no folder: each slip of the pen would leave a variant of its own. A folder that
    refuses leaves the other jobs alone; what went wrong comes back beside what was placed.
    """
    placed: list[Placed] = []
    refused: list[StoreError] = []
    right: list[int] = []
    for number, job in enumerate(run.plan.jobs):
        if number in views.left:
            placed += _in_place(run, number)
            continue
        if run.is_refused(number) and not variant_folder(job).exists():
            continue
        try:
            with _explained(variant_folder(job), job):
                for one in _materialise_job(run, number, store, name):
                    placed.append(one)
            right.append(number)
        except StoreError as error:
            refused.append(error)
    views.note(right, store.files)
    return placed, refused


def write_runs(run: Run, name: str) -> list[StoreError]:
    """Put a run.json into every job's folder and leave the artifacts there alone; what went wrong comes back."""
    refused: list[StoreError] = []
    for number, job in enumerate(run.plan.jobs):
        try:
            with _explained(variant_folder(job), job):
                variant_folder(job).mkdir(parents=True, exist_ok=True)
                write(variant_folder(job) / "run.json", run_document(run, number, name))
        except StoreError as error:
            refused.append(error)
    return refused


def written(run: Run, placed: Sequence[Placed]) -> list[str]:
    """Every file that `materialise` put below build/."""
    found = [f"{place_of(job)}/run.json" for job in run.plan.jobs]
    for one in placed:
        if record := run.of(one.job, one.node).record:
            found += (one.place, f"{one.place}.json")
            found += [f"{place_of(run.plan.jobs[one.job])}/{name}" for name in names_beside(run, one.job, one.node)]
            found += map(str, one.path.rglob("*") if record.artifact.is_folder else ())
    return found


def _materialise_job(run: Run, number: int, store: Store, name: str) -> Iterator[Placed]:
    job = run.plan.jobs[number]
    folder = variant_folder(job)
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
    for target in job.graph.targets:
        result = run.of(number, target)
        if result.record and run.is_delivered(number, target):
            yield _place(number, job, target, result, store, inputs(run, result, store), _beside(run, number, target))
        elif result.step.source:
            yield _in_use(number, target, result.step.source)
        else:
            _withdraw(folder, target)
    # A run that found all as the last one left it is told by what that one wrote.
    write(folder / "run.json", run_document(run, number, name), ("run", "seconds"))


def _in_place(run: Run, number: int) -> Iterator[Placed]:
    """The targets of a job whose folder is as an earlier run left it."""
    job = run.plan.jobs[number]
    for target in job.graph.targets:
        result = run.of(number, target)
        if record := result.record:
            yield Placed(number, target, f"{place_of(job)}/{target}{record.suffix}", record.artifact.size_bytes)
        elif result.step.source:
            yield _in_use(number, target, result.step.source)


def _in_use(number: int, target: str, source: SourceContent) -> Placed:
    return Placed(number, target, str(source.main), source.size_bytes)


@contextmanager
def _explained(place: Path, job: Job) -> Iterator[None]:
    """Turn the system's refusal to write `place`, below build/, into an error that says how to go on.

    Raises:
        StoreError: disk full, read-only, or something is in the way.
    """
    try:
        yield
    except OSError as error:
        reason, wanted = error.strerror or str(error), "make room for"
        if error.errno in _FORBIDDEN:
            wanted = "make writable, or put a link to a folder that is in place of,"
        raise StoreError(
            f"'{place}': cannot be written: {reason}",
            f"{wanted} {job.settings.build}; what was built is in the cache, and the next run only copies it",
        ) from error


def _place(
    number: int,
    job: Job,
    target: str,
    result: Result,
    store: Store,
    inputs: Mapping[str, Mapping[str, Any]],
    beside: Mapping[str, Record],
) -> Placed:
    record = result.record
    assert record
    path = artifact_path(job, target, record.suffix)
    statement = [f"{target}{STATEMENT}"] if hasattr(result.step.spec.node, "beside") else []
    _withdraw(path.parent, target, (path.name, f"{path.name}.json", *beside, *statement))
    with _explained(path, job):
        store.objects.place(record.artifact, path)
        for name, other in beside.items():
            store.objects.place(other.artifact, path.with_name(name))
    told = {**sidecar(job, target, result), "inputs": inputs}
    write(path.with_name(f"{path.name}.json"), told)
    for name in statement:
        secrets = secret_values(os.environ, job.settings.secrets)
        write(path.with_name(name), provenance.statement(told, path.name, secrets))
    return Placed(number, target, str(path), record.artifact.size_bytes)


def _beside(run: Run, number: int, target: str) -> dict[str, Record]:
    """File name → the record of what lies beside a target that is handed on."""
    step = run.of(number, target).step
    found = {role: run.results[step.needs[role].identity].record for role in getattr(step.spec.node, "beside", ())}
    return {f"{target}{record.suffix}": record for record in found.values() if record}


def names_beside(run: Run, number: int, target: str) -> list[str]:
    """The files beside a target, its sidecar aside."""
    is_shipped = hasattr(run.of(number, target).step.spec.node, "beside")
    return [*_beside(run, number, target), f"{target}{STATEMENT}"] if is_shipped else []


def _withdraw(folder: Path, target: str, kept: Sequence[str] = ()) -> None:
    """Take away a former artifact of the target: a failed build must not leave an old engine in its place."""
    for name in os.listdir(folder):  # noqa: PTH208 - a path for each of thousands of files takes longer than all else
        owned = name == target or (name.startswith(f"{target}.") and not _of_longer_name(name, target))
        if owned and name not in kept:
            path = folder / name
            with suppress(FileNotFoundError):  # another process may do the same
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _of_longer_name(name: str, target: str) -> bool:
    """`enc.engine.plan` is not an artifact of a target called `enc`."""
    rest = name[len(target) + 1 :].removesuffix(".json")
    return "." in rest
