"""Two states of a project beside each other: accuracy, latency, size, precision, configuration, tools.

Everything is read from records; the only thing measured for it is latency, since two figures of different days tell
little. What is not known is `None`, with the reason among the notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mobuild.fingerprint import Fingerprint
from mobuild.gates import VALIDATIONS
from mobuild.metrics.paired import paired
from mobuild.store import Record

SCHEMA = 1
_ENGINE = "build_engine"
_PARTS = ("params", "code", "inputs")


@dataclass(frozen=True)
class Node:
    """One node at one side; `record` is None where it is not in the cache."""

    kind: str
    state: str
    reasons: tuple[str, ...] = ()
    record: Record | None = None
    code: Mapping[str, str] = field(default_factory=dict)  # module → digest
    code_files: Mapping[str, str] = field(default_factory=dict)  # module → its file; empty for a run
    content: str | None = None  # of a file of the user's: its digest
    scores: Mapping[str, Any] = field(default_factory=dict)  # of a validation: `samples_digest`, `scores` by metric


@dataclass(frozen=True)
class Side:
    """One state of the project. `keys` are the resolved ones with the file that set each; None for a run."""

    name: str  # as it was asked for
    told: str  # `v1.3 (commit 3f2a1b90)`, `the working tree`, `run 2026…`
    nodes: Mapping[str, Node]
    keys: Mapping[str, tuple[Any, str]] | None = None
    words: str = ""  # what builds what is missing there

    @property
    def missing(self) -> list[str]:
        """The nodes that are not in the cache."""
        return [name for name, node in self.nodes.items() if node.record is None and node.state != "fresh"]


def pairs(a: Side, b: Side) -> dict[str, str]:
    """Node of `a` → the same of `b`: by name, and where just one of a kind is left on each side, by kind."""
    found = {name: name for name in a.nodes if name in b.nodes}
    left, right = ([name for name in side.nodes if name not in found] for side in (a, b))
    for name in left:
        kind = a.nodes[name].kind
        same = [one for one in right if b.nodes[one].kind == kind]
        if len(same) == 1 and [a.nodes[one].kind for one in left].count(kind) == 1:
            found[name] = same[0]
    return found


def comparison(a: Side, b: Side, latency: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """All that can be told as data; `latency` is what was measured of the engines here, or why not, by node of `a`."""
    matched = pairs(a, b)
    both = [(name, a.nodes[name], b.nodes[other]) for name, other in matched.items()]
    return {
        "a": {"name": a.name, "told": a.told},
        "b": {"name": b.name, "told": b.told},
        "accuracy": [row for name, old, new in both if old.kind in VALIDATIONS for row in _accuracy(name, old, new)],
        "latency": [{"node": name, **found} for name, found in latency.items()] + list(_recorded(both)),
        "size": [
            {"node": name, "a_bytes": _size(old), "b_bytes": _size(new)}
            for name, old, new in both
            if old.kind == _ENGINE
        ],
        "precision": [
            {"node": name, "a": _precision(old), "b": _precision(new)} for name, old, new in both if old.kind == _ENGINE
        ],
        "configuration": _configuration(a, b, both),
        "tools": list(_tools(a, b)),
        "notes": list(_notes(a, b, matched)),
    }


def _accuracy(name: str, old: Node, new: Node) -> Iterator[dict[str, Any]]:
    before, after = (_measured(one) for one in (old, new))
    devices = [one.get("device") for one in (before, after)]
    note = ", ".join(f"{side} by proxy" for side, device in zip("ab", devices, strict=True) if device == "proxy")
    for metric in dict.fromkeys([*before.get("metrics", {}), *after.get("metrics", {})]):
        first, second = (one.get("metrics", {}).get(metric) or {} for one in (before, after))
        better = (second or first).get("better", "higher")
        row = _row(name, metric, better, first.get("value"), second.get("value"), note)
        yield {**row, "paired": _paired(metric, better, old, new)}
    for output in dict.fromkeys([*before.get("tensors", {}), *after.get("tensors", {})]):
        first, second = (one.get("tensors", {}).get(output, {}).get("cosine_mean") for one in (before, after))
        yield {**_row(name, f"cosine of {output!r}", "higher", first, second, note), "paired": None}


def _row(node: str, metric: str, better: str, old: Any, new: Any, note: str) -> dict[str, Any]:
    delta = new - old if old is not None and new is not None else None
    return {"node": node, "metric": metric, "better": better, "a": old, "b": new, "delta": delta, "note": note}


def _paired(metric: str, better: str, old: Node, new: Node) -> dict[str, Any] | None:
    """Sample by sample, where both sides judged the same samples and kept each score; the interval is of b - a."""
    digests = [one.scores.get("samples_digest") for one in (old, new)]
    each = [one.scores.get("scores", {}).get(metric) or [] for one in (old, new)]
    if not digests[0] or digests[0] != digests[1] or not each[0] or len(each[0]) != len(each[1]):
        return None
    sign = 1 if better == "higher" else -1
    found = paired([sign * one for one in each[0]], [sign * one for one in each[1]])
    low, high = sorted(-sign * one for one in found["interval"]) if found["interval"] else (None, None)
    return {**found, "interval": None if low is None else [low, high]}


def _recorded(both: list[tuple[str, Node, Node]]) -> Iterator[dict[str, Any]]:
    """Latencies that nodes of both sides measured on their own, on whatever machine that was."""
    for name, old, new in both:
        before, after = (_measured(one) for one in (old, new))
        for key in before:
            if key.endswith("_ms") and all(isinstance(one.get(key), (int, float)) for one in (before, after)):
                yield {"node": name, "what": key, "a_ms": before[key], "b_ms": after[key], "recorded": True}


def _measured(node: Node) -> Mapping[str, Any]:
    return node.record.measurements if node.record else {}


def _size(node: Node) -> int | None:
    return node.record.artifact.size_bytes if node.record else None


def _precision(node: Node) -> str | None:
    """What was asked for, and what is in the engine where that is more."""
    if node.record is None:
        return None
    asked, found = node.record.fingerprint.params.get("precision", ""), _measured(node)
    types = found.get("engine_precision") or found.get("precision") or []
    return f"{asked} ({', '.join(types)})" if list(types) not in ([], [asked]) else str(asked)


def _configuration(a: Side, b: Side, both: list[tuple[str, Node, Node]]) -> list[dict[str, str]]:
    """Keys that resolve differently; of runs, which have none, what nodes were made of."""
    if a.keys is not None and b.keys is not None:
        absent: tuple[Any, str] = ("-", "")
        names = sorted(a.keys.keys() | b.keys.keys())
        found = [(name, a.keys.get(name, absent), b.keys.get(name, absent)) for name in names]
        rows = [
            {"place": new[1] or old[1], "key": name, "a": str(old[0]), "b": str(new[0])}
            for name, old, new in found
            if old[0] != new[0]
        ]
        return rows + list(_contents(both))
    return [
        {"place": name, "key": change.subject, "a": change.old, "b": change.new}
        for name, old, new in both
        if old.record and new.record
        for change in _part(new.record.fingerprint).changes_since(_part(old.record.fingerprint))
    ]


def _contents(both: list[tuple[str, Node, Node]]) -> Iterator[dict[str, str]]:
    """Code and files that differ, which no key tells."""
    for name, old, new in both:
        for module in sorted(old.code.keys() | new.code.keys()):
            before, after = old.code.get(module, "-"), new.code.get(module, "-")
            if before != after:
                file = {**old.code_files, **new.code_files}.get(module, "")
                where = {"where": file} if file and file != module else {}
                yield {"place": name, "key": f"code.{module}", "a": before[:8], "b": after[:8], **where}
        if old.content and new.content and old.content != new.content:
            yield {"place": name, "key": "content", "a": old.content[:8], "b": new.content[:8]}


def _part(whole: Fingerprint) -> Fingerprint:
    """Without tools, which have a table of their own."""
    return Fingerprint(whole.kind, whole.revision, whole.params, whole.inputs, whole.code)


def _tools(a: Side, b: Side) -> Iterator[dict[str, str]]:
    old, new = (_versions(side) for side in (a, b))
    for tool in sorted(old.keys() | new.keys()):
        if old.get(tool) != new.get(tool):
            yield {"tool": tool, "a": old.get(tool, "-"), "b": new.get(tool, "-")}


def _versions(side: Side) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for node in side.nodes.values():
        if node.record:
            seen = {"mobuild": node.record.seen.get("mobuild", "-"), **node.record.fingerprint.toolchain}
            for tool, version in seen.items():
                found.setdefault(tool, set()).add(version)
    return {tool: ", ".join(sorted(versions)) for tool, versions in found.items() if versions != {"-"}}


def _notes(a: Side, b: Side, matched: Mapping[str, str]) -> Iterator[str]:
    for name, other in matched.items():
        if name != other:
            yield f"{name!r} of {a.name} is compared with {other!r} of {b.name}, the only other one of its kind"
    has_sources = a.keys is not None and b.keys is not None  # a run does not tell of the user's files
    for side, known in ((a, set(matched)), (b, set(matched.values()))):
        alone = [name for name, node in side.nodes.items() if name not in known]
        if alone := [name for name in alone if has_sources or side.nodes[name].kind != "source"]:
            yield f"only in {side.name}: {', '.join(alone)}"
        if side.missing:
            yield f"not run at {side.name}: {', '.join(_missing(name, side.nodes[name]) for name in side.missing)}"
            yield from [side.words] * bool(side.words)


def _missing(name: str, node: Node) -> str:
    """With the reason, unless it is that of a node before it."""
    return name if node.state == "waiting" or not node.reasons else f"{name} ({node.state}: {'; '.join(node.reasons)})"
