"""Builds an engine with a backend, and proves it where it can run.

The backend only builds; sizes, parity and measurements are the same for all of them and live here. Parity
is measured against the ONNX model in ONNX Runtime without its optimizations, at the smallest, the usual
and the largest sizes of every profile.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import onnxmodel, parity
from mobuild.backend import Backend
from mobuild.engine_errors import runtime_errors
from mobuild.errors import ConfigError
from mobuild.node import Built
from mobuild.onnxmodel.walk import tensors
from mobuild.profiles import Sizes, check_shapes, profiles
from mobuild.runtime.runner import open_engine

_PRECISIONS = ("fp32",)
_DTYPES = {"float": "float32", "double": "float64"}
_CORNERS = ("min", "opt", "max")
_MAX_ELEMENTS = 1 << 23  # of all inputs; above, one run on a CPU takes longer than the build


@dataclass(frozen=True)
class BuildEngine:
    """The engine of the model `inputs["model"]`. `shapes` gives sizes by axis name: see `profiles`."""

    backend: Backend
    shapes: Mapping[str, Any] | Sequence[Mapping[str, Any]] = field(default_factory=dict)
    precision: str = "fp32"

    kind: ClassVar[str] = "build_engine"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check what needs no model, and write equal wishes alike, so that they have one key."""
        if self.precision not in _PRECISIONS:
            raise ConfigError(f"precision: expected one of {', '.join(_PRECISIONS)}, found {self.precision!r}")
        sizes = check_shapes(self.shapes)
        object.__setattr__(self, "shapes", sizes[0] if len(sizes) == 1 else sizes)

    @property
    def suffix(self) -> str:
        return self.backend.suffix

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.backend.tools, "onnx", "numpy")))

    def check(self, summaries: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse shapes that do not fit the model, before anything runs."""
        if "model" in summaries:
            profiles(summaries["model"], self.shapes)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(prefix="model-", dir=out.parent) as scratch:
            model = onnxmodel.plain_files(inputs["model"], Path(scratch))
            summary = onnxmodel.summary(model)
            wanted = profiles(summary, self.shapes)
            started = time.perf_counter()
            built = self.backend.build(model, wanted, self.precision, out)
            seconds = time.perf_counter() - started
            measurements = {
                **built.measurements,
                "engine_bytes": _size_bytes(out),
                "build_seconds": round(seconds, 3),
                "profiles": [_text(profile) for profile in wanted],
                "weight_bytes": _weight_bytes(model),
                **self._proof(model, summary, out),
            }
        written = onnxmodel.summary(out) if self.suffix == ".onnx" else {}
        return Built(measurements, written, built.warnings)

    def _proof(self, model: Path, summary: Mapping[str, Any], out: Path) -> dict[str, Any]:
        """Parity by profile and corner, or why it could not be measured here."""
        reason = self.backend.runs_here()
        if reason:
            return {"parity": f"not run: {reason}"}
        reference = onnxmodel.open_session(model)
        found: dict[str, Any] = {}
        for number, sizes in enumerate(check_shapes(self.shapes) or ({},)):
            with runtime_errors():
                engine = open_engine(out, self.backend.runtime, **self.backend.run_options(number))
            for corner, at in _corners(sizes):
                found[f"{number}.{corner}"] = _compare(engine, reference, summary, at, corner)
        return {"parity": found}


def _compare(engine: Any, reference: Any, summary: Mapping[str, Any], at: dict[str, int], corner: str) -> Any:
    """The largest differences at the sizes `at`.

    Raises:
        NodeFailed: the engine gives other numbers than the model.
    """
    elements = _elements(summary, at)
    if corner != "min" and elements > _MAX_ELEMENTS:
        return f"not run: {elements} input elements, more than {_MAX_ELEMENTS}"
    feeds = onnxmodel.feeds(summary, at)
    want = onnxmodel.run(reference, feeds)
    with runtime_errors():
        got = engine.run(feeds)
    where = " ".join(f"{axis}={size}" for axis, size in at.items())
    measured = parity.assert_close(got, want, where=f"at {where}" if where else "")
    return {"max_abs": measured["max_abs"], "max_rel": measured["max_rel"]}


def _corners(sizes: Sizes) -> Iterator[tuple[str, dict[str, int]]]:
    """(name, sizes by axis) of the corners of one profile; equal ones once."""
    seen = []
    for i, corner in enumerate(_CORNERS):
        at = {axis: limits[i] for axis, limits in sizes.items()}
        if at not in seen:
            seen.append(at)
            yield corner, at


def _elements(summary: Mapping[str, Any], at: Mapping[str, int]) -> int:
    total = 0
    for tensor in summary["inputs"]:
        count = 1
        for axis in onnxmodel.axes(tensor):
            count *= at[axis] if isinstance(axis, str) else axis
        total += count
    return total


def _weight_bytes(model: Path) -> dict[str, int]:
    """Bytes of constants by type: the precision that is really in the graph."""
    import onnx

    found: Counter[str] = Counter()
    for tensor in tensors(onnxmodel.load(model, external_data=False)):
        name = onnx.TensorProto.DataType.Name(tensor.data_type).lower()
        found[_DTYPES.get(name, name)] += onnxmodel.files.size_bytes(tensor)
    return dict(sorted(found.items()))


def _size_bytes(out: Path) -> int:
    files = [out] if out.is_file() else [file for file in out.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _text(profile: Mapping[str, Any]) -> dict[str, str]:
    """`{x: "1×16 / 8×16 / 32×16"}`: min, opt and max by input."""
    return {
        name: " / ".join("×".join(map(str, shape)) or "scalar" for shape in corners)
        for name, corners in profile.items()
    }
