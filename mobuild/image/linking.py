"""Proves that every ELF file of a tree finds what it needs in the tree, as the loader would (ld.so(8)).

Read, not run: `ldd` would run code of the image, on this machine, and knows no other root. What a program opens by
name at run time (dlopen) is not in any header; the self test in the sandbox is for that.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Mapping, Sequence

from mobuild.image import elf
from mobuild.image.elf import Elf
from mobuild.image.paths import files, inside, shown

FROM_THE_DRIVER = ("libcuda.so.1", "libnvidia-*")
"""What the machine puts into the container, beside its driver: never a part of an image."""
_MULTIARCH = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu", "i386": "i386-linux-gnu"}
_DEFAULTS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")


@dataclass(frozen=True)
class Missing:
    """One need that the tree does not meet: who needs (a path in the image), what, and what is wrong with it."""

    path: str
    need: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: needs {self.need}: {self.why}" if self.need else f"{self.path}: {self.why}"


def missing(
    root: Path,
    machine: str,
    environment: Mapping[str, str],
    allowed: Sequence[str] = FROM_THE_DRIVER,
    preloaded: Sequence[str] = (),
) -> tuple[Missing, ...]:
    """All that the ELF files below `root` need and do not find there; empty when everything is proven.

    `machine` is that of the image (`x86_64`), `environment` its variables. `allowed` are patterns of libraries that
    may be missing; `preloaded` of those that the program has loaded by path before they are needed.
    """
    return tuple(_Tree(root, machine, environment, allowed, preloaded).missing())


class _Tree:
    def __init__(
        self,
        root: Path,
        machine: str,
        environment: Mapping[str, str],
        allowed: Sequence[str],
        preloaded: Sequence[str],
    ) -> None:
        self._root, self._machine, self._allowed, self._preloaded = root, machine, allowed, preloaded
        self._paths = tuple(part for part in environment.get("LD_LIBRARY_PATH", "").split(":") if part)
        self._damaged: list[Missing] = []
        self._elves: dict[Path, Elf] = {}
        for path in files(root):
            if path.is_file() and not path.is_symlink():
                self._add(path)
        multiarch = _MULTIARCH.get(machine, "")
        own = (f"/lib/{multiarch}", f"/usr/lib/{multiarch}") if multiarch else ()
        self._system = (*_configured(root, "/etc/ld.so.conf"), *own, *_DEFAULTS)
        self._names = {path.name for path in self._elves} | {each.soname for each in self._elves.values()}
        self._users: dict[Path, list[Path]] = {}

    def _add(self, path: Path) -> None:
        try:
            found = elf.read(path)
        except elf.Malformed as error:
            self._damaged.append(Missing(shown(self._root, path), "", str(error).split(": ", 1)[1]))
            return
        if found:
            self._elves[path] = found

    def missing(self) -> Iterator[Missing]:
        yield from self._damaged
        unmet: list[tuple[Path, str]] = []
        for path, each in self._elves.items():
            if each.machine != self._machine:
                yield Missing(shown(self._root, path), "", f"is for {each.machine}, and the image for {self._machine}")
                continue
            if each.interpreter and inside(self._root, each.interpreter) is None:
                yield Missing(shown(self._root, path), each.interpreter, "its loader is not in the image")
            for need in each.needed:
                provider = self._provider(path, need, self._own(path))
                if provider is None:
                    unmet.append((path, need))
                else:
                    self._users.setdefault(provider, []).append(path)
                    yield from self._versions(path, need, provider)
        for path, need in unmet:
            yield from self._unmet(path, need)

    def _unmet(self, path: Path, need: str) -> Iterator[Missing]:
        """An RPATH also serves those whom its owner loads, and theirs; a RUNPATH does not."""
        if _matches(need, self._allowed) or (_matches(need, self._preloaded) and need in self._names):
            return
        provider = self._provider(path, need, tuple(self._inherited(path, set())))
        if provider is not None:
            yield from self._versions(path, need, provider)
            return
        elsewhere = [shown(self._root, each) for each in self._elves if need in (each.name, self._elves[each].soname)]
        why = f"lies in {elsewhere[0]}, where the loader does not look" if elsewhere else "is not in the image"
        yield Missing(shown(self._root, path), need, why)

    def _versions(self, path: Path, need: str, provider: Path) -> Iterator[Missing]:
        defined = self._elves[provider].defined
        for version in self._elves[path].wanted.get(need, ()):
            if defined and version not in defined:
                family = version.rpartition("_")[0] + "_"
                most = max((each for each in defined if each.startswith(family)), key=_number, default="none such")
                yield Missing(shown(self._root, path), f"{version} of {need}", f"{need} of the image has {most}")

    def _own(self, path: Path) -> tuple[str, ...]:
        """The folders that the file itself brings, before and after LD_LIBRARY_PATH."""
        each = self._elves[path]
        before = () if each.runpath else each.rpath
        return (*self._placed(path, before), *self._paths, *self._placed(path, each.runpath))

    def _inherited(self, path: Path, seen: set[Path]) -> Iterator[str]:
        for user in self._users.get(path, ()):
            if user not in seen:
                seen.add(user)
                yield from () if self._elves[user].runpath else self._placed(user, self._elves[user].rpath)
                yield from self._inherited(user, seen)

    def _placed(self, path: Path, folders: Sequence[str]) -> tuple[str, ...]:
        origin = shown(self._root, path.parent).rstrip("/.") or "/"
        return tuple(
            folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", origin).replace("$LIB", "lib")
            for folder in folders
            if folder
        )

    def _provider(self, path: Path, need: str, folders: Sequence[str]) -> Path | None:
        """The file that the loader would take; one for another machine is passed over, as by the loader."""
        names = [need] if "/" in need else [f"{folder}/{need}" for folder in (*folders, *self._system)]
        for name in names:
            place = inside(self._root, name)
            if place in self._elves and self._elves[place].machine == self._elves[path].machine:
                return place
        return None


def _configured(root: Path, name: str) -> Iterator[str]:
    """The folders of an ld.so.conf and of those that it includes."""
    place = inside(root, name)
    if place is None or not place.is_file():
        return
    for line in place.read_text(errors="replace").splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"]:
            for pattern in words[1:]:
                folder = inside(root, pattern.rpartition("/")[0])
                for path in sorted(folder.glob(pattern.rpartition("/")[2])) if folder else ():
                    yield from _configured(root, shown(root, path))
        elif words:
            yield words[0]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in version.rpartition("_")[2].split("."))
