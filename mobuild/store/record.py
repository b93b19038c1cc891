"""One record as a value and as JSON.

Reading checks every field that mobuild relies on, because the file may come from another machine or
from a damaged disk; a checksum shows damage that leaves it readable. `records` knows where the files lie.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from mobuild.errors import ConfigError, StoreError
from mobuild.fingerprint import Digest, Fingerprint, Key, canonical, digest_bytes
from mobuild.store.objects import Artifact
from mobuild.values import value

_SCHEMA = 2
_SORTED, _DECODER = json.JSONEncoder(sort_keys=True), json.JSONDecoder()
FILE_OF = "file of "
KINDS = ("file", "folder", "presence", "link", "environment", "module", "import", "distribution")


class Unreadable(Exception):
    """A record file that is no record, or not the one that belongs in its place."""


@value
class Condition:
    """One input that was observed while the node ran; the record is a hit only where it is the same."""

    kind: str  # one of KINDS
    name: str
    value: str  # a digest or version; '-' when it was absent


@value
class Record:
    """What the store remembers about one finished build of a node."""

    key: Key
    fingerprint: Fingerprint
    artifact: Artifact
    suffix: str  # file name ending of the artifact
    seconds: float  # wall time of the node's process
    measurements: Mapping[str, Any]
    onnx: Mapping[str, Any]  # summary of an ONNX artifact, else empty
    warnings: tuple[str, ...]
    conditions: tuple[Condition, ...]
    observed_by: tuple[str, ...]  # the observers that were on
    log: Digest | None
    peak_rss_mib: float
    created: str  # ISO 8601, UTC
    seen: Mapping[str, str]  # recorded, not keyed: driver, host, clocks, `file of <module>` for the code

    @property
    def code_files(self) -> dict[str, str]:
        """The file of each module of the code that counts, as far as it is recorded."""
        return {name.removeprefix(FILE_OF): file for name, file in self.seen.items() if name.startswith(FILE_OF)}


_LAYOUT = zlib.crc32(repr([list(each.__annotations__) for each in (Record, Artifact, Condition)]).encode())


def file_name(conditions: Sequence[Condition]) -> str:
    """`plain.json`, or the digest of the conditions; their order does not matter."""
    if not conditions:
        return "plain.json"
    rows = sorted([condition.kind, condition.name, condition.value] for condition in conditions)
    return digest_bytes(canonical(rows)) + ".json"


def encode(record: Record) -> bytes:
    """The record as JSON. Measurements may be infinite or NaN, in Python's spelling of JSON."""
    document = {"schema": _SCHEMA, **vars(record)}
    try:
        document = json.loads(json.dumps(document, default=_parts))  # as `decode` will see it: keys are strings
        document["checksum"] = _checksum(document)
        text = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False)
        return text.encode("utf-8", "backslashreplace")  # names of files that are no text become JSON's own escapes
    except (TypeError, ValueError) as error:
        kind = record.fingerprint.kind
        raise StoreError(f"record of kind {kind!r}: a measurement is no plain value: {error}") from error


def decode(data: bytes) -> Record:
    """The record that `encode` wrote.

    Raises:
        Unreadable: says what is wrong with it.
    """
    try:
        document = json.loads(data)
        if document["schema"] != _SCHEMA:
            raise Unreadable("it has another schema")
        if document.pop("checksum") != _checksum(document):
            raise Unreadable("its content changed")
        del document["schema"]
        return _record(document)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, ConfigError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def check_told(document: Mapping[str, Any]) -> None:
    """Whether what a sidecar tells of a record has the right types within, too.

    Raises:
        Unreadable: it has not.
    """
    try:
        _fingerprint(document["fingerprint"])
        for row in document["conditions"]:
            _condition(row)
        _texts([*document["warnings"], *document["observed_by"]])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, ConfigError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def brief(record: Record) -> str:
    """A record that `decode` has found right, without its fingerprint and without names, for `read_again`."""
    rows = [[*vars(one).values()] for one in record.conditions]
    told = {**vars(record), "fingerprint": None, "artifact": [*vars(record.artifact).values()], "conditions": rows}
    return json.dumps([_LAYOUT, *told.values()], separators=(",", ":"))


def read_again(text: str, fingerprint: Fingerprint) -> Record:
    """The record that `brief` wrote, whose key is that of `fingerprint`.

    Raises:
        ValueError: another version of mobuild wrote it.
    """
    told, _ = _DECODER.raw_decode(text)  # as `json.loads` does, without a look around the text
    if told[0] != _LAYOUT:
        raise ValueError("its fields are others")
    _, key, _, artifact, suffix, seconds, measurements, onnx, warnings, rows, observed_by, *rest = told
    conditions = tuple([Condition(*row) for row in rows])
    of_build = suffix, seconds, measurements, onnx, tuple(warnings), conditions, tuple(observed_by)
    return Record(key, fingerprint, Artifact(*artifact), *of_build, *rest)


def _parts(value: Any) -> Mapping[str, Any]:
    """The fields of what a record holds, for JSON."""
    if isinstance(value, Fingerprint):
        return value.document()
    if isinstance(value, (Artifact, Condition)):
        return vars(value)
    raise TypeError(f"a {type(value).__name__}")


def _checksum(document: Mapping[str, Any]) -> Digest:
    return digest_bytes(_SORTED.encode(document).encode())


def _record(document: dict[str, Any]) -> Record:
    fields = {
        **document,
        "fingerprint": _fingerprint(document["fingerprint"]),
        "artifact": _artifact(document["artifact"]),
        "conditions": tuple(_condition(row) for row in document["conditions"]),
        "warnings": tuple(_texts(document["warnings"])),
        "observed_by": tuple(_texts(document["observed_by"])),
    }
    record = Record(**fields)
    for mapping in (record.measurements, record.onnx, record.seen):
        _expect(mapping, dict)
    for text in (record.key, record.suffix, record.created, *record.seen.values()):
        _expect(text, str)
    if "/" in record.suffix or "\0" in record.suffix:  # it becomes a part of a file name below build/
        raise ValueError(f"{record.suffix!r} is no ending of a file name")
    if record.log is not None:
        _digest(record.log)
    for number in (record.seconds, record.peak_rss_mib):
        if not math.isfinite(_expect(number, (int, float))):
            raise ValueError(f"{number!r} is no finite number")
    return record


def _fingerprint(document: Any) -> Fingerprint:
    fingerprint = Fingerprint.from_document(_expect(document, dict))
    for mapping in (fingerprint.params, fingerprint.inputs, fingerprint.code, fingerprint.toolchain):
        _expect(mapping, dict)
    assert fingerprint.key  # what has none raises
    return fingerprint


def _artifact(document: Any) -> Artifact:
    artifact = Artifact(**_expect(document, dict))
    _digest(artifact.digest)
    _expect(artifact.sha256, str)
    _expect(artifact.size_bytes, int)
    _expect(artifact.is_folder, bool)
    return artifact


def _digest(text: Any) -> None:
    """It becomes a path, which must not lead out of the store."""
    if len(_expect(text, str)) != 32 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"{text!r} is no digest")


def _condition(document: Any) -> Condition:
    condition = Condition(**_expect(document, dict))
    if condition.kind not in KINDS:
        raise ValueError(f"{condition.kind!r} is no kind of condition")
    _texts([condition.name, condition.value])
    return condition


def _texts(values: Any) -> list[str]:
    return [_expect(value, str) for value in _expect(values, list)]


def _expect(value: Any, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} has the wrong type")
    return value
