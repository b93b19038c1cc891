"""Counts and times for Prometheus, in its text format 0.0.4."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """Seconds in buckets. Guarded by whoever owns it."""

    def __init__(self) -> None:
        self._counts, self._sum = [0] * (len(_BOUNDS) + 1), 0.0

    def add(self, seconds: float) -> None:
        self._counts[sum(seconds > bound for bound in _BOUNDS)] += 1
        self._sum += seconds

    def lines(self, name: str) -> Iterable[str]:
        total = 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._counts):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """What was answered, by route and status, and how long inference took: with all around it, and in the engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._turned_away = 0
        self._inference, self._engine = Histogram(), Histogram()

    def answered(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[route, status] += 1
            if route in ("infer", "app") and status == 200:
                self._inference.add(seconds)

    def turned_away(self) -> None:
        with self._lock:
            self._turned_away += 1

    def ran(self, seconds: float) -> None:
        with self._lock:
            self._engine.add(seconds)

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it, with `gauges` of what is so now."""
        lines = []
        with self._lock:
            lines += _headed("mobuild_requests_total", "counter", "Answers by route and status.")
            for (route, status), count in sorted(self._requests.items()):
                lines.append(f'mobuild_requests_total{{route="{route}",status="{status}"}} {count}')
            lines += _headed("mobuild_turned_away_total", "counter", "Clients that found no place.")
            lines.append(f"mobuild_turned_away_total {self._turned_away}")
            lines += _headed(
                "mobuild_inference_seconds", "histogram", "Inference and the application, from head to answer."
            )
            lines += self._inference.lines("mobuild_inference_seconds")
            lines += _headed("mobuild_engine_seconds", "histogram", "Runs of the engine alone.")
            lines += self._engine.lines("mobuild_engine_seconds")
        for name, value in {**gauges, "process_resident_memory_bytes": resident_bytes()}.items():
            lines += [
                *_headed(name, "gauge", _GAUGES[name]),
                f"{name} {value:g}" if value % 1 else f"{name} {value:.0f}",
            ]
        return "\n".join(lines) + "\n"


_GAUGES = {
    "mobuild_in_flight": "Requests that the engine runs.",
    "mobuild_queue_depth": "Requests that wait for the engine.",
    "mobuild_connections": "Clients that are connected.",
    "mobuild_ready": "1 while inference is answered.",
    "process_resident_memory_bytes": "Resident memory of this process.",
}


def resident_bytes() -> int:
    """The resident memory of this process; 0 where /proc does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _headed(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
