"""Rules on precisions: what the card computes with, and which float32 its builder still makes (R3)."""

from __future__ import annotations

from mobuild.contract.findings import Finding, found
from mobuild.contract.request import Model, Request
from mobuild.facts import order, rows
from mobuild.facts.capabilities import Capability, computes
from mobuild.facts.rtx import lacks_float32

_WITH_TENSOR_CORES = ("fp16", "bf16", "int8")


def card_computes(request: Request) -> tuple[Finding, ...]:
    """R3: the compute capability has the precision that is asked for."""
    capability = request.hardware.compute_capability
    if not request.is_tensorrt or not capability or request.precision not in _WITH_TENSOR_CORES:
        return ()
    answer = computes(capability, request.precision)
    message = f"precision {request.precision}: {answer.why}"
    first = _first(request.precision)
    hint = f"precision={_other(request)}, or a card of compute capability {first} or newer"
    return found("R3", answer, request.where, message, hint)


def backend_builds(lacking: str, request: Request, where: str) -> tuple[Finding, ...]:
    """R3: the backend builds engines of the precision; `lacking` is its own word, unless the card says it already."""
    if not lacking or card_computes(request):
        return ()
    message = f"precision {request.precision}: {lacking}"
    hint = f"precision={_other(request)}, or another hardware=… or backend=…"
    return (Finding("R3", "error", where, message, hint),)


def float32_is_built(model: Model) -> tuple[Finding, ...]:
    """R3: TensorRT-RTX has no float32 matrix products for some cards."""
    request = model.request
    lacking = lacks_float32(request.hardware.compute_capability) if request.backend == "tensorrt_rtx" else ()
    met = [name for name in lacking if name in model.summary["operators"]]
    types = model.summary.get("types", {})
    if not met or not types.get("float32") or (request.precision != "fp32" and not model.is_final):
        return ()
    is_mixed = "float16" in types or bool(model.summary["quantize_nodes"])
    message = (
        f"{request.product} has no float32 {', '.join(met)} for compute capability "
        f"{request.hardware.compute_capability}, and the model holds {_mib(types['float32'])} MiB of float32 weights"
    )
    severity = "warning" if is_mixed or request.unknown else "error"
    hint = "precision=fp16" if request.precision != "fp16" else "build it of 'quantized': needs: {model: quantized}"
    return (Finding("R3", severity, model.where, message, hint),)


def _other(request: Request) -> str:
    """The precision nearest to what is asked for that the card has: half where it computes in it, else float32."""
    capability = request.hardware.compute_capability
    has_half = request.is_tensorrt and capability and computes(capability, "fp16").word == "yes"
    return "fp16" if has_half and request.precision != "fp16" else "fp32"


def _first(precision: str) -> str:
    known = rows(Capability, "capabilities", "capabilities")
    return min((each.capability for each in known if precision in each.tensor_cores), key=order)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.3g}"
