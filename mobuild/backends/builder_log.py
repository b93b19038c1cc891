"""What a builder says while it builds: kept, written to the node's log, and read for numbers.

The lines are those of TensorRT and TensorRT-RTX alike; the tests read a real log of the latter.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Iterable

# Logged as an error by healthy calls: reading a property before the first build (TensorRT-RTX 1.7.1).
_NOISE = ("Thread context has not been set",)
_LONG = 20  # steps; timing every kernel of a network is one such phase
_NUMBERS = (
    (("host_persistent_bytes",), r"Total Host Persistent Memory: (\d+)"),
    (("device_persistent_bytes",), r"Total Device Persistent Memory: (\d+)"),
    (("scratch_bytes",), r"(?:Total|Max) Scratch Memory: (\d+)"),  # Total: before 10.7 or so
    (("activation_bytes",), r"Total Activation Memory: (\d+)"),
    (("device_weight_bytes",), r"Total Weights Memory: (\d+)"),
    (
        ("builder_host_peak_mib", "builder_device_peak_mib"),
        r"Peak memory usage of TRT CPU/GPU memory allocators: CPU (\d+) MiB, GPU (\d+) MiB",
    ),
)


class Said:
    """The messages of one builder: errors apart from warnings and the rest; verbose ones are left out."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def measurements(self) -> dict[str, int]:
        return numbers(self.notes)


def numbers(lines: Iterable[str]) -> dict[str, int]:
    """Memory by name; of several profiles, the largest, since one at a time is in use."""
    found: dict[str, int] = {}
    for line in lines:
        for names, pattern in _NUMBERS:
            match = re.search(pattern, line)
            for name, number in zip(names, match.groups() if match else ()):
                found[name] = max(int(number), found.get(name, 0))
    return found


def logger(trt: Any, said: Said) -> Any:
    """A logger of the binding `trt` that writes to stderr, which is the node's log, and keeps all in `said`."""
    kept = {trt.ILogger.ERROR: said.errors, trt.ILogger.INTERNAL_ERROR: said.errors}
    kept.update({trt.ILogger.WARNING: said.warnings, trt.ILogger.INFO: said.notes})

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if severity not in kept:
                return
            print(f"[{severity.name}] {message}", file=sys.stderr)
            if not message.startswith(_NOISE):
                kept[severity].append(message)

    return Log()


def progress(trt: Any) -> Any:
    """A monitor that writes to stderr how far the outermost phase is, and the long ones in it, a tenth at a time."""

    class Progress(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self.steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: Any, num_steps: int) -> None:
            if not parent_phase or num_steps >= _LONG:
                self.steps[phase_name] = num_steps

        def step_complete(self, phase_name: str, step: int) -> bool:
            total, done = self.steps.get(phase_name, 0), step + 1
            if total and done * 10 // total > step * 10 // total:
                print(f"[PROGRESS] {phase_name}: {done} of {total}", file=sys.stderr)
            return True  # go on

        def phase_finish(self, phase_name: str) -> None:
            if self.steps.pop(phase_name, 0):
                print(f"[PROGRESS] {phase_name}: done", file=sys.stderr)

    return Progress()
