"""The log of the server: one object of JSON a line on standard output, written whole, never a body."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

_MAX_PATH = 200


class Log:
    """Lines onto a file descriptor from many threads. When nobody reads it any longer, the server goes on."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor, self._lock = descriptor, threading.Lock()

    def event(self, event: str, **facts: Any) -> None:
        self._line({"time": _now(), "event": event, **facts})

    def request(self, method: str, path: str, status: int, seconds: float, bytes_in: int, bytes_out: int) -> None:
        self._line(
            {
                "time": _now(),
                "method": method[:20],
                "path": path[:_MAX_PATH],
                "status": status,
                "milliseconds": round(seconds * 1000, 3),
                "bytes_in": bytes_in,
                "bytes_out": bytes_out,
            }
        )

    def _line(self, document: Any) -> None:
        line = memoryview(json.dumps(document).encode() + b"\n")
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:
                return


def _now() -> str:
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03}Z"
