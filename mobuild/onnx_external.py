"""Which external data files an ONNX model names, read from the protobuf wire format alone.

A source must count its data files before onnx may be imported, and a model of many gigabytes must not be
read to do so: tensors are skipped by seeking. Follows onnx.proto (ModelProto, GraphProto, NodeProto,
AttributeProto, TensorProto; data_location 1 is EXTERNAL) and the protobuf encoding guide.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from mobuild.errors import SourceError

# message → {field number: message of the field}; what is not here cannot hold a tensor.
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_DATA_LOCATION, _EXTERNAL = 14, 1
_SMALL_BYTES = 1 << 16
# Tags of ModelProto: the number that a model begins with, and what may follow it in the order of writing.
_IR_VERSION, _AFTER_IR_VERSION = 0x08, (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A)


def is_model(path: Path, name: str = "") -> bool:
    """Whether a file, of that `name` where its path does not tell it, is to be read as an ONNX model: by its ending, or
    since it begins as one and names external data. Models are called `.pb`, too."""
    if (name or path.name).lower().endswith(".onnx"):
        return True
    with open(path, "rb") as stream:
        start = stream.read(3)
    if len(start) < 3 or start[0] != _IR_VERSION or start[2] not in _AFTER_IR_VERSION:
        return False
    try:
        return bool(locations(path))
    except SourceError:
        return False


def locations(model: Path) -> dict[str, int]:
    """The distinct `location`s of the external tensors of an ONNX file, sorted, as they are written there, each with
    the bytes that it holds at least: offset and length are optional (ONNX, ExternalData.md).

    Raises:
        SourceError: the file is cut short or is no protobuf.
    """
    found: dict[str, int] = {}
    with open(model, "rb") as stream:
        try:
            _walk(stream, "model", os.fstat(stream.fileno()).st_size, found)
        except (_Damaged, RecursionError) as error:
            raise SourceError(
                f"ONNX file '{model}': is damaged near byte {stream.tell()}: {error}",
                "export or copy it again",
            ) from error
    return dict(sorted(found.items()))


def files(model: Path) -> dict[str, Path]:
    """The external data files of a model by location, beside the model or beside what it links to.

    Raises:
        SourceError: a location leaves the model's folder, or the file is missing or cut short.
    """
    names = locations(model)
    for name in names:
        _check_inside(model, name)
    for folder in (model.parent, model.resolve().parent):
        places = {name: folder / name for name in names}
        missing = [path for path in places.values() if not path.is_file()]
        if not missing:
            _check_sizes(model, places, names)
            return places
    first = model.parent / next(name for name in names if not (model.parent / name).is_file())
    raise SourceError(
        f"ONNX file '{model}': its external data '{first}' is missing",
        "put it beside the model, under the name that the model has for it",
    )


def _check_sizes(model: Path, places: Mapping[str, Path], names: Mapping[str, int]) -> None:
    for name, path in places.items():
        size_bytes = path.stat().st_size
        if size_bytes < names[name]:
            raise SourceError(
                f"ONNX file '{model}': its external data '{path}' is cut short: expected at least {names[name]} bytes, "
                f"found {size_bytes}",
                "fetch or export both again",
            )


class _Damaged(Exception):
    pass


def _walk(stream: IO[bytes], message: str, end: int, found: dict[str, int]) -> None:
    """Walk one message up to the offset `end`; add where an external tensor lies, and ends, to `found`."""
    inner, is_external = _FIELDS[message], False
    place: dict[bytes, bytes] = {}
    for number, wire, value in _fields(stream, end):
        if wire == 2 and inner.get(number) == "entry":
            place.update(_entry(stream, value))
        elif wire == 2 and number in inner and not _cannot_hold(stream, inner[number], value):
            _walk(stream, inner[number], value, found)
        elif message == "tensor" and number == _DATA_LOCATION:
            is_external = value == _EXTERNAL
        if wire == 2:
            stream.seek(value)
    if is_external:
        location = os.fsdecode(place.get(b"location", b""))
        found[location] = max(found.get(location, 0), _number(place, b"offset") + _number(place, b"length"))


def _fields(stream: IO[bytes], end: int) -> Iterator[tuple[int, int, int]]:
    """(number, wire type, value or, for bytes, the offset behind them) of each field."""
    while stream.tell() < end:
        tag = _varint(stream)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            yield number, wire, _varint(stream)
        elif wire == 2:
            length = _varint(stream)
            if stream.tell() + length > end:
                raise _Damaged(f"a field of {length} bytes, {end - stream.tell()} are left")
            yield number, wire, stream.tell() + length
        elif wire in (1, 5):
            stream.seek(8 if wire == 1 else 4, os.SEEK_CUR)
        else:
            raise _Damaged(f"wire type {wire}")
    if stream.tell() > end:
        raise _Damaged("a field passes the end of its message")


def _cannot_hold(stream: IO[bytes], message: str, end: int) -> bool:
    """Whether a small node has no external tensor for sure: nodes are many, and walking each is slow."""
    start = stream.tell()
    if message != "node" or end - start > _SMALL_BYTES:
        return False
    found = b"location" in stream.read(end - start)
    stream.seek(start)
    return not found


def _entry(stream: IO[bytes], end: int) -> dict[bytes, bytes]:
    """A StringStringEntryProto as one key with its value."""
    entry = {}
    for number, wire, value in _fields(stream, end):
        if wire == 2:
            entry[number] = stream.read(value - stream.tell())
    return {entry.get(1, b""): entry.get(2, b"")}


def _number(place: Mapping[bytes, bytes], key: bytes) -> int:
    """0 where it is not said, or is no number, which whoever loads the model will tell."""
    word = place.get(key, b"")
    return int(word) if word.isdigit() and len(word) < 20 else 0


def _varint(stream: IO[bytes]) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise _Damaged("the file ends inside a field")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise _Damaged("a number of more than 64 bits")


def _check_inside(model: Path, name: str) -> None:
    parts = name.replace("\\", "/").split("/")
    if not name or name[0] in "/\\" or ".." in parts or "\0" in name or (len(name) > 1 and name[1] == ":"):
        raise SourceError(
            f"ONNX file '{model}': its external data location {name!r} leaves the model's folder",
            "save the model again with its data beside it",
        )
