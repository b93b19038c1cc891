"""A calibration cache of TensorRT's that a line names: whose it is, of which tensors, and its scales as ranges.

The format is that of `mobuild.backends.calibration_table`: `TRT-<version>-<algorithm>`, then `<tensor>: <float32, big
endian, in hexadecimal digits>`, the largest absolute value / 127.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from mobuild.errors import NodeFailed, SourceError
from mobuild.facts import order

_HEADER = re.compile(r"TRT-(\d+)-(\w+)")
_ROW = re.compile(r"(.+): ([0-9a-fA-F]{8})\s*")
_SHOWN = 3


@dataclass(frozen=True)
class Scales:
    """`version` is the TensorRT that made them (`8.6.1`), `scales` go by tensor."""

    version: str
    algorithm: str
    scales: Mapping[str, float]

    def of_another(self, version: str) -> str:
        """Why the TensorRT does not take them; empty when it may."""
        wanted = order(version)
        if order(self.version)[: len(wanted)] == wanted:
            return ""
        return f"made by TensorRT {self.version}, and TensorRT {version} takes a cache of its own version alone"

    def strangers(self, known: Collection[str]) -> str:
        """Which tensors are none of the model's; empty when all are."""
        found = [name for name in self.scales if name not in known]
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return f"{', '.join(map(repr, found[:_SHOWN]))}{more}" if found else ""

    def ranges(self) -> str:
        """The file of ranges that kind `quantize` reads."""
        ranges = {name: [-127 * scale, 127 * scale] for name, scale in sorted(self.scales.items())}
        return json.dumps({"schema": 1, "ranges": ranges}, indent=0, ensure_ascii=False) + "\n"


def read(path: Path) -> Scales:
    """The cache at `path`.

    Raises:
        SourceError: there is no such file.
        NodeFailed: it is no cache of TensorRT's.
    """
    try:
        first, *rows = path.read_bytes().decode(errors="replace").splitlines() or [""]
    except OSError as error:
        raise SourceError(f"adopt: calibration cache {path}: {error.strerror}", "paths start at this folder") from error
    header, found = _HEADER.fullmatch(first.strip()), [_ROW.fullmatch(row) for row in rows if row.strip()]
    if header is None or not found or not all(found):
        raise NodeFailed(
            f"adopt: {path} is no calibration cache of TensorRT: expected 'TRT-<version>-<algorithm>' and a line "
            f"'<tensor>: <8 hexadecimal digits>' for each tensor, found {first[:60]!r}",
            "a table of ONNX Runtime has another form; leave it out and give samples: recipes/README.md, calibrate",
        )
    scales = {row[1]: struct.unpack(">f", bytes.fromhex(row[2]))[0] for row in found if row}
    return Scales(_version(header[1]), header[2], scales)


def _version(digits: str) -> str:
    """8601 → 8.6.1, 101601 → 10.16.1."""
    number = int(digits)
    base = 10000 if number >= 100000 else 1000
    return f"{number // base}.{number % base // 100}.{number % 100}"
