"""TensorRT's calibration cache: a text file with one scale per tensor, for implicit int8 up to TensorRT 10.

First line `TRT-<version>-<algorithm>`, then `<tensor>: <8 hexadecimal digits>`, a big-endian IEEE 754 float32: the
largest absolute value / 127 (sampleEngines.cpp, readScalesFromCalibrationCache). TensorRT takes a table of another
version or algorithm for none and begins to calibrate without data, so the header is checked before it sees the file.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any, Collection, Mapping, Sequence

from mobuild import onnxmodel
from mobuild.errors import NodeFailed
from mobuild.onnxmodel.qdq import is_quantized

ALGORITHM = "EntropyCalibration2"
_SHOWN = 5


def header(version: str, algorithm: str = ALGORITHM) -> str:
    """The first line that a TensorRT writes: `TRT-101601-…` for 10.16.1.11, `TRT-8601-…` for 8.6.1."""
    major, minor, patch = (int(word) for word in (*version.split("."), "0", "0")[:3])
    return f"TRT-{major * (10000 if major >= 10 else 1000) + minor * 100 + patch}-{algorithm}"


def for_model(place: str, path: Path, version: str) -> bytes:
    """The table at `place`, a file of TensorRT's or the folder that kind calibrate makes, for the ONNX file `path`.

    Raises:
        NodeFailed: the model has Q/DQ, which is the other way; there is no table; TensorRT would not take it; it is of
            another graph.
    """
    if is_quantized(onnxmodel.summary(path)):
        raise NodeFailed(
            "backend.typing=weak and a graph with Q/DQ: expected one way to int8, found both",
            "backend.typing=strong takes Q/DQ; weak takes the float graph and a table:\n"
            "needs: {model: sanitized, calibration: calibration}",
        )
    if not place:
        raise NodeFailed(
            "backend.typing=weak, precision=int8: expected scales, found none; TensorRT would make them up",
            "at the engine: needs: {model: sanitized, calibration: calibration}, or backend.calibration_cache: <file>",
        )
    return _read(Path(place), version, onnxmodel.load(path, external_data=False))


def _read(place: Path, version: str, model: Any) -> bytes:
    known = {each.name for each in model.graph.input}
    known.update(name for node in model.graph.node for name in (*node.input, *node.output))
    if place.is_dir():
        table = of_ranges(json.loads((place / "ranges.json").read_text(encoding="utf-8"))["ranges"], version)
    else:
        table = place.read_bytes()
    check(table, version, known)
    return table


def of_ranges(ranges: Mapping[str, Sequence[float]], version: str) -> bytes:
    """The table for ranges (low, high) by tensor, as kind calibrate makes them."""
    scales = {name: max(abs(low), abs(high)) / 127 for name, (low, high) in sorted(ranges.items())}
    lines = [header(version), *(f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in scales.items())]
    return "".join(f"{line}\n" for line in lines).encode()


def check(table: bytes, version: str, known: Collection[str]) -> None:
    """Refuse a table with another header, a line that is none, or tensors beside those that the model has, `known`."""
    first, *rows = table.decode(errors="replace").splitlines() or [""]
    if first.strip() != header(version):
        raise NodeFailed(
            f"calibration cache: expected the header {header(version)!r}, found {first[:60]!r}",
            f"it was made by another TensorRT or another algorithm: calibrate with TensorRT {version}, or let mobuild\n"
            "write the table (needs: {model: sanitized, calibration: calibration})",
        )
    names = [_name(row) for row in rows if row.strip()]
    strangers = [name for name in names if name not in known]
    if strangers or not names:
        found = f"{_listed(strangers)}, which it does not have" if strangers else "no tensor at all"
        raise NodeFailed(
            f"calibration cache: expected tensors of the model, found {found}",
            "tensors are found by name: calibrate the very model that the engine is built from",
        )


def _name(row: str) -> str:
    match = re.fullmatch(r"(.+): ([0-9a-fA-F]{8})\s*", row)
    if match is None:
        raise NodeFailed(
            f"calibration cache: expected '<tensor>: <8 hexadecimal digits>', found {row[:80]!r}",
            "the file is damaged, or not TensorRT's: ONNX Runtime's table, for one, has another form",
        )
    return match.group(1)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
