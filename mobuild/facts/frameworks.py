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
    """The compute capabilities inside PyTorch's wheels for a CUDA (`12.6`, any `13.x`), and the one of their PTX.

    `releases` are the first and the last PyTorch for which that was seen.
    """

    cuda: str
    capabilities: tuple[str, ...]
    releases: tuple[str, str]
    source: str
    confidence: str
    ptx: str = ""

    def runs_on(self, capability: str) -> bool:
        """Machine code runs on its own major version, from its minor version on; PTX on every newer card."""
        card = order(capability)
        native = any(order(one)[:1] == card[:1] and order(one) <= card for one in self.capabilities)
        return native or bool(self.ptx and order(self.ptx) <= card)

    def is_of(self, version: str) -> bool:
        """Whether the row was seen for this PyTorch."""
        return order(self.releases[0]) <= minor(version) <= order(self.releases[1])


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


def torch_wheels(cuda: str) -> Wheel | None:
    """What PyTorch's wheels for a CUDA (`12.6`, any `13.x`) hold; none when it is not known."""
    known = rows(Wheel, "torch", "wheels")
    return next((each for each in known if cuda and each.cuda in (cuda, cuda.split(".")[0])), None)


def torch_wheels_for(capability: str) -> tuple[str, ...]:
    """The CUDAs of the newest PyTorch's wheels that run on a compute capability, oldest first."""
    newest_release = rows(Torch, "torch", "releases")[-1]
    offered = [*newest_release.cuda, *newest_release.experimental]
    return tuple(cuda for cuda in offered if (row := torch_wheels(cuda)) and row.runs_on(capability))
