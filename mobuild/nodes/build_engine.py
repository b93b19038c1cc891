"""Builds an engine with a backend, and proves it where it can run.

The backend only builds; sizes, parity and measurements are the same for all of them and live here. Parity
is measured against the ONNX model in ONNX Runtime without its optimizations, at the smallest, the usual
and the largest sizes of every profile. Precision is that of the graph's types: it is read from the graph
before building and from what was built, and never only believed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from mobuild import libraries, onnxmodel, parity
from mobuild.backend import Backend
from mobuild.engine_errors import runtime_errors
from mobuild.errors import ConfigError, NodeFailed, Refused, did_you_mean
from mobuild.node import Built
from mobuild.onnxmodel.at_sizes import AtSizes
from mobuild.onnxmodel.files import save_beside, weight_bytes
from mobuild.onnxmodel.precision import precisions
from mobuild.onnxmodel.qdq import DEQUANTIZE, INTEGER, QUANTIZE, assert_symmetric, is_quantized
from mobuild.profiles import Sizes, check_shapes, places_of, profiles
from mobuild.runtime.runner import open_engine

_PRECISIONS = ("fp32", "fp16", "bf16", "int8")
# What an engine may differ from its own graph, as a fraction of the largest expected value of an output.
# Half rounds at 0.0005, measured 0 on a CPU. A wrong weight is far beyond that.
_OF_LARGEST = {"bf16": 0.05, "fp16": 0.01}
# The same for eight bits, in the root mean square. ONNX Runtime fuses Q/DQ into integer kernels, which may round to
# the next step of the quantiser, and each step travels on: a 6-layer encoder measures 0 at 8 random tokens and 0.11 at
# 32 × 256 of them, where single values are off by a fifth of the largest one, and its graph by 0.39 from fp32. One
# of its matrices made smaller by a fifth measures 0.17 to 0.36, one of zeros 0.5 to 0.7.
_OF_MEAN = 0.2
_WHOLE, _TELLING_BYTES = 0.9, 1 << 20  # of weights in float32; below a MiB, padding decides
_CORNERS = ("min", "opt", "max")
_MAX_ELEMENTS = 1 << 23  # of all inputs; above, one run on a CPU takes longer than the build


@dataclass(frozen=True)
class BuildEngine:
    """The engine of the model `inputs["model"]`. `shapes` gives sizes by axis name: see `profiles`."""

    backend: Backend
    shapes: Mapping[str, Any] | Sequence[Mapping[str, Any]] = field(default_factory=dict)
    precision: str = "fp32"

    kind: ClassVar[str] = "build_engine"
    revision: ClassVar[int] = 5
    isolated: ClassVar[bool] = True
    trends: ClassVar[tuple[str, ...]] = ("host_persistent_bytes", "engine_bytes")

    def __post_init__(self) -> None:
        """Check what needs no model, and write equal wishes alike, so that they have one key."""
        if self.precision not in _PRECISIONS:
            raise ConfigError(
                f"precision: expected one of {', '.join(_PRECISIONS)}, found {self.precision!r}."
                f"{did_you_mean(self.precision, _PRECISIONS)}"
            )
        sizes = check_shapes(self.shapes)
        object.__setattr__(self, "shapes", sizes[0] if len(sizes) == 1 else sizes)

    @property
    def suffix(self) -> str:
        return self.backend.suffix

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.backend.tools, "onnx", "numpy")))

    @property
    def sources(self) -> dict[str, str]:
        """Files of the project that the backend reads, by role."""
        return dict(getattr(self.backend, "sources", {}))

    def check(self, summaries: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse shapes that do not fit the model, before anything runs."""
        if "model" in summaries:
            profiles(summaries["model"], self.shapes)

    def command(self, summary: Mapping[str, Any], model: str, out: str, version: str) -> str:
        """Shell lines that build the same engine without mobuild; empty where the backend knows none.

        `summary` is that of the model, `version` the builder's.
        """
        tell = getattr(self.backend, "command", None)
        return tell(model, profiles(summary, self.shapes), self.precision, out, version) if tell else ""

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        if lacking := self.backend.lacks(self.precision):  # rule R3 says so before anything runs
            raise Refused(
                f"precision {self.precision}: {lacking}", "choose another precision=…, hardware=… or backend=…"
            )
        placed = getattr(self.backend, "placed", None)
        return replace(self, backend=placed(inputs))._build(inputs, out) if placed else self._build(inputs, out)

    def _build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(prefix="model-", dir=out.parent) as scratch:
            model = onnxmodel.plain_files(inputs["model"], Path(scratch))
            model = _apart(model, places_of(onnxmodel.summary(model), self.shapes), Path(scratch))
            summary = onnxmodel.summary(model)
            loaded = onnxmodel.load(model, external_data=False)
            found = precisions(loaded)
            if not getattr(self.backend, "is_weak", False):
                self._assert_in("the graph", found)
            if self.backend.symmetric and is_quantized(summary):
                assert_symmetric(onnxmodel.load(model), f"backend {self.backend.name!r}")
            wanted = profiles(summary, self.shapes)
            self._assert_taken(AtSizes(loaded, summary))
            started = time.perf_counter()
            built = self.backend.build(model, wanted, self.precision, out)
            seconds = time.perf_counter() - started
            if carries := getattr(self.backend, "carries", ""):
                libraries.carry(out, self.suffix, libraries.given(inputs, carries))
            measurements = {
                **built.measurements,
                "engine_bytes": _size_bytes(out),
                "build_seconds": round(seconds, 3),
                "profiles": [_text(profile) for profile in wanted],
                "precision": list(found),
                "weight_bytes": weight_bytes(loaded),
                **self._read_back(out),
                **self._proof(model, summary, found, out, libraries.given(inputs).values()),
            }
        written = onnxmodel.summary(out) if self.suffix == ".onnx" else {}
        return Built(measurements, written, (*built.warnings, *_unlowered(self.precision, measurements)))

    def _assert_in(self, place: str, found: Sequence[str]) -> None:
        """Raise NodeFailed unless the precision asked for is there; fp32 means as exported."""
        if self.precision not in found and self.precision != "fp32":
            raise NodeFailed(
                f"precision: expected {self.precision} in {place}, found {', '.join(found)}",
                "kind quantize makes it: build the engine from 'quantized' (needs: {model: quantized})",
            )

    def _assert_taken(self, model: AtSizes) -> None:
        """Raise NodeFailed where a node does not take the sizes of a profile: builders let some of them pass."""
        for sizes in check_shapes(self.shapes):
            for _, at in _corners(sizes):
                if refusal := model.refusal(at):
                    raise NodeFailed(
                        f"the model does not take {_at(at)}: {refusal}",
                        "a size is a constant inside the graph, or axes do not go together: give sizes that the model\n"
                        "takes (shapes), or export it again with that axis dynamic, at the operator that is named",
                    )

    def _read_back(self, out: Path) -> dict[str, Any]:
        """What the engine itself says of its precision: only an ONNX file can be read without its device."""
        if self.suffix != ".onnx":
            return {}
        engine = onnxmodel.load(out, external_data=False)
        self._assert_in("the engine", precisions(engine))
        operators = onnxmodel.summary(out)["operators"]
        return {
            "engine_precision": list(precisions(engine)),
            "engine_weight_bytes": weight_bytes(engine),
            "integer_operators": {name: operators[name] for name in sorted(INTEGER.intersection(operators))},
            "unfused_quantize_nodes": operators.get(QUANTIZE, 0) + operators.get(DEQUANTIZE, 0),
        }

    def _proof(
        self, model: Path, summary: Mapping[str, Any], types: Sequence[str], out: Path, operators: Iterable[Path]
    ) -> dict[str, Any]:
        """Parity by profile and corner, or why it could not be measured here."""
        reason = self.backend.runs_here()
        if reason:
            return {"parity": f"not run: {reason}"}
        if "bf16" in types:
            return {"parity": "not run: ONNX Runtime has no bfloat16 kernels to compare with"}
        reference = onnxmodel.open_session(model, libraries=operators)
        found: dict[str, Any] = {}
        with runtime_errors():
            options = self.backend.run_options(profiles(summary, self.shapes))
            engine = open_engine(out, self.backend.runtime, **options)
        for number, sizes in enumerate(check_shapes(self.shapes) or ({},)):
            for corner, at in _corners(sizes):
                found[f"{number}.{corner}"] = _compare(engine, reference, summary, at, corner, types, number)
        return {"parity": found}


