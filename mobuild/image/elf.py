"""What an ELF file needs of others, read from its dynamic section (System V ABI, chapters 4 and 5; LSB 10.7).

A reader of our own, since this is all that is wanted, and since it must read files of other machines and of no known
compiler. Section headers are not used: `strip` may drop them, while the loader cannot do without segments.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Mapping

MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_EXECUTABLE, _SHARED = 2, 3
_NEEDED, _STRINGS, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_DEFINED, _DEFINED_COUNT, _WANTED, _WANTED_COUNT = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_WEAK = 2  # a version that may be missing
_MAGIC = b"\x7fELF"


class Malformed(ValueError):
    """The file begins as an ELF file and does not go on as one."""


@dataclass(frozen=True)
class Elf:
    """One executable or shared library. `wanted` holds the versions of symbols by the library that must have them."""

    machine: str
    needed: tuple[str, ...] = ()
    soname: str = ""
    interpreter: str = ""
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    wanted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defined: tuple[str, ...] = ()


def read(path: Path) -> Elf | None:
    """The ELF file at `path`; None for a file that is none, or an object file, which nothing loads.

    Raises:
        Malformed: it is cut off or damaged.
    """
    with open(path, "rb") as file:
        if file.read(4) != _MAGIC:
            return None
        try:
            return _Reader(file).elf()
        except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
            raise Malformed(f"'{path}': begins as an ELF file, and is cut off or damaged: {error}") from error


class _Reader:
    def __init__(self, file: Any) -> None:
        self._file = file
        head = self._at(0, 20)
        self._is_wide = head[4] == 2
        self._order = ">" if head[5] == 2 else "<"
        self._type, machine = self._unpack("HH", head[16:20])
        self._machine = MACHINES.get(machine, f"machine {machine}")
        self._segments = list(self._read_segments())

    def elf(self) -> Elf | None:
        if self._type not in (_EXECUTABLE, _SHARED):
            return None
        interpreter = ""
        tags: dict[int, list[int]] = {}
        for kind, offset, _, size in self._segments:
            if kind == _INTERPRETER:
                interpreter = self._at(offset, size).rstrip(b"\0").decode()
            elif kind == _DYNAMIC:
                tags = self._tags(offset, size)
        if not tags:
            return Elf(self._machine, interpreter=interpreter)
        texts = self._offset(tags[_STRINGS][0]) if _STRINGS in tags else 0

        def named(tag: int) -> tuple[str, ...]:
            return tuple(self._text(texts + value) for value in tags.get(tag, ()))

        return Elf(
            machine=self._machine,
            needed=named(_NEEDED),
            soname="".join(named(_SONAME)),
            interpreter=interpreter,
            rpath=tuple(part for text in named(_RPATH) for part in text.split(":")),
            runpath=tuple(part for text in named(_RUNPATH) for part in text.split(":")),
            wanted=self._wanted(tags, texts),
            defined=self._defined(tags, texts),
        )

    def _read_segments(self) -> Iterator[tuple[int, int, int, int]]:
        """Kind, offset, address and size of each segment."""
        start = self._one("Q", 32) if self._is_wide else self._one("I", 28)
        each, count = self._unpack("HH", self._at(54 if self._is_wide else 42, 4))
        for number in range(count):
            raw = self._at(start + number * each, each)
            if self._is_wide:
                kind, _, offset, address, _, size = self._unpack("IIQQQQ", raw[:40])
            else:
                kind, offset, address, _, size = self._unpack("IIIII", raw[:20])
            yield kind, offset, address, size

    def _tags(self, offset: int, size: int) -> dict[int, list[int]]:
        entry = "QQ" if self._is_wide else "II"
        width = struct.calcsize("<" + entry)
        found: dict[int, list[int]] = {}
        for place in range(offset, offset + size - width + 1, width):
            tag, value = self._unpack(entry, self._at(place, width))
            if tag == 0:
                break
            found.setdefault(tag, []).append(value)
        return found

    def _wanted(self, tags: Mapping[int, list[int]], texts: int) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        place = self._offset(tags[_WANTED][0]) if _WANTED in tags else 0
        for _ in range(tags.get(_WANTED_COUNT, [0])[0]):
            _, count, library, first, following = self._unpack("HHIII", self._at(place, 16))
            versions, entry = [], place + first
            for _ in range(count):
                _, flags, _, name, step = self._unpack("IHHII", self._at(entry, 16))
                if not flags & _WEAK:
                    versions.append(self._text(texts + name))
                entry += step
            found[self._text(texts + library)] = tuple(versions)
            place += following
        return found

    def _defined(self, tags: Mapping[int, list[int]], texts: int) -> tuple[str, ...]:
        found = []
        place = self._offset(tags[_DEFINED][0]) if _DEFINED in tags else 0
        for _ in range(tags.get(_DEFINED_COUNT, [0])[0]):
            raw = self._at(place, 20)
            first, following = self._unpack("II", raw[12:20])
            found.append(self._text(texts + self._one("I", place + first)))
            place += following
        return tuple(found)

    def _offset(self, address: int) -> int:
        """Where in the file that lies which is loaded at `address`."""
        for kind, offset, start, size in self._segments:
            if kind == _LOAD and start <= address < start + size:
                return offset + address - start
        raise IndexError(f"no segment holds the address {address:#x}")

    def _text(self, offset: int) -> str:
        raw = b""
        while b"\0" not in raw:
            self._file.seek(offset + len(raw))
            block = self._file.read(256)
            if not block:
                raise IndexError("a name does not end")
            raw += block
        return raw[: raw.index(b"\0")].decode()

    def _one(self, code: str, offset: int) -> int:
        return int(self._unpack(code, self._at(offset, struct.calcsize("<" + code)))[0])

    def _at(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        raw: bytes = self._file.read(size)
        return raw

    def _unpack(self, code: str, raw: bytes) -> tuple[Any, ...]:
        return struct.unpack(self._order + code, raw)
