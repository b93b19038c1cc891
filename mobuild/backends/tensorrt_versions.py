"""All that differs between the TensorRT releases which mobuild drives (10.0 to 10.16, 11): kept short, in one place.

Tests look up every name that stands here and in the shared code in the bindings of each release, as recorded in
tests/backends/tensorrt_api.json.
"""

from __future__ import annotations

from typing import Any, Sequence

from mobuild.backends.network_builder import Builder
from mobuild.errors import NodeFailed, Refused
from mobuild.versions import version_key

COMPATIBILITY = {"none": "", "same_compute_capability": "10.9", "ampere_plus": ""}  # since when; empty: always
WEAK_FLAGS = {"fp32": (), "fp16": ("FP16",), "bf16": ("BF16",), "int8": ("INT8", "FP16")}
_WEAK_DEPRECATED, _WEAK_REMOVED = (10, 12), (11,)


def refuse_weak(version: str) -> None:
    """Refuse weak typing where it was removed; an empty version is not known yet.

    Raises:
        Refused: names what takes its place.
    """
    if version_key(version) >= _WEAK_REMOVED:
        raise Refused(
            f"backend.typing=weak: TensorRT {version} has no precision flags and no calibration cache, since 11.0",
            "backend.typing=strong: precision=fp16 and bf16 rewrite the graph's types, int8 puts Q/DQ into it\n"
            "(needs: {model: quantized}); or build with TensorRT 10: backend.version='\"10.16\"'",
        )


def weak_warnings(version: str) -> Sequence[str]:
    is_old = version_key(version)[:2] < _WEAK_DEPRECATED
    return () if is_old else ("backend.typing=weak is deprecated since TensorRT 10.12 and gone in 11: use strong",)


def compatibility(trt: Any, wanted: str) -> Any:
    """The member of `HardwareCompatibilityLevel` that a recipe's word means."""
    members = trt.HardwareCompatibilityLevel.__members__
    if wanted.upper() not in members:
        raise NodeFailed(
            f"TensorRT {trt.__version__} has no hardware_compatibility {wanted!r}: from {COMPATIBILITY[wanted]} on",
            "hardware_compatibility: ampere_plus, or an engine for each card",
        )
    return members[wanted.upper()]


def weaken(builder: Builder, precision: str, table: bytes) -> Any:
    """Allow types lower than the graph's, int8 with the scales of `table`; returns what must outlive the build."""
    for flag in WEAK_FLAGS[precision]:
        builder.set_flag(flag)
    calibrator = _calibrator(builder.trt, table) if precision == "int8" else None
    if calibrator:
        builder.config.int8_calibrator = calibrator
        for profile in builder.profiles[:1]:
            builder.config.set_calibration_profile(profile)
    return calibrator


def _calibrator(trt: Any, table: bytes) -> Any:
    """A calibrator that has its table and no data; nothing is ever written back."""

    class Table(trt.IInt8EntropyCalibrator2):  # type: ignore[misc]
        def get_batch_size(self) -> int:
            return 1

        def get_batch(self, names: Sequence[str]) -> None:
            return None

        def read_calibration_cache(self) -> bytes:
            return table

        def write_calibration_cache(self, cache: Any) -> None:
            pass

    return Table()