def _unlowered(precision: str, measurements: Mapping[str, Any]) -> Iterator[str]:
    """A warning where half was asked for, and the builder's log tells of weights as large as in float32.

    Flags of weak typing allow half, and no more than that; what they come to, only the engine shows.
    """
    held, weights = measurements.get("device_weight_bytes", 0), measurements["weight_bytes"]
    whole = weights.get("float32", 0) + 2 * (weights.get("float16", 0) + weights.get("bfloat16", 0))
    if precision in _OF_LARGEST and whole >= _TELLING_BYTES and held > _WHOLE * whole:
        yield (
            f"precision {precision}: the engine holds {held / 2**20:.3g} MiB of weights, and as float32 all weights of "
            f"the model are {whole / 2**20:.3g} MiB: it may compute in float32"
        )


def _compare(
    engine: Any,
    reference: Any,
    summary: Mapping[str, Any],
    at: dict[str, int],
    corner: str,
    types: Sequence[str],
    profile: int,
) -> Any:
    """The largest differences at the sizes `at` of a profile, of an engine whose graph computes in `types`.

    Raises:
        NodeFailed: the engine gives other numbers than the model.
    """
    elements = _elements(summary, at)
    if corner != "min" and elements > _MAX_ELEMENTS:
        return f"not run: {elements} input elements, more than {_MAX_ELEMENTS}"
    feeds = onnxmodel.feeds(summary, at)
    want = onnxmodel.run(reference, feeds)
    with runtime_errors():
        got = engine.run(feeds, profile)
    measured = _close(got, want, types, f"at {_at(at)}" if at else "")
    return {"max_abs": measured["max_abs"], "max_rel": measured["max_rel"]}


