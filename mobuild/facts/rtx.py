"""What TensorRT-RTX takes of a model and of options, as far as it was tried."""

from __future__ import annotations

from dataclasses import dataclass

from mobuild.facts import Support, rows
from mobuild.facts import operators as tensorrt
from mobuild.facts.releases import release, releases

PRODUCT = "tensorrt_rtx"


@dataclass(frozen=True)
class _Unsupported:
    operators: tuple[str, ...]
    source: str
    confidence: str


@dataclass(frozen=True)
class _Restriction:
    sign: str
    note: str
    source: str
    confidence: str
    warns: bool = False


@dataclass(frozen=True)
class _NoFloat32:
    capability: str
    operators: tuple[str, ...]
    source: str
    confidence: str


@dataclass(frozen=True)
class _Option:
    """A flag or attribute of the builder's configuration; `needs` is another one that makes it work."""

    name: str
    note: str
    source: str
    confidence: str
    needs: str = ""
    warns: bool = False


def operator(name: str, version: str) -> Support:
    """Whether a TensorRT-RTX takes an operator of the default domain.

    What was not tried is as in the newest TensorRT, whose parser is of the same source.
    """
    unknown = _unknown(version)
    for row in rows(_Unsupported, PRODUCT, "unsupported"):
        if name in row.operators:
            either = ", nor does any TensorRT" if tensorrt.is_lacking(name) else ""
            return Support.denied(f"TensorRT-RTX takes no {name}{either}", row, unknown)
    answer = tensorrt.operator(name, releases("tensorrt")[-1].version)
    if answer.word == "no":
        return Support("unverified" if unknown else "no", answer.why, answer.source)
    return Support("yes" if answer.word == "limited" else answer.word, answer.why, answer.source)


def signed(sign: str, version: str) -> Support:
    """Whether a TensorRT-RTX takes nodes with a sign (`onnxmodel.signs`)."""
    for row in rows(_Restriction, PRODUCT, "restrictions"):
        if row.sign == sign:
            is_taken = Support("limited", row.note, row.source)
            return is_taken if row.warns else Support.denied(row.note, row, _unknown(version))
    return Support("yes")


def lacks_float32(capability: str) -> tuple[str, ...]:
    """The operators that it builds for a compute capability in lower precision alone."""
    return next((row.operators for row in rows(_NoFloat32, PRODUCT, "no_float32") if row.capability == capability), ())


def option(name: str, others: tuple[str, ...], version: str) -> Support:
    """Whether a flag or an attribute of its configuration works beside `others`."""
    for row in rows(_Option, PRODUCT, "options"):
        if row.name == name and not (row.needs and row.needs in others):
            remedy = f"; with {row.needs} it builds" if row.needs else ""
            why = f"{name} {row.note}{remedy}"
            return Support("limited", why, row.source) if row.warns else Support.denied(why, row, _unknown(version))
    return Support("yes")


def _unknown(version: str) -> str:
    """Why nothing is sure about a version: only the newest release was tried."""
    found, newest = release(PRODUCT, version), releases(PRODUCT)[-1].version
    return found.unknown or ("" if found.version == newest else f"tried with {newest} alone")
