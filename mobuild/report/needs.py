"""What a plan will take: seconds, disk, memory, from past builds, and from the size of the weights without any."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mobuild.executors.memory import memory
from mobuild.steps import Plan, Step
from mobuild.units import about

_MIB = 1 << 20
_COPIES = 3  # of the weights in memory, in a step of which nothing is known: read, changed, written
# MiB that the process of a node takes for a model of next to nothing, by the largest library that it loads: measured
# with torch 2.13, TensorRT-RTX 1.7, polygraphy 0.53, onnxruntime 1.32, onnx 1.23 on x86-64.
_LOADED_MIB = {"torch": 280, "tensorrt": 210, "polygraphy": 130, "onnxruntime": 70, "onnx": 60}


@dataclass(frozen=True)
class Needs:
    """What the steps that may run are expected to take."""

    seconds: float  # along the longest path
    disk_bytes: int  # of the artifacts, in the cache
    memory_bytes: int  # of the largest step
    unknown: tuple[str, ...]  # steps that were never built here: the sizes are guesses from inputs and libraries
    is_measured: bool = True  # whether any of it was: steps that were built before

    def document(self) -> dict[str, object]:
        return {
            "seconds": self.seconds,
            "disk_bytes": self.disk_bytes,
            "memory_bytes": self.memory_bytes,
            "guessed": list(self.unknown),
        }


def needs(planned: Plan) -> Needs:
    """What is expected of all steps that are not fresh."""
    seconds: dict[str, float] = {}
    weights: dict[str, int] = {}
    disk = peak = 0
    unknown: list[str] = []
    built = _least_peaks(planned)
    is_measured = False
    for identity, step in planned.steps.items():
        above = [edge.identity for edge in step.needs.values()]
        weights[identity] = max([_size_bytes(step), *(weights[one] for one in above)])
        will_run = step.state in ("stale", "waiting")
        own = (step.expected_seconds or 0.0) if will_run else 0.0
        seconds[identity] = own + max((seconds[one] for one in above), default=0.0)
        if not will_run:
            continue
        if step.past:
            is_measured = True
            disk += step.past.artifact.size_bytes
            peak = max(peak, round(step.past.peak_rss_mib * _MIB))
        elif weights[identity]:
            unknown.append(step.spec.name)
            disk += weights[identity]
            floor = max(_loaded_bytes(step), built.get(_program(step), 0))
            peak = max(peak, floor + _COPIES * weights[identity])
    longest = round(max(seconds.values(), default=0.0), 3)
    return Needs(longest, disk, peak, tuple(dict.fromkeys(unknown)), is_measured)


def _least_peaks(planned: Plan) -> dict[tuple[str, str], int]:
    """Program → the least that any step of the plan took in it: what it takes for the smallest of models."""
    found: dict[tuple[str, str], int] = {}
    for step in planned.steps.values():
        if record := step.record or step.past:
            peak = round(record.peak_rss_mib * _MIB)
            found[_program(step)] = min(peak, found.get(_program(step), peak))
    return found


def _program(step: Step) -> tuple[str, str]:
    """What runs in the process of a step: its kind, and the builder or the command of those that have one."""
    node = step.spec.node
    return node.kind, str(getattr(getattr(node, "backend", None), "name", "") or getattr(node, "cmd", ""))


def _loaded_bytes(step: Step) -> int:
    """What the libraries of a step take, whatever the model."""
    tools = {*step.spec.node.tools, *(step.ways[-1].traits.toolchain if step.ways else ())}
    return _MIB * max(
        (_LOADED_MIB[name] for name in _LOADED_MIB if any(_is_part(tool, name) for tool in tools)), default=0
    )


def _is_part(tool: str, library: str) -> bool:
    """Whether a distribution is one of a library's: `tensorrt-rtx-cu13` of tensorrt."""
    return tool == library or tool.startswith((f"{library}-", f"{library}_"))


def sentence(found: Needs) -> str:
    """`found` for people; empty when nothing worth a line is known."""
    parts = [f"{found.seconds:.1f} s on the longest path"] if found.seconds else []
    parts += [f"{about(found.disk_bytes)} of disk"] if found.disk_bytes >= _MIB else []
    parts += [f"{about(found.memory_bytes)} of memory at the peak"] if found.memory_bytes >= _MIB else []
    if not parts or not (found.is_measured or found.disk_bytes >= _MIB):  # of a toy, what libraries take is no news
        return ""
    guess = f"of {', '.join(found.unknown)}, never built, guessed from weights and libraries" if found.unknown else ""
    told = "; ".join(filter(None, ("from past runs" if found.is_measured else "", guess)))
    return f"expected: {', '.join(parts)}, {told}"


def shortages(found: Needs, cache: Path) -> list[str]:
    """What there is too little of here."""
    told = []
    free = shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.exists())).free
    if found.disk_bytes > free:
        told.append(f"about {about(found.disk_bytes)} of disk are needed, {about(free)} are free in cache '{cache}'")
    usable = _usable_bytes()
    if found.memory_bytes > usable:
        told.append(f"about {about(found.memory_bytes)} of memory are needed, {about(usable)} may be used here")
    return told


def _usable_bytes() -> int:
    limit_mib = memory().limit_mib
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return whole if limit_mib is None else min(whole, limit_mib * _MIB)


def _size_bytes(step: Step) -> int:
    if step.source:
        return step.source.size_bytes
    if step.state == "stale" and not step.past:
        return int(getattr(step.spec.node, "size_bytes", 0))  # of what is to be fetched, as it was pinned
    return step.record.artifact.size_bytes if step.record else 0
