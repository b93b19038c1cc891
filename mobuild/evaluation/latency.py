"""`python -m mobuild.evaluation.latency JOB.json`: two engines in turns, in a process of their own; JSON on stdout.

The job names both engines, with their sidecars beside them, and the ranges of integer inputs. What cannot be compared
here is answered as `not_run` with the reason.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Mapping

from mobuild import onnxmodel
from mobuild.errors import NodeFailed
from mobuild.runtime.errors import EngineError
from mobuild.runtime.loading import Runner, load
from mobuild.runtime.runner import shape_text
from mobuild.runtime.turns import in_turns


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of `turns.in_turns`, or why there are none."""
    try:
        a, b = (load(job[side]) for side in ("a", "b"))
        if problem := _different(a, b):
            return {"not_run": problem}
        feeds = _feeds(a, job.get("ranges", {}))
        sizes = ", ".join(f"{name} {shape_text(array.shape)}" for name, array in feeds.items())
        blocks, seconds = int(job.get("blocks", 20)), float(job.get("block_seconds", 0.05))
        return {**in_turns(lambda: a(feeds), lambda: b(feeds), blocks, seconds), "sizes": sizes}
    except (EngineError, NodeFailed) as error:
        return {"not_run": error.message}


def _different(a: Runner, b: Runner) -> str:
    """Why the same arrays cannot be given to both; empty when they can."""
    before, after = ({one.name: one.dtype for one in side.inputs} for side in (a, b))
    if before != after:
        return f"they take other inputs: {before} and {after}"
    if a.profiles[:1] != b.profiles[:1]:
        return "they were built for other sizes"
    return ""


def _feeds(runner: Runner, ranges: Mapping[str, Any]) -> dict[str, Any]:
    """Random arrays of the usual size of the first profile; integers within their range.

    Raises:
        EngineError: an axis of which no size is known.
        NodeFailed: an input of which no example can be made.
    """
    profile = runner.profiles[0] if runner.profiles else {}
    inputs = []
    for one in runner.inputs:
        shape = profile[one.name][1] if one.name in profile else one.shape
        if not all(isinstance(axis, int) and axis >= 0 for axis in shape):
            raise EngineError(f"input {one.name!r}: its shape {shape_text(shape)} has no sizes that it was built for")
        inputs.append({"name": one.name, "dtype": one.dtype, "shape": list(shape)})
    return onnxmodel.feeds({"inputs": inputs, "ranges": ranges}, {})


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
