"""Tensors as the Open Inference Protocol writes them: datatypes, raw bytes, and lists of JSON.

Raw bytes are little-endian, row by row, without padding; an element of BYTES is its length in four bytes, then its
UTF-8 (Triton: binary tensor data extension). Whatever does not fit is a `Malformed` with the values in it.
"""

from __future__ import annotations

import struct
from typing import Any, Sequence

DATATYPES = {
    "bool": "BOOL",
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "bfloat16": "BF16",
    "object": "BYTES",
}
"""NumPy's name → the protocol's."""

_DTYPES = {datatype: dtype for dtype, datatype in DATATYPES.items()}
_LENGTH = struct.Struct("<I")


class Malformed(ValueError):
    """What was sent is no tensor of that datatype and shape, or no request."""


def element_count(shape: Sequence[int]) -> int:
    """How many elements a shape has; exact where NumPy's integers would overflow."""
    count = 1
    for size in shape:
        count *= size
    return count


def from_bytes(datatype: str, shape: Sequence[int], raw: Any) -> Any:
    """The array in a buffer, without a copy where the buffer is aligned; read-only then."""
    import numpy

    if datatype == "BYTES":
        return _shaped(numpy.array(_texts(raw, element_count(shape)), dtype=object), shape)
    dtype = _numpy(datatype)
    expected = element_count(shape) * dtype.itemsize
    if len(raw) != expected:
        raise Malformed(f"expected {expected} bytes for {datatype} of shape {list(shape)}, found {len(raw)}")
    array = numpy.frombuffer(raw, numpy.uint8)
    if datatype == "BOOL" and array.size and array.max() > 1:
        raise Malformed(f"expected bytes 0 and 1 for BOOL, found {array.max()}")
    array = _shaped(array.view(dtype) if array.size else numpy.empty(0, dtype), shape)
    return array if array.flags.aligned else array.copy()  # it begins wherever the JSON before it ends


def from_list(datatype: str, shape: Sequence[int], values: Any) -> Any:
    """The array that a list of JSON holds, flat or nested."""
    import numpy

    if not isinstance(values, list):
        raise Malformed(f"expected a list in 'data', found {type(values).__name__}")
    try:
        found = numpy.array(values, dtype=object if datatype == "BYTES" else None)
    except (ValueError, OverflowError, RecursionError) as error:
        raise Malformed(f"'data' is no regular list of numbers: {error}") from error
    if found.size != element_count(shape):
        raise Malformed(f"expected {element_count(shape)} elements for shape {list(shape)}, found {found.size}")
    if datatype == "BYTES":
        _refuse_other_than_texts(found)
        return _shaped(found, shape)
    return _shaped(_cast(found, values, datatype), shape)


def _shaped(array: Any, shape: Sequence[int]) -> Any:
    """The array in a shape of as many elements; NumPy has none of some shapes without elements."""
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        raise Malformed(f"no array has the shape {list(shape)}: {error}") from error


def _refuse_other_than_texts(found: Any) -> None:
    for number, each in enumerate(found.flat):
        if not isinstance(each, str):
            raise Malformed("expected strings in 'data' for BYTES")
        try:
            each.encode()
        except UnicodeEncodeError as error:  # half of a pair: "\ud800"
            raise Malformed(f"element {number} of 'data' has no UTF-8") from error


def to_bytes(array: Any) -> Any:
    """The raw bytes of an array, as a buffer."""
    import numpy

    if array.dtype == object:
        coded = (each if isinstance(each, bytes) else str(each).encode() for each in array.flat)
        return b"".join(_LENGTH.pack(len(each)) + each for each in coded)
    return numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).data


def to_list(array: Any) -> list[Any]:
    """The elements of an array for JSON, flat.

    Raises:
        Malformed: it holds what JSON has no number for.
    """
    import numpy

    if array.dtype == object:
        return [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in array.flat]
    if array.dtype.kind not in "biu":
        array = array.astype(numpy.float32) if array.dtype.itemsize < 4 else array
        if not numpy.isfinite(array).all():
            raise Malformed("it holds NaN or infinity, which JSON cannot say: ask for it with 'binary_data': true")
    listed: list[Any] = array.reshape(-1).tolist()
    return listed


def _numpy(datatype: str) -> Any:
    import numpy

    if datatype == "BF16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise Malformed("BF16 needs the package ml_dtypes, which is not here") from error
        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(_DTYPES[datatype])


def _texts(raw: Any, count: int) -> list[str]:
    """`count` strings, each after its length."""
    texts: list[str] = []
    place = 0
    while place < len(raw):
        begin = place + _LENGTH.size
        place = begin + _LENGTH.unpack_from(raw, place)[0] if begin <= len(raw) else len(raw) + 1
        if place > len(raw):
            raise Malformed(f"BYTES end within element {len(texts)}")
        try:
            texts.append(str(bytes(raw[begin:place]), "utf-8"))
        except UnicodeDecodeError as error:
            raise Malformed(f"element {len(texts)} of BYTES is no UTF-8: {error}") from error
    if len(texts) != count:
        raise Malformed(f"expected {count} elements of BYTES, found {len(texts)}")
    return texts


def _cast(found: Any, values: Any, datatype: str) -> Any:
    """`found` as its datatype; never truncated, wrapped or overflown in silence."""
    import numpy

    dtype = _numpy(datatype)
    if not found.size:
        return numpy.empty(0, dtype)
    if datatype == "UINT64" and found.dtype.kind in "fO":
        found = _exact(values)  # NumPy makes floats of integers on both sides of 2**63
    if dtype.kind not in "biu" and found.dtype.kind == "O":
        found = _floats(found, datatype)  # NumPy has no integer of that size
    expected = {"b": "b", "i": "iu", "u": "iu"}.get(dtype.kind, "iuf")
    if found.dtype.kind not in expected:
        words = {"b": "true and false", "iu": "integers in its range"}.get(expected, "numbers")
        raise Malformed(f"expected {words} in 'data' for {datatype}")
    if dtype.kind in "iu":
        least, most, limits = int(found.min()), int(found.max()), numpy.iinfo(dtype)
        if least < limits.min or most > limits.max:
            raise Malformed(f"{least if least < limits.min else most} is outside {datatype}")
    with numpy.errstate(over="ignore"):
        cast = found.astype(dtype)
    if dtype.kind not in "biu" and not numpy.isfinite(cast.astype(numpy.float64)).all():
        raise Malformed(f"a number in 'data' is outside {datatype}")
    return cast


def _floats(found: Any, datatype: str) -> Any:
    """Integers of any size, and what lies among them, as floating-point numbers; what is no number as it is."""
    import numpy

    if not all(type(each) in (int, float) for each in found.flat):
        return found
    try:
        return found.astype(numpy.float64)
    except OverflowError as error:
        raise Malformed(f"a number in 'data' is outside {datatype}") from error


def _exact(values: Any) -> Any:
    import numpy

    whole = numpy.array(values, dtype=object)
    is_exact = all(type(each) is int and 0 <= each < 1 << 64 for each in whole.flat)
    return whole.astype(numpy.uint64) if is_exact else whole
