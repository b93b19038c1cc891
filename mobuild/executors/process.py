"""Runs one job in a fresh process of its own session, under any Python from 3.8 on.

The process group is killed on timeout, on cancellation, when the worker is done, and when this process
dies, so that nothing that it started writes on in staging. Of the last the kernel tells the worker alone
(`worker.die_with`); for what the worker started, a shell waits at a pipe that ends with this process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from mobuild.container import Container
from mobuild.errors import NodeFailed, ToolchainError
from mobuild.executors import container, endings
from mobuild.executors.job import Job
from mobuild.executors.memory import memory
from mobuild.executors.preload import Preload
from mobuild.firstparty import PACKAGE
from mobuild.interpreters import REMEDY
from mobuild.observers.opened import Opened

# The package is loaded from its folder alone: with the folder above it on the path, mobuild's own
# site-packages would leak into the other interpreter. Entries that mean the working directory go, since
# a `json.py` there must not stand in for the standard library's.
LOADER = """
import importlib.util, sys
sys.path[:] = [entry for entry in sys.path if entry]
spec = importlib.util.spec_from_file_location(
    "mobuild", {init!r}, submodule_search_locations=[{package!r}])
module = importlib.util.module_from_spec(spec)
sys.modules["mobuild"] = module
spec.loader.exec_module(module)
""".format(init=PACKAGE + "/__init__.py", package=PACKAGE)
_CHECKED = """
import sys
if sys.version_info < (3, 8): sys.exit("expected Python 3.8 or newer, found " + sys.version.split()[0])
"""
BOOTSTRAP = _CHECKED + LOADER + "from mobuild import worker\nworker.main(sys.argv[1], int(sys.argv[2]))\n"

_PYTHON_WORDS = ("-u", "-X", "faulthandler", "-c")


# What changes the meaning of the user's Python is the same for everyone: without a seed, sets of text have another
# order in each process; the encoding of files is not the locale's; and asserts are not left out.
_MEANING = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONOPTIMIZE": ""}


class Child:
    """One worker process, from start to the status it left. `removal` are words that end what outlives the process
    group: a container is no child of who asks for it."""

    def __init__(
        self, command: list[str], log: Path, variables: Mapping[str, str], removal: Sequence[str] = ()
    ) -> None:
        with log.open("ab") as stream:
            self._process = _started(command, stream, variables)
        self._watchdog = watchdog(self._process.pid, removal)
        self._removal = list(removal)
        self._guard = threading.Lock()
        self._is_reaped = False
        self.timed_out = False
        self.cancelled = False

    def wait(self, timeout_seconds: float | None) -> tuple[int, float]:
        """Wait for the end: exit status (minus the signal when killed), and peak memory in MiB."""
        timer = threading.Timer(timeout_seconds or 0, self._time_out)
        if timeout_seconds:
            timer.start()
        try:
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        finally:
            timer.cancel()
            code, peak_rss_mib = self._reap()
        return code, peak_rss_mib

    def cancel(self) -> None:
        self.cancelled = True
        self._kill()

    def _time_out(self) -> None:
        self.timed_out = True
        self._kill()

    def _kill(self) -> None:
        with self._guard:
            if not self._is_reaped:  # afterwards the number may be another process's
                with suppress(ProcessLookupError, PermissionError):  # macOS: only a zombie is left
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _reap(self) -> tuple[int, float]:
        self._kill()  # what is left of the group; the worker itself is dead, save on an interrupt
        self._watchdog.kill()  # while the group's number cannot be another's yet
        self._watchdog.communicate()
        with self._guard:
            _, status, usage = os.wait4(self._process.pid, 0)
            self._is_reaped = True
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code
        if code and self._removal:
            subprocess.run(self._removal, stdin=subprocess.DEVNULL, capture_output=True)
        return code, usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def watchdog(group: int, removal: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """A shell that kills the process group when this process is gone, however it ended, and runs `removal`."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r _; kill -s KILL -- "-$1"; shift; "$@"', "sh", str(group), *removal],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # out of reach of what kills this process's group, and of Ctrl-C
    )


class Processes:
    """The isolated workers that run now; each call of `run` blocks for one of them."""

    def __init__(self, preload: Preload) -> None:
        self._preload = preload
        self._children: set[Child] = set()
        self._is_cancelled = False

    def run(
        self, job: Job, python: Path, timeout_seconds: float | None, image: Container | None = None
    ) -> dict[str, Any]:
        """The worker's result document; with an `image`, of a worker in it.

        Raises:
            NodeFailed: it left none; says how it ended.
            ToolchainError: `python` or the image cannot be started.
        """
        before = memory()
        with tempfile.TemporaryDirectory(prefix="mobuild-") as folder:
            job_file = Path(folder, "job.json")
            job_file.write_text(json.dumps(job.document()), encoding="utf-8")
            variables = self._preload.variables(Path(folder))
            is_blind = self._preload.is_wanted and not variables and not image
            with Opened(job.document()) if is_blind else nullcontext() as opened:
                child = _inside(image, job, job_file, variables) if image else _beside(python, job, job_file, variables)
                self._children.add(child)
                if self._is_cancelled:  # between the caller's decision and this start
                    child.cancel()
                try:
                    code, peak_rss_mib = child.wait(timeout_seconds)
                finally:
                    self._children.discard(child)
                result = Path(folder, "job.json.result.json")
                if result.exists():  # whatever a library's tear-down did afterwards
                    document = dict(json.loads(result.read_text(encoding="utf-8")))
                    return opened.add(document) if opened and "error" not in document else document
        if image and code > 0 and not child.cancelled and not child.timed_out:
            raise container.failure(image, job.name, code, Path(job.log))
        raise self._ending(job.name, child, code, peak_rss_mib, timeout_seconds or 0, before)

    def cancel(self) -> None:
        """Kill all of them, and from now on each one that starts."""
        self._is_cancelled = True
        for child in list(self._children):
            child.cancel()

    def _ending(
        self, node: str, child: Child, code: int, peak_rss_mib: float, timeout_seconds: float, before: Any
    ) -> NodeFailed:
        if child.cancelled:
            return endings.cancelled(node)
        if child.timed_out:
            return endings.timed_out(node, timeout_seconds)
        if code < 0:
            return endings.killed(node, -code, peak_rss_mib, before, memory())
        return endings.silent(node, code)


def _inside(image: Container, job: Job, job_file: Path, variables: Mapping[str, str]) -> Child:
    name = f"mobuild-{uuid.uuid4().hex}"
    words = container.run(image, job, [job_file.parent], name, variables)
    # Whose parent the worker is cannot be told inside; the watchdog removes the container.
    command = [*words, *_PYTHON_WORDS, BOOTSTRAP, str(job_file), "0"]
    return Child(command, Path(job.log), {}, container.removal(image, name))


def _beside(python: Path, job: Job, job_file: Path, variables: Mapping[str, str]) -> Child:
    return Child([str(python), *_PYTHON_WORDS, BOOTSTRAP, str(job_file), str(os.getpid())], Path(job.log), variables)


def _started(command: list[str], log: Any, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # readline, for one, sets variables that only C sees: not to pass on.
            env={**os.environ, **_MEANING, **variables},
            start_new_session=True,
        )
    except OSError as error:
        raise ToolchainError(
            f"python {command[0]!r} cannot be started: {error.strerror}",
            REMEDY,
        ) from error
