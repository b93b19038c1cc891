"""The files of one layer before they are written: by path, with their parents, in one order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Iterator, Union

from mobuild.errors import NodeFailed

Content = Union[bytes, Path]


@dataclass(frozen=True)
class Entry:
    """One file, folder or symbolic link. Of a file `content` is its bytes or where they lie."""

    path: str  # relative, with `/`
    mode: int
    content: Content | None = None
    target: str = ""

    @property
    def is_folder(self) -> bool:
        return self.content is None and not self.target

    @property
    def size_bytes(self) -> int:
        if isinstance(self.content, Path):
            return self.content.stat().st_size
        return len(self.content or b"")


class Tree:
    """Entries by path. Whoever adds a path twice must mean the same: a folder twice, or equal bytes."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def file(self, path: str, content: Content, executable: bool = False) -> None:
        self._add(Entry(plain(path), 0o755 if executable else 0o644, content))

    def link(self, path: str, target: str) -> None:
        self._add(Entry(plain(path), 0o777, target=target))

    def folder(self, path: str, mode: int = 0o755) -> None:
        self._add(Entry(plain(path), mode))

    def copy(self, source: Path, path: str) -> None:
        """A file, or a folder with all below it, under `path`. Links inside are followed."""
        if source.is_file():
            self.file(path, source, bool(source.stat().st_mode & 0o100))
            return
        self.folder(path)
        for each in sorted(source.iterdir()):
            if each.name != "__pycache__":
                self.copy(each, f"{path}/{each.name}")

    def entries(self) -> Iterator[Entry]:
        """All entries, sorted, each after the folders that it lies in."""
        every = dict(self._entries)
        for path in self._entries:
            for parent in PurePosixPath(path).parents:
                if str(parent) != ".":
                    above = every.setdefault(str(parent), Entry(str(parent), 0o755))
                    if not above.is_folder:
                        raise NodeFailed(f"image: '/{path}' lies below '/{parent}', which is no folder")
        yield from (every[path] for path in sorted(every, key=lambda path: path.split("/")))

    def _add(self, entry: Entry) -> None:
        known = self._entries.setdefault(entry.path, entry)
        if known != entry and not _is_equal(known, entry):
            raise NodeFailed(f"image: '/{entry.path}' is there twice, with different content")


def plain(path: str) -> str:
    """A path inside the image, without `./`.

    Raises:
        NodeFailed: it is absolute, or leads out of the image.
    """
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise NodeFailed(f"image: expected a path inside the image, found {path!r}")
    return str(pure)


def _is_equal(one: Entry, other: Entry) -> bool:
    if one.content is None or other.content is None:
        return one.is_folder and other.is_folder
    return _bytes(one.content) == _bytes(other.content)


def _bytes(content: Content) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else content