def _close(got: Any, want: Any, types: Sequence[str], where: str) -> dict[str, Any]:
    """`parity`, each output by its own largest value, or in the mean where a step of eight bits travels on."""
    if "int8" in types:
        return parity.assert_close_in_the_mean(got, want, _OF_MEAN, where)
    share = max(_OF_LARGEST.get(each, 0.0) for each in types)
    measured = parity.compare(got, want)
    for name in want:
        absolute = max(parity.ABSOLUTE, share * _largest(want[name]))
        parity.assert_close({name: got[name]}, {name: want[name]}, absolute, where=where)
    return measured


def _largest(values: Any) -> float:
    import numpy as np

    values = np.asarray(values)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) if values.dtype.kind == "f" else 0.0


def _apart(model: Path, places: Mapping[str, tuple[str, int]], scratch: Path) -> Path:
    """The model with those axes called by their place that have sizes of their own: TensorRT wants equal sizes for
    equal names."""
    if not places:
        return model
    loaded = onnxmodel.load(model, external_data=False)
    for value in loaded.graph.input:
        for name, (tensor, axis) in places.items():
            if value.name == tensor:
                value.type.tensor_type.shape.dim[axis].dim_param = name
    save_beside(loaded, model, scratch / "apart")
    return onnxmodel.model_file(scratch / "apart")


def _corners(sizes: Sizes) -> Iterator[tuple[str, dict[str, int]]]:
    """(name, sizes by axis) of the corners of one profile; equal ones once."""
    seen = []
    for i, corner in enumerate(_CORNERS):
        at = {axis: limits[i] for axis, limits in sizes.items()}
        if at not in seen:
            seen.append(at)
            yield corner, at


def _at(sizes: Mapping[str, Any]) -> str:
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())


def _elements(summary: Mapping[str, Any], at: Mapping[str, int]) -> int:
    total = 0
    for tensor in summary["inputs"]:
        count = 1
        for axis in onnxmodel.axes(tensor):
            count *= at[axis] if isinstance(axis, str) else axis
        total += count
    return total


def _size_bytes(out: Path) -> int:
    files = [out] if out.is_file() else [file for file in out.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _text(profile: Mapping[str, Any]) -> dict[str, str]:
    """`{x: "1×16 / 8×16 / 32×16"}`: min, opt and max by input."""
    contents = getattr(profile, "contents", {})
    return {
        name: " / ".join("×".join(map(str, shape)) or "scalar" for shape in corners)
        + (f" of {' / '.join(','.join(map(str, each)) for each in contents[name])}" if name in contents else "")
        for name, corners in profile.items()
    }
