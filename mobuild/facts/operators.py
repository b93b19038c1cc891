"""Operators that TensorRT's ONNX parser takes, by version, with their types and restrictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mobuild.facts import Support, order, rows
from mobuild.facts.releases import release


@dataclass(frozen=True)
class _Since:
    version: str
    operators: tuple[str, ...]
    source: str
    confidence: str


@dataclass(frozen=True)
class _Unsupported:
    operators: tuple[str, ...]
    source: str
    confidence: str


@dataclass(frozen=True)
class _Types:
    types: tuple[str, ...]
    operators: tuple[str, ...]
    source: str
    confidence: str


@dataclass(frozen=True)
class Restriction:
    """What operators must be like, before version `until` where that is given.

    `sign` is how the summary of a model shows one that is not; `warns`: it builds all the same.
    """

    operators: tuple[str, ...]
    note: str
    source: str
    confidence: str
    until: str = ""
    sign: str = ""
    warns: bool = False


def operator(name: str, version: str) -> Support:
    """Whether a TensorRT takes an operator of the default domain; `limited` names all restrictions."""
    unknown, since = release("tensorrt", version).unknown, _since().get(name)
    if since is None:
        return _without(name, version, unknown)
    if order(version) < order(since.version):
        return Support.denied(f"{name} is there from TensorRT {since.version} on", since, unknown)
    if notes := [each.note for each in restrictions(name, version)]:
        return Support("limited", f"{name}: {'; '.join(notes)}", since.source)
    return Support.granted(since, unknown)


def operator_types(name: str) -> tuple[str, ...]:
    """The types that an operator takes at least, from TensorRT 10.1 on; empty when they are not known."""
    known = rows(_Types, "operators", "types")
    return next((each.types for each in known if name in each.operators), ())


def restrictions(name: str, version: str) -> tuple[Restriction, ...]:
    """What a TensorRT asks of an operator that it takes."""
    known = rows(Restriction, "operators", "restrictions")
    held = (each for each in known if not each.until or order(version) < order(each.until))
    return tuple(each for each in held if name in each.operators)


def signed(sign: str, version: str) -> Support:
    """Whether a TensorRT takes nodes with a sign (`onnxmodel.signs`)."""
    unknown = release("tensorrt", version).unknown
    known = rows(Restriction, "operators", "restrictions")
    held = (each for each in known if not each.until or order(version) < order(each.until))
    row = next((each for each in held if each.sign == sign), None)
    if row is None:
        return Support("yes")
    return Support("limited", row.note, row.source) if row.warns else Support.denied(row.note, row, unknown)


def first_with(name: str) -> str:
    """The first TensorRT that takes an operator; empty when none is known to."""
    since = _since().get(name)
    return since.version if since else ""


def taken_from(name: str) -> str:
    """`TensorRT has STFT from 10.5 on`; empty when no release is known to."""
    first = first_with(name)
    return f"TensorRT has {name} from {first} on" if first else ""


def is_lacking(name: str) -> bool:
    """Whether no release is known to take an operator without a plugin, as its documentation says."""
    return not first_with(name) and any(name in row.operators for row in rows(_Unsupported, "operators", "unsupported"))


def _without(name: str, version: str, unknown: str) -> Support:
    """An operator that no release is known to take: surely none, or simply not in the table."""
    row = next((each for each in rows(_Unsupported, "operators", "unsupported") if name in each.operators), None)
    if row is None:
        return Support("unverified", f"{name} is not in the table")
    return Support.denied(f"no TensorRT takes {name} without a plugin", row, unknown)


@cache
def _since() -> dict[str, _Since]:
    return {name: each for each in rows(_Since, "operators", "since") for name in each.operators}
