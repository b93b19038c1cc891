"""Builds nodes on this machine: the user's code and builders each in a fresh process, the rest in
processes that stay warm."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mobuild.blame import plain
from mobuild.container import Container
from mobuild.errors import MobuildError, by_name
from mobuild.executors.job import Job, Observed, Outcome
from mobuild.executors.preload import Preload
from mobuild.executors.process import Processes
from mobuild.executors.warm import Slots
from mobuild.observers.environment import secret_values

__all__ = ["Job", "LocalExecutor", "Observed", "Outcome"]


class LocalExecutor:
    """Blocking and thread-safe: a scheduler calls `run` from one thread per running node."""

    def __init__(self, tools: Path | None = None) -> None:
        """`tools` is a folder for what is compiled for this machine; without it, native reads are not seen."""
        self._processes = Processes(Preload(tools))
        self._slots = Slots()

    def run(
        self,
        job: Job,
        *,
        isolated: bool,
        python: Path | None = None,
        timeout_seconds: float | None = None,
        container: Container | None = None,
    ) -> Outcome:
        """Build `job`, in a fresh process when it is `isolated` or `python` is not this interpreter, or in a container.

        Raises:
            MobuildError: what the worker reported, as its own class, or how the worker ended; with the
                path of the log.
        """
        log = Path(job.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        timeout_seconds = min(timeout_seconds, threading.TIMEOUT_MAX) if timeout_seconds else None
        interpreter = Path(os.path.abspath(python)) if python else Path(sys.executable)  # noqa: PTH100
        try:
            if container or isolated or interpreter != Path(sys.executable):
                document = self._processes.run(job, interpreter, timeout_seconds, container)
            else:
                document = self._slots.run(job, timeout_seconds)
        except MobuildError as error:
            error.log = job.log
            raise
        finally:
            _clean(log, job.secrets)
        return _outcome(document, job)

    def close(self) -> None:
        """Kill what still runs; the calls that wait for it raise `NodeFailed`, 'cancelled'."""
        self._processes.cancel()
        self._slots.close()


def _outcome(document: dict[str, Any], job: Job) -> Outcome:
    if "error" in document:
        error = document["error"]
        message, hint = (_masked(error[part], job.secrets) for part in ("message", "hint"))
        raise by_name(error["class"])(message, hint, job.log)
    return Outcome.from_document(document)


def _clean(log: Path, secrets: Iterable[str]) -> None:
    """Take terminals' escape sequences and the values of secrets out of a finished log."""
    if not log.exists():
        return
    text = log.read_text(encoding="utf-8", errors="surrogateescape")
    if text and (clean := cleaned(text, secrets)) != text:
        log.write_text(clean, encoding="utf-8", errors="surrogateescape")


def cleaned(text: str, secrets: Iterable[str]) -> str:
    """A log as others may see it: without terminals' escape sequences and the values of secrets."""
    return _masked(plain(text), secrets)


def _masked(text: str, secrets: Iterable[str]) -> str:
    for value, name in secret_values(os.environ, tuple(secrets)).items():
        text = text.replace(value, f"<{name}>")
    return text
