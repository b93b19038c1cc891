"""Outputs of many samples on disk: written as they come, read without holding them in memory.

The file is an uncompressed `.npz`, which `numpy.load` opens: one array over all samples for each output,
or, where the shapes differ, one array per sample (`boxes/000017`), since padding would invent values.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from mobuild.errors import NodeFailed

_LOCAL_HEADER_BYTES = 30  # of a ZIP member, before its name (APPNOTE.TXT 4.3.7)
_CHUNK = 1 << 20


class Spool:
    """Takes the outputs of one sample after the other into files below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._columns: dict[str, _Column] = {}

    def add(self, outputs: Mapping[str, Any]) -> None:
        for name, array in outputs.items():
            if name not in self._columns:
                self._columns[name] = _Column(self._folder / f"{len(self._columns)}.raw")
            self._columns[name].add(name, array)

    def arrays(self) -> dict[str, Any]:
        """Output → array over all samples, or a list of arrays where their shapes differ."""
        return {name: column.array() for name, column in self._columns.items()}

    def save(self, path: Path) -> None:
        """Write the `.npz`; equal outputs give equal bytes."""
        with zipfile.ZipFile(path, "w") as archive:
            for name, column in self._columns.items():
                column.save(archive, name)


class _Column:
    """The values of one output, one sample after the other, and the shapes that they had."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._dtype: Any = None
        self._shapes: list[tuple[int, ...]] = []

    def add(self, name: str, array: Any) -> None:
        if self._dtype not in (None, array.dtype):
            raise NodeFailed(f"output {name!r}: expected type {self._dtype} as before, found {array.dtype}")
        self._dtype = array.dtype
        self._shapes.append(tuple(array.shape))
        with open(self._file, "ab") as stream:
            stream.write(array.tobytes())

    def array(self) -> Any:
        if len(set(self._shapes)) == 1:
            return _mapped(self._file, self._dtype, (len(self._shapes), *self._shapes[0]), 0)
        return [_mapped(self._file, self._dtype, shape, start) for shape, start in self._places()]

    def save(self, archive: zipfile.ZipFile, name: str) -> None:
        with open(self._file, "rb") as values:
            if len(set(self._shapes)) == 1:
                self._write(archive, name, (len(self._shapes), *self._shapes[0]), values)
                return
            for i, shape in enumerate(self._shapes):
                self._write(archive, f"{name}/{i:06d}", shape, values)

    def _write(self, archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], values: IO[bytes]) -> None:
        from numpy.lib import format as npy

        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        left = _size_bytes(self._dtype, shape)
        with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
            npy.write_array_header_1_0(member, header)
            while left:
                chunk = values.read(min(left, _CHUNK))
                member.write(chunk)
                left -= len(chunk)

    def _places(self) -> Iterator[tuple[tuple[int, ...], int]]:
        start = 0
        for shape in self._shapes:
            yield shape, start
            start += _size_bytes(self._dtype, shape)


def load(path: Path) -> dict[str, Any]:
    """What `Spool.save` wrote, as `Spool.arrays` gives it; the values stay on disk until they are used."""
    found: dict[str, Any] = {}
    with zipfile.ZipFile(path) as archive, open(path, "rb") as stream:
        for info in archive.infolist():
            name, slash, index = info.filename[: -len(".npy")].rpartition("/")
            array = _member(path, stream, info)
            if slash and index.isdigit() and len(index) >= 6:
                found.setdefault(name, []).append(array)
            else:
                found[info.filename[: -len(".npy")]] = array
    return found


def _member(path: Path, stream: IO[bytes], info: zipfile.ZipInfo) -> Any:
    from numpy.lib import format as npy

    stream.seek(info.header_offset)
    name_bytes, extra_bytes = struct.unpack("<HH", stream.read(_LOCAL_HEADER_BYTES)[26:])
    stream.seek(info.header_offset + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes)
    npy.read_magic(stream)
    shape, _, dtype = npy.read_array_header_1_0(stream)
    return _mapped(path, dtype, shape, stream.tell())


def _mapped(path: Path, dtype: Any, shape: tuple[int, ...], offset: int) -> Any:
    """The array in the file; a metric may change its copy in memory."""
    import numpy as np

    if not _size_bytes(dtype, shape):
        return np.zeros(shape, dtype)
    return np.memmap(str(path), dtype, "c", offset, shape).view(np.ndarray)


def _size_bytes(dtype: Any, shape: tuple[int, ...]) -> int:
    size: int = dtype.itemsize
    for axis in shape:
        size *= axis
    return size
