"""What the precision flags of a line become: flags again where TensorRT 10 has them, types of the graph elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from mobuild.adopt.scales import Scales
from mobuild.adopt.wishes import Wishes

_LOW = ("fp16", "bf16")
_EXTRA = {"bf16": "BF16", "fp8": "FP8", "int4": "INT4"}  # members of BuilderFlag for what `precision` does not say
_SAMPLES = "give nodes.calibration.data samples, then precision=int8"


@dataclass(frozen=True)
class Precision:
    """`is_weak`: flags allow lower types, and the graph stays as it is; `takes_ranges`: the scales of the line's cache
    become Q/DQ; `rest` is said where it is not the backend's own."""

    name: str = "fp32"
    is_weak: bool = False
    takes_ranges: bool = False
    rest: str = ""
    lacks_samples: bool = False


def decide(wishes: Wishes, is_quantized: bool, scales: Scales | None) -> Precision:
    """What to write, and what to say of each flag."""
    types = wishes.types
    if wishes.precision or not types:
        return Precision(wishes.precision or "fp32")
    if wishes.is_typed:
        for each in types:
            wishes.decide(
                each, "ignored", note="does nothing beside --stronglyTyped: the graph's types are the engine's"
            )
        return Precision()
    low = next((each for each in _LOW if each in types), "fp32")
    is_weak = wishes.is_weak_there and not ("int8" in types and is_quantized)
    name = _with_int8(wishes, low, is_weak, is_quantized, scales) if "int8" in types else low
    for each in types:
        if each == low and name != "int8":
            wishes.decide(each, "mapped", f"precision: {low}", _by_flag(wishes, is_weak))
        elif each == low:
            wishes.decide(each, "mapped", _rest_key(is_weak, is_quantized), _rest(is_weak, is_quantized))
        elif each in _EXTRA:
            _extra(wishes, each, is_weak)
    is_weak = is_weak and (name != "fp32" or bool(_EXTRA.keys() & types.keys()))
    is_made = name == "int8" and not is_weak and not is_quantized
    return Precision(
        name,
        is_weak,
        takes_ranges=is_made,
        rest=low if is_made and low != "fp16" else "",
        lacks_samples="int8" in types and name != "int8",
    )


def _with_int8(wishes: Wishes, low: str, is_weak: bool, is_quantized: bool, scales: Scales | None) -> str:
    if is_quantized:
        wishes.decide("int8", "mapped", "precision: int8", "the model has Q/DQ, which say what is int8")
        return "int8"
    if scales is None:
        wishes.decide(
            "int8",
            "lost",
            note=f"without scales (--calib, Q/DQ in the graph) they are made up from random numbers (R15): {_SAMPLES}",
        )
        return low
    if not is_weak:
        note = "by Q/DQ in the graph, from the scales of the calibration cache"
        wishes.decide("int8", "mapped", "precision: int8", note)
    elif low == "fp32":
        wishes.decide("int8", "mapped", "precision: int8", f"{_by_flag(wishes, True)}; what is not int8 may be fp16")
    else:
        wishes.decide("int8", "mapped", "precision: int8", _by_flag(wishes, True))
    return "int8"


def _by_flag(wishes: Wishes, is_weak: bool) -> str:
    if is_weak:
        return "allowed by a flag, as in the line: typing: weak"
    return (
        "written into the graph's types"
        if wishes.product == "tensorrt"
        else "in the graph's types, for RTX has no flags"
    )


def _rest_key(is_weak: bool, is_quantized: bool) -> str:
    return "" if is_quantized and not is_weak else "precision: int8"


def _rest(is_weak: bool, is_quantized: bool) -> str:
    if is_quantized and not is_weak:
        return "what has no Q/DQ keeps the type that the graph gives it"
    return "for what is not int8"


def _extra(wishes: Wishes, type_: str, is_weak: bool) -> None:
    if is_weak:
        wishes.raw[_EXTRA[type_]] = True
        wishes.decide(type_, "raw", f"backend.tensorrt.raw.{_EXTRA[type_]}: true")
    elif type_ != "bf16":
        wishes.decide(type_, "lost", note="must be in the graph's types; export or quantise the model so")
