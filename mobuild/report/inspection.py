"""What `mobuild inspect` tells of a file, as data and as lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mobuild.report.documents import SCHEMA, record_document
from mobuild.report.naming import Names, Place
from mobuild.store import Store
from mobuild.store.finding import Match, Subject, members
from mobuild.units import about

_LISTED = ("parameters", "code", "tools", "measurements", "onnx", "seen")
_TYPE = {"()": "type, revision"}  # of a nested dataclass, as a fingerprint writes it
_LONG = ("operators", "ranges", "packages")  # of an ONNX summary, of an image: for machines


def document(store: Store, subject: Subject) -> dict[str, Any]:
    """All that is known, `"schema": 1`; the first match of the subject, or else its sidecar, tells it."""
    names = Names(store)
    match = told_by(subject)
    known = record_document(match.record) if match else dict(subject.sidecar or {})
    fingerprint = known.pop("fingerprint", {})
    key = str(known.get("key", ""))
    rebuilt = store.rebuilds.get(match.record.key) if match else None
    others = [one for one in subject.matches if one is not match]
    nodes = _nodes(names, match, subject)
    return {
        "schema": SCHEMA,
        "path": str(subject.path),
        "is": match.role if match else "artifact",
        "nodes": nodes,
        **known,
        "revision": fingerprint.get("revision"),
        "inputs": _inputs(
            store, names, key, fingerprint.get("inputs", {}), {(one["recipe"], one["variant"]) for one in nodes}
        ),
        "parameters": fingerprint.get("params", {}),
        "code": fingerprint.get("code", {}),
        "tools": fingerprint.get("toolchain", {}),
        "seen": dict(match.record.seen) if match else {},
        "determinism": rebuilt.word if rebuilt else None,
        "pins": _pins(store, match),
        "also": [f"{names.label(one.record)} ({one.role}, key {one.record.key})" for one in others],
        "from": _sources(store, match, subject),
        "notes": list(subject.notes),
        "key": key,
    }


def told_by(subject: Subject) -> Match | None:
    """The record to tell of; None where the sidecar knows better: equal bytes may come of other work."""
    if not subject.matches:
        return None
    best = subject.matches[0]
    return best if not subject.sidecar or subject.sidecar["key"] == best.record.key else None


def _sources(store: Store, match: Match | None, subject: Subject) -> list[str]:
    """Where it was read: the record, the sidecar."""
    paths = [store.records.path(match.record)] if match else []
    return [str(path) for path in dict.fromkeys([*paths, subject.source]) if path and path.exists()]


def _nodes(names: Names, match: Match | None, subject: Subject) -> list[dict[str, str]]:
    """Every node of a recipe that stands for it, by the sidecar and by the refs."""
    rows = []
    if subject.sidecar:
        rows.append({name: str(subject.sidecar[name]) for name in ("recipe", "variant", "node")})
    for ref in names.of(match.record.key) if match else ():
        rows.append({"recipe": ref.recipe, "variant": ref.variant, "node": ref.node})
    return [row for i, row in enumerate(rows) if row not in rows[:i]]


def _inputs(
    store: Store, names: Names, key: str, digests: Mapping[str, Any], beside: Collection[Place]
) -> dict[str, dict[str, str]]:
    """Role → digest of what the work of `key` got, and the node that made it; empty for a file of the user's, which
    the store does not hold, and where only variants other than those `beside` it made the same bytes."""
    makers: dict[str, str] = {}
    copiers: dict[str, str] = {}  # what gives out the very bytes that it was given has not made them
    for found in store.records.all():
        if found.record and found.record.key != key:
            label, given = names.label(found.record, beside), set(found.record.fingerprint.inputs.values())
            made = {found.record.artifact.digest: label}
            made |= {digest: f"{label}/{name}" for name, digest in members(store, found.record).items()}
            for digest, maker in made.items() if label else ():
                (copiers if digest in given else makers).setdefault(digest, maker)
    found_by = {**copiers, **makers}
    return {role: {"digest": str(each), "from": found_by.get(str(each), "")} for role, each in digests.items()}


def _pins(store: Store, match: Match | None) -> list[str]:
    if match is None:
        return []
    name = store.records.name(match.record)
    return [pin.name for pin in store.pins.all() if any(one.record == name for one in pin.artifacts)]


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """The document for people."""
    yield told["path"]
    for name, text in _heads(told):
        yield f"  {name:12} {text}"
    for name, one in told["inputs"].items():
        yield f"  {'input ' + name:12} {one['digest']}  {one['from'] or 'a file that the cache does not hold'}"
    for condition in told.get("conditions", ()):
        yield f"  condition    {condition['kind']} {condition['name']} = {condition['value']}"
    for warning in told.get("warnings", ()):
        yield f"  warning      {warning}"
    for section in _LISTED:
        if values := {key: value for key, value in told.get(section, {}).items() if key not in _LONG}:
            yield f"  {section}"
            yield from _nested(values, "    ")
    yield from (f"  note         {text}" for text in told["notes"])
    yield from (f"  from         {path}" for path in told["from"])


def _heads(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "is", told["is"]
    for node in told["nodes"]:
        yield "node", f"{node['recipe']}/{node['variant']} {node['node']}"
    yield "kind", f"{told['kind']}, revision {told['revision']}"
    yield "key", told["key"]
    yield "digest", f"{told['digest']} ({about(told['size_bytes'])})"
    yield "sha256", told["sha256"]
    yield "built", f"{told['created']} in {told['seconds']:.3f} s, {told['peak_rss_mib']:.0f} MiB at most"
    yield "observed by", ", ".join(told["observed_by"]) or "nobody"
    if told["determinism"]:
        yield "built again", told["determinism"]
    for pin in told["pins"]:
        yield "pin", pin
    for other in told["also"]:
        yield "the same as", other


def _nested(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield f"{indent}{_TYPE.get(key, key)}:"
            yield from _nested(item, indent + "  ")
        else:
            yield f"{indent}{_TYPE.get(key, key)}: {_text(item)}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(item)}" for key, item in value.items()) or "-"
    return ", ".join(map(_text, value)) if isinstance(value, (list, tuple)) else str(value)
