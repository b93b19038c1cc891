"""Runs mobuild's own kinds in warm processes, which keep their imports from node to node.

One single-worker loky executor per slot: in a shared pool, one crash would fail the neighbours too. A
slot is thrown away when it broke, when its node ran over time, and when it loaded first-party code,
whose next version it would not see.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from typing import Any

from mobuild import worker
from mobuild.executors import endings
from mobuild.executors.job import Job
from mobuild.executors.memory import memory


class Slots:
    """Idle warm processes, started when there is none, each used by one job at a time."""

    def __init__(self) -> None:
        self._idle: list[Any] = []
        self._busy: set[Any] = set()
        self._is_closed = False

    def run(self, job: Job, timeout_seconds: float | None) -> dict[str, Any]:
        """The worker's result document.

        Raises:
            NodeFailed: the process died or ran over time.
        """
        slot = self._take()
        self._busy.add(slot)
        if self._is_closed:  # between the caller's decision and this start
            slot.shutdown(wait=True, kill_workers=True)
        is_reusable = False
        try:
            document = self._result(slot, job, timeout_seconds)
            is_reusable = not document["user_code"]
            return document
        finally:
            self._busy.discard(slot)
            if is_reusable and not self._is_closed:
                self._idle.append(slot)
            else:
                slot.shutdown(wait=True, kill_workers=True)

    def close(self) -> None:
        self._is_closed = True
        for slot in [*self._busy, *self._idle]:
            slot.shutdown(wait=True, kill_workers=True)
        self._idle.clear()

    def _take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:  # asking first would race with the other threads
            return _new_slot()

    def _result(self, slot: Any, job: Job, timeout_seconds: float | None) -> dict[str, Any]:
        from concurrent.futures import CancelledError, TimeoutError

        from joblib.externals.loky.process_executor import BrokenProcessPool, ShutdownExecutorError

        before = memory()
        try:
            with _starting:
                future = slot.submit(work, job.document())
            return dict(future.result(timeout_seconds))
        except TimeoutError:
            raise endings.timed_out(job.name, timeout_seconds or 0) from None
        except (CancelledError, ShutdownExecutorError):
            raise endings.cancelled(job.name) from None
        except BrokenProcessPool as error:
            if self._is_closed:
                raise endings.cancelled(job.name) from None
            number = _signal(str(error))
            if number:
                raise endings.killed(job.name, number, None, before, memory()) from error
            raise endings.silent(job.name, _exit_status(str(error))) from error


def work(job: dict[str, Any]) -> dict[str, Any]:
    """What the warm process runs: the worker's `work`, its output in the log, its peak its own."""
    import json

    _reset_peak()
    with worker.logged(job["log"]):
        document = worker.work(job, warm=True)
    if "user_code" not in document:  # it failed
        from mobuild.observers import modules

        document["user_code"] = modules.is_any_first_party(modules.loaded())
    return dict(json.loads(worker.encoded(document)))


# loky's modules import each other, some with the first submit: two threads at once get half of one.
_starting = threading.Lock()


def _new_slot() -> Any:
    with _starting:
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        return ProcessPoolExecutor(max_workers=1, initializer=_die_with, initargs=(os.getpid(),))


def _signal(message: str) -> int:
    """loky tells how a worker ended in words only: `The exit codes of the workers are {SIGKILL(-9)}`."""
    found = re.search(r"\w+\(-(\d+)\)", message)
    return int(found.group(1)) if found else 0


def _exit_status(message: str) -> int:
    found = re.search(r"EXIT\((\d+)\)", message)
    return int(found.group(1)) if found else 0


def _die_with(parent: int) -> None:
    """End this process soon after `parent` did, be that before it has anything to do; a Ctrl-C is for that one.

    The kernel's death signal would not do: it follows the thread that started the process, and a slot
    outlives the thread of its first job.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _reset_peak() -> None:
    """Start a new `VmHWM` (proc(5), clear_refs)."""
    try:
        with open("/proc/self/clear_refs", "w") as stream:
            stream.write("5")
    except OSError:
        return  # then the peak is that of the slot, not of the node
