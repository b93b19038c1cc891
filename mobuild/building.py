"""What one stale step does: lock its key, stage its inputs, run the node, publish, record.

Locked by key, so that of several processes one builds and the others take the hit. Nothing of a failed
build reaches the store's objects and records; its log is kept beside the run, and what it left for `mobuild shell`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mobuild import __version__, environments
from mobuild.conditions import conditions, perhaps_read, reads, undeclared, undeclared_inputs, unsure
from mobuild.declaring import SHORT
from mobuild.errors import MobuildError, SourceError
from mobuild.executors import rerun
from mobuild.executors.job import Executor, Observed, Outcome
from mobuild.executors.job import Job as WorkerJob
from mobuild.faults import unforeseen
from mobuild.fingerprint import Digest
from mobuild.keys import has_user_code, runs_program
from mobuild.observers.environment import of_programs
from mobuild.planner import Planner
from mobuild.results import Result
from mobuild.staging import stage
from mobuild.steps import Step, code_files
from mobuild.store import Condition, Record, Store
from mobuild.store.disk import ELSEWHERE
from mobuild.store.failures import Owner
from mobuild.store.record import FILE_OF

_NEARLY_FULL_BYTES = 1 << 20


class Builder:
    """Builds steps for one run."""

    def __init__(
        self,
        store: Store,
        planner: Planner,
        executor: Executor,
        logs: Path,
        strict: bool,
        timeout_seconds: float | None,
        on_wait: Callable[[Step], None],
        records: bool = True,
    ) -> None:
        self.records = records  # else a later run knows nothing of what was built
        self.on_wait = on_wait  # called when another process builds the step already
        self.store, self.planner, self.executor = store, planner, executor
        self.logs, self.strict, self.timeout_seconds = logs, strict, timeout_seconds
        self._killed = threading.Event()

    def build(self, step: Step, above: Mapping[str, Step]) -> Result:
        """Build a stale step, or take the hit that another process made meanwhile. Never raises a MobuildError."""
        begun = time.monotonic()
        assert step.fingerprint
        log: Path | None = None
        try:
            with self.store.lock(step.fingerprint.key, self._killed, lambda: self.on_wait(step)):
                if taken := self.planner.taken(step, above):
                    return Result(taken, "fresh", time.monotonic() - begun)
                with self._staging() as staging:
                    log = self._log(step)
                    self.store.note_log(step.fingerprint.key, log)
                    with self._disk_blamed():
                        record = self._record(step, above, staging, log)
        except Exception as fault:  # noqa: BLE001 - one node's fault must not take the others along
            error = _named_error(fault, f"node {step.spec.name!r}", self.logs)
            return Result(step, "failed", time.monotonic() - begun, error, log)
        done = dataclasses.replace(step, state="fresh", digest=record.artifact.digest, record=record)
        return Result(done, "built", time.monotonic() - begun)

    def rebuild(self, step: Step, above: Mapping[str, Step]) -> Digest:
        """The digest of what a fresh step makes when it is built once more. Nothing is published.

        Raises:
            MobuildError: the build fails.
        """
        with self._staging() as staging:
            job = self._stage(step, above, staging, self._log(step))
            python = self._python(step, Path(job.log))
            with self._undisturbed(step, above):
                self._run(step, job, python)
            return self.store.objects.measure(Path(job.out))

    def kill(self) -> None:
        """End the running nodes and those that wait for another process, as after an interrupt."""
        self._killed.set()
        self.executor.close()

    @contextlib.contextmanager
    def _staging(self) -> Iterator[Path]:
        folder = self.store.staging()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _disk_blamed(self) -> Iterator[None]:
        """Say so when a node failed on a full disk: programs die of that in many ways, few of which tell it."""
        try:
            yield
        except MobuildError as error:
            scratch = tempfile.gettempdir()
            for place, what, elsewhere in (
                (self.store.root, f"cache '{self.store.root}'", ELSEWHERE),
                (scratch, f"temporary files '{scratch}'", "say another folder by TMPDIR=<folder>"),
            ):
                free_bytes = shutil.disk_usage(place).free
                if free_bytes < _NEARLY_FULL_BYTES:
                    error.message += f"; the disk of {what} is full, {free_bytes >> 10} KiB are left"
                    error.hint = f"make room there, or {elsewhere}"
                    break
            raise

    def _log(self, step: Step) -> Path:
        return self.logs / log_name(step)

    def _stage(self, step: Step, above: Mapping[str, Step], folder: Path, log: Path) -> WorkerJob:
        return stage(step, above, folder, log, self.store, self.planner.ignored, self._secrets(step))

    def _secrets(self, step: Step) -> tuple[str, ...]:
        """What any of the jobs that share a step keeps secret."""
        return tuple(
            dict.fromkeys(name for user in step.users for name in self.planner.jobs[user.job].settings.secrets)
        )

    @contextlib.contextmanager
    def _undisturbed(self, step: Step, above: Mapping[str, Step]) -> Iterator[None]:
        """Void what is done in here when the code or an input of the step changes meanwhile."""
        tokens = self.planner.tokens(step, above)
        yield
        self.planner.recheck(step, above, tokens)

    def _run(self, step: Step, job: WorkerJob, python: Path) -> Outcome:
        """
        Raises:
            SourceError: the network may not be asked for it. A build is refused before anything runs; `verify` is not.
            MobuildError: what the worker reported.
        """
        offline = self.planner.jobs[step.users[0].job].settings.offline
        if offline and getattr(step.spec.node, "needs_network", False):
            raise SourceError(f"node {step.spec.name!r}: is to be fetched, and offline=true asks no network")
        return self.executor.run(
            job,
            isolated=step.spec.isolated,
            python=python,
            timeout_seconds=step.spec.timeout_seconds or self.timeout_seconds,
            container=step.spec.container,
        )

    def _python(self, step: Step, log: Path) -> Path:
        """The interpreter that runs a step; the environment of a locked set is made when it is first needed."""
        keys = self.planner.keys
        if step.spec.requirements:
            return environments.ensure(*keys.locked(step.spec), self.store.local / "environments", log, self._killed)
        return keys.environment(step.spec).python

    def _record(self, step: Step, above: Mapping[str, Step], staging: Path, log: Path) -> Record:
        assert step.fingerprint
        job = self._stage(step, above, staging, log)
        python = self._python(step, log)
        started = _now()
        with self._undisturbed(step, above):
            try:
                outcome = self._run(step, job, python)
            except MobuildError as error:
                error.look = self._keep(step, job, staging, python)
                raise
        here = self.planner.surroundings(step.spec)
        observed = self._counting(outcome.observed, step)
        found = conditions(observed, here, step.fingerprint.toolchain)
        perhaps = unsure(observed, here)
        sure = tuple(one for one in found if one not in perhaps)
        if self.strict and undeclared(sure):
            raise undeclared_inputs(step.spec.name, sure)
        warned = self._warnings(step, outcome.observed_by, sure, tuple(one for one in found if one in perhaps))
        with self.store.claims.keeping():  # gc must not take an object whose record is still to come
            outcome = dataclasses.replace(outcome, warnings=(*outcome.warnings, *warned))
            record = self._make_record(step, outcome, found, Path(job.out), log, started)
            if not self.records:
                return record
            self.store.set_lost_aside(record.key)
            record = self.store.records.publish(record)
            self.store.claims.add(self.store.records.name(record))
            return record

    def _counting(self, observed: Observed, step: Step) -> Observed:
        """What counts of the things seen: those that the user's code asked for and no key knows. The packages of a
        process that only runs a program are mobuild's; those that the program reads count. Which variables a script
        reads is seen in its code alone."""
        if step.spec.container:
            return _from_outside(observed, (step.spec.root, step.spec.folder))
        if runs_program(step.spec):
            names = [name for way in step.ways for name in way.traits.variables]
            asked = of_programs(names, self._secrets(step))
            observed = dataclasses.replace(observed, environment={**asked, **observed.environment})
        if has_user_code(step.spec):
            known = {name for way in step.ways for name in way.traits.missing}
            return dataclasses.replace(observed, missing=tuple(name for name in observed.missing if name not in known))
        return dataclasses.replace(observed, distributions={}) if runs_program(step.spec) else Observed()

    def _keep(self, step: Step, job: WorkerJob, staging: Path, python: Path) -> str:
        """Keep what a failed build left, to be run again by hand; the command that opens it, or nothing."""
        if self._killed.is_set():
            return ""
        users = [(self.planner.jobs[user.job], user.name) for user in step.users]
        owners = [Owner(job.settings.project, job.recipe, job.variant, name) for job, name in users]
        try:
            rerun.write(staging, job, python, os.environ, step.spec.container)
            self.store.failures.keep(staging, owners)
        except (OSError, MobuildError):  # a full disk, perhaps the very cause: then there is only the log
            return ""
        first, name = users[0]
        return f"mobuild shell {first.words_for(name)}"

    def _warnings(
        self, step: Step, observers: Sequence[str], sure: tuple[Condition, ...], perhaps: tuple[Condition, ...]
    ) -> Iterator[str]:
        """A sentence on what the code read, one on what it may have read, and one on what `strict` did not see."""
        if undeclared(sure):
            yield f"{reads(sure)}; {_FROM_NOW_ON}"
        if undeclared(perhaps):
            yield f"{perhaps_read(perhaps)}; {_FROM_NOW_ON}"
        if self.strict and step.spec.isolated and "preload" not in observers:
            yield _UNSURE if "inotify" in observers else _BLIND

    def _before(self, step: Step, outcome: Outcome) -> dict[str, object]:
        """What the last build of this node of this variant measured, of what the node wants to compare."""
        old = step.past.measurements if step.past else {}
        names = [name for name in getattr(step.spec.node, "trends", ()) if name in outcome.measurements]
        return {f"{name}_before": old[name] for name in names if name in old}

    def _make_record(
        self, step: Step, outcome: Outcome, found: tuple[Condition, ...], out: Path, log: Path, started: str
    ) -> Record:
        assert step.fingerprint
        artifact = self.store.objects.publish(out)
        return Record(
            key=step.fingerprint.key,
            fingerprint=step.fingerprint,
            artifact=artifact,
            suffix=step.spec.node.suffix if not artifact.is_folder else "",
            seconds=outcome.seconds,
            measurements={**outcome.measurements, **self._before(step, outcome)},
            onnx=outcome.onnx,
            warnings=outcome.warnings,
            conditions=found,
            observed_by=outcome.observed_by,
            log=self.store.objects.publish(log).digest if log.is_file() else None,
            peak_rss_mib=outcome.peak_rss_mib,
            created=_now(),
            seen={
                "host": platform.node(),
                "system": platform.platform(),
                "machine": platform.machine(),
                "mobuild": __version__,
                "started": started,
                **{f"{FILE_OF}{name}": file for name, file in code_files(step.ways[-1]).items()},
            },
        )


def log_name(step: Step) -> str:
    """What the log of a step's build is called in the folder of its run."""
    user = step.users[0]
    return f"{user.job}.{user.name}.log"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _from_outside(observed: Observed, mounted: Sequence[Path]) -> Observed:
    """What a container saw of the user's folders; all the rest is in the image, whose digest is in the key."""

    def ours(paths: Mapping[str, str]) -> dict[str, str]:
        return {
            path: value for path, value in paths.items() if any(Path(path).is_relative_to(each) for each in mounted)
        }

    files, folders, presence, links = map(ours, (observed.files, observed.folders, observed.presence, observed.links))
    modules = {name: path for name, path in observed.modules.items() if ours({path: ""})}
    return Observed(files, folders, presence, links, modules=modules, sources=ours(observed.sources))


def _named_error(fault: Exception, where: str, folder: Path) -> MobuildError:
    """`fault` with the node in its message; what nobody foresaw as a fault of mobuild, reported in `folder`."""
    if not isinstance(fault, MobuildError):
        return unforeseen(fault, where, folder)
    if where not in fault.message:
        fault.message = f"{where}: {fault.message}"
    return fault


_BLIND = (
    "cache.strict answers for reads through Python alone: nothing could be preloaded to see those of native code "
    "(a C compiler, `cc`, is needed)"
)

_UNSURE = (
    "cache.strict answers for reads through Python alone: of those of native code inotify sees some, and cannot tell "
    "whose they are (to be sure, install a C compiler, `cc`)"
)
_FROM_NOW_ON = f"from now on it counts as an input ({SHORT})"
