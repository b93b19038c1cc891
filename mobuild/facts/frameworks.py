"""ONNX, ONNX Runtime and PyTorch: opsets, IR versions, Pythons, wheels."""

from __future__ import annotations

from dataclasses import dataclass

from mobuild.facts import Support, minor, newest, order, rows


@dataclass(frozen=True)
class Format:
    """The newest IR version and opset of an ONNX release, or those that an ONNX Runtime loads."""

    version: str
    ir: int
    opset: int
    source: str
    confidence: str


@dataclass(frozen=True)
class Torch:
    """A PyTorch release. `opset`: the default of its exporter, None where it is not known."""

    version: str
    python: tuple[str, str]
    cuda: tuple[str, ...]
    experimental: tuple[str, ...]
    opset: int | None
    source: str
    confidence: str
    uncertain: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wheel:
    """The compute capabilities inside PyTorch's wheels for a CUDA."""

    cuda: str
    capabilities: tuple[str, ...]
    source: str
    confidence: str


def ir_for_opset(opset: int) -> int | None:
    """The IR version of the oldest ONNX that has an opset: what every reader of that opset takes."""
    return next((each.ir for each in rows(Format, "onnx", "onnx") if each.opset >= opset), None)


def onnx_for_opset(opset: int) -> str:
    """The oldest ONNX that has an opset; empty when none is known."""
    return next((each.version for each in rows(Format, "onnx", "onnx") if each.opset >= opset), "")


def ort_for_opset(opset: int) -> str:
    """The oldest ONNX Runtime that loads an opset; empty when none is known."""
    return next((each.version for each in rows(Format, "onnx", "onnxruntime") if each.opset >= opset), "")


def ort_loads(version: str, opset: int, ir: int) -> Support:
    """Whether an ONNX Runtime loads models of an opset and an IR version."""
    known = rows(Format, "onnx", "onnxruntime")
    row = newest(known, version)
    if row is None or order(row.version) != minor(version):
        return Support("unverified", f"ONNX Runtime {version} is not in the table, which ends at {known[-1].version}")
    if opset > row.opset:
        return Support.denied(f"ONNX Runtime {version} loads opsets up to {row.opset}", row)
    if ir > row.ir:
        return Support.denied(f"ONNX Runtime {version} loads IR versions up to {row.ir}", row)
    return Support.granted(row)


def torch_release(version: str) -> Torch | None:
    """The row of a PyTorch (`2.13.0`); none when it is not known."""
    return next((each for each in rows(Torch, "torch", "releases") if order(each.version) == minor(version)), None)


def torch_wheels(cuda: str) -> tuple[str, ...]:
    """The compute capabilities in the wheels for a CUDA (`12.6`, any `13.x`); empty when not known."""
    known = rows(Wheel, "torch", "wheels")
    return next((each.capabilities for each in known if cuda == each.cuda or cuda.split(".")[0] == each.cuda), ())
