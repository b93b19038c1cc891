"""Flags of trtexec and features of TensorRT's API, by version, and what replaces them."""

from __future__ import annotations

from dataclasses import dataclass

from mobuild.facts import Support, order, rows
from mobuild.facts.releases import release


@dataclass(frozen=True)
class Feature:
    """A flag or a feature. An empty version: never, or, for `since`, before the table begins."""

    name: str
    source: str
    confidence: str
    since: str = ""
    deprecated: str = ""
    removed: str = ""
    instead: str = ""


def flags() -> tuple[str, ...]:
    """Every flag of trtexec that some version has."""
    return tuple(dict.fromkeys(each.name.partition("=")[0] for each in rows(Feature, "trtexec", "flags")))


def flag(name: str, version: str) -> Support:
    """Whether the trtexec of a TensorRT takes a flag (`--fp16`, a value after `=` aside)."""
    return _support(_flag(name), name, version)


def feature(name: str, version: str) -> Support:
    """Whether a TensorRT has a feature of the API (`IInt8Calibrator`)."""
    return _support(_find("tensorrt_api", "features", name), name, version)


def replacement(name: str, version: str) -> str:
    """What to write for a flag or feature that `version` deprecates or lacks; empty when nothing replaces it."""
    found = _flag(name) or _find("tensorrt_api", "features", name)
    if found is None or _support(found, name, version).word == "yes":
        return ""
    other = _flag(found.instead) if found.instead.startswith("--") else None
    return "" if other and _support(other, other.name, version).word == "no" else found.instead


def _support(found: Feature | None, name: str, version: str) -> Support:
    if found is None:
        return Support("unverified", f"{name} is not in the table")
    unknown = release("tensorrt", version).unknown
    if found.since and order(version) < order(found.since):
        return Support.denied(f"{name} is there from {found.since} on", found)  # so it is in no older one, known or not
    if found.removed and order(version) >= order(found.removed):
        return Support.denied(f"{name} was removed in {found.removed}", found, unknown)
    if found.deprecated and order(version) >= order(found.deprecated):
        return Support("limited", f"{name} is deprecated since {found.deprecated}", found.source)
    return Support.granted(found, unknown)


def _flag(words: str) -> Feature | None:
    """The row of a flag: with its value where that has a row of its own, else without."""
    word = words.split(" ")[0]
    return _find("trtexec", "flags", word) or _find("trtexec", "flags", word.partition("=")[0])


def _find(file: str, table: str, name: str) -> Feature | None:
    return next((each for each in rows(Feature, file, table) if each.name == name), None)
