"""Rows of the arrays in an `.npz` file, one at a time, and nothing that is pickled.

`numpy.load` reads an array of the archive whole; a set of images need not fit into memory. The format is
NumPy Enhancement Proposal 1; an archive is a ZIP file with one `.npy` member for each array.
"""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Iterator, Tuple

from mobuild.errors import NodeFailed

Rows = Tuple[Tuple[int, ...], Iterator[Any]]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """One mapping of array names to rows for each index of the first axis.

    Raises:
        NodeFailed: no `.npz` file, a pickled array, arrays without rows or of different lengths.
    """
    with ExitStack() as stack:
        arrays = {name: _rows(path, name, stream) for name, stream in _members(path, stack).items()}
        counts = {name: shape[0] for name, (shape, _) in arrays.items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name!r} {count}" for name, count in sorted(counts.items()))
            raise NodeFailed(f"'{path}': expected one number of samples in all arrays, found {listed}")
        for _ in range(next(iter(counts.values()), 0)):
            yield {name: next(values) for name, (_, values) in arrays.items()}


def _members(path: Path, stack: ExitStack) -> dict[str, IO[bytes]]:
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
    except zipfile.BadZipFile as error:
        raise NodeFailed(
            f"'{path}': expected an .npz archive, found another file",
            "write it with numpy.savez(path, input_name=array, label=labels); pickled files are refused",
        ) from error
    names = sorted(archive.namelist())
    return {name[:-4] if name.endswith(".npy") else name: stack.enter_context(archive.open(name)) for name in names}


def _rows(path: Path, name: str, stream: IO[bytes]) -> Rows:
    shape, is_fortran, dtype = _header(path, name, stream)
    if dtype.hasobject:
        raise NodeFailed(
            f"'{path}': array {name!r} holds pickled Python objects, which are refused",
            "ragged samples go one file each into a folder (arrays:), or into a jsonl file with a transform",
        )
    if not shape:
        raise NodeFailed(
            f"'{path}': array {name!r}: expected samples along a first axis, found a single value",
            "every array of the file has the batch first",
        )
    return shape, _whole(stream, shape, dtype) if is_fortran else _streamed(path, name, stream, shape, dtype)


def _header(path: Path, name: str, stream: IO[bytes]) -> Any:
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(stream)
        return npy.read_array_header_1_0(stream) if version == (1, 0) else npy.read_array_header_2_0(stream)
    except (ValueError, zipfile.BadZipFile) as error:
        raise NodeFailed(f"'{path}': array {name!r} cannot be read: {error}") from error


def _streamed(path: Path, name: str, stream: IO[bytes], shape: tuple[int, ...], dtype: Any) -> Iterator[Any]:
    import numpy as np

    count = 1
    for size in shape[1:]:
        count *= size
    for index in range(shape[0]):
        data = stream.read(count * dtype.itemsize)
        if len(data) < count * dtype.itemsize:
            raise NodeFailed(f"'{path}': array {name!r} ends in the middle of row {index} of {shape[0]}")
        yield np.frombuffer(data, dtype=dtype).reshape(shape[1:])


def _whole(stream: IO[bytes], shape: tuple[int, ...], dtype: Any) -> Iterator[Any]:
    """Rows of an array in Fortran order, which lie scattered over the file."""
    import numpy as np

    array = np.frombuffer(stream.read(), dtype=dtype).reshape(shape[::-1]).T
    return iter(np.ascontiguousarray(array))
