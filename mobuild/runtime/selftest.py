"""Feeds with the outputs that were recorded for them, beside the engine; and whether it still gives those.

`selftest.tensors`: one line of JSON, `{"cases": [{"inputs": […], "outputs": […]}]}`, whose tensors are told as in the
Open Inference Protocol, then their raw bytes one behind the other. No pickle, no archive.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence, Tuple

from .errors import EngineError
from .model import Model, Tolerance
from .runner import Engine
from .tensors import DATATYPES, Malformed, from_bytes, to_bytes

FILE = "selftest.tensors"

Arrays = Mapping[str, Any]
Case = Tuple[Arrays, Arrays]
"""(feeds, outputs) by name."""


def record(folder: Path, cases: Sequence[Case]) -> Path:
    """Write the cases into `folder`."""
    told: list[Any] = []
    raw: list[Any] = []
    for case in cases:
        parts = {}
        for role, arrays in zip(("inputs", "outputs"), case):
            data = {name: to_bytes(array) for name, array in arrays.items()}
            parts[role] = [
                {
                    "name": name,
                    "datatype": DATATYPES[str(array.dtype)],
                    "shape": list(array.shape),
                    "parameters": {"binary_data_size": len(data[name])},
                }
                for name, array in arrays.items()
            ]
            raw.extend(data.values())
        told.append(parts)
    path = folder / FILE
    path.write_bytes(b"".join([json.dumps({"cases": told}).encode(), b"\n", *raw]))
    return path


def cases(folder: Path) -> list[Case]:
    """The recorded cases; none where nothing was recorded.

    Raises:
        EngineError: the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return []
    head, _, raw = path.read_bytes().partition(b"\n")
    data = memoryview(raw)
    try:
        place = 0
        found: list[Case] = []
        for case in json.loads(head)["cases"]:
            roles = []
            for role in ("inputs", "outputs"):
                arrays = {}
                for told in case[role]:
                    size = told["parameters"]["binary_data_size"]
                    arrays[told["name"]] = from_bytes(told["datatype"], told["shape"], data[place : place + size])
                    place += size
                roles.append(arrays)
            found.append((roles[0], roles[1]))
    except (Malformed, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"'{path}': is damaged: {error}") from error
    return found


def examine(folder: Path, model: Model, engine: Engine) -> dict[str, Any]:
    """What came of it, for JSON: `passed`, and for each case its outputs with the largest differences.

    Raises:
        EngineError: nothing was recorded, or the engine does not run.
    """
    recorded = cases(folder)
    if not recorded:
        raise EngineError(f"'{folder}': there is no {FILE}, so nothing can be compared")
    passed, results = True, []
    for feeds, wanted in recorded:
        begun = time.perf_counter()
        outputs = engine.run(feeds)
        milliseconds = (time.perf_counter() - begun) * 1000
        compared = {name: _compared(outputs[name], array, model.tolerance) for name, array in wanted.items()}
        passed = passed and all(each["passed"] for each in compared.values())
        results.append({"milliseconds": round(milliseconds, 3), "outputs": compared})
    return {"passed": passed, "cases": results}


def damaged(folder: Path, model: Model) -> Iterator[str]:
    """What is wrong with the files of the engine, by their digests."""
    for name, wanted in sorted(model.sha256.items()):
        path = folder / name
        if not path.is_file():
            yield f"'{path}': is missing"
            continue
        digest = hashlib.sha256()
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
        if digest.hexdigest() != wanted:
            yield f"'{path}': expected the SHA-256 {wanted}, found {digest.hexdigest()}"


def _compared(got: Any, want: Any, tolerance: Tolerance) -> dict[str, Any]:
    """Whether an output is the recorded one; what is no floating-point number has to be equal."""
    import numpy

    if got.dtype != want.dtype or got.shape != want.shape:
        found, expected = (f"{each.dtype} {list(each.shape)}" for each in (got, want))
        return {"passed": False, "expected": expected, "found": found}
    if want.dtype == object or want.dtype.kind in "biu":
        unequal = int(numpy.count_nonzero(got != want))
        return {"passed": not unequal, "unequal": unequal}
    got, want = got.astype(numpy.float64), want.astype(numpy.float64)
    passed = bool(numpy.allclose(got, want, tolerance.relative, tolerance.absolute, equal_nan=True))
    both = numpy.isfinite(got) & numpy.isfinite(want)
    return {
        "passed": passed,
        "max_abs": float(numpy.abs(got - want, where=both, out=numpy.zeros_like(got)).max(initial=0)),
    }
