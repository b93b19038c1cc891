"""The one layer that all probes read through: questions with plain answers.

Who answers is a function: `live.answer` asks this machine, a recording repeats what another one said
(`recording`). Whatever is absent is an empty answer, never an exception: what is missing is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Answer = Callable[[str, tuple[str, ...]], Any]  # question, its words → what JSON can hold; None for absent
ABSENT = 127  # the status of a program that there is not, as shells have it


@dataclass(frozen=True)
class Ran:
    """A program that ended; status 127 and no output when there is none of that name."""

    status: int = ABSENT
    out: str = ""
    err: str = ""

    @property
    def said(self) -> str:
        """All that it said, errors last."""
        return f"{self.out}\n{self.err}".strip()


@dataclass(frozen=True)
class Package:
    """An installed distribution. `cuda` is the CUDA that it was built for (`13.0`, `12`), empty when none is named."""

    version: str
    cuda: str = ""


@dataclass(frozen=True)
class Machine:
    """Typed questions to whoever answers."""

    answer: Answer

    def text(self, path: str) -> str:
        """The content of a file; empty when it cannot be read."""
        return self.answer("text", (path,)) or ""

    def names(self, folder: str) -> tuple[str, ...]:
        """What lies in a folder, sorted; nothing when it cannot be listed."""
        return tuple(self.answer("names", (folder,)) or ())

    def real(self, path: str) -> str:
        """The path behind all links; empty when nothing is there."""
        return self.answer("real", (path,)) or ""

    def access(self, path: str) -> str:
        """`yes`: may be read and written; `denied`; empty: nothing is there."""
        return self.answer("access", (path,)) or ""

    def which(self, program: str) -> str:
        """The real path of a program on PATH; empty when there is none."""
        return self.answer("which", (program,)) or ""

    def run(self, *words: str) -> Ran:
        return Ran(**(self.answer("run", words) or {}))

    def variable(self, name: str) -> str | None:
        """An environment variable; None when it is not set."""
        value: str | None = self.answer("variable", (name,))
        return value

    def room(self, folder: str) -> tuple[int, int] | None:
        """Bytes of the file system and bytes free on it; None when there is none."""
        found = self.answer("room", (folder,))
        return (found[0], found[1]) if found else None

    def size(self, folder: str) -> int:
        """Bytes of all files below a folder."""
        return self.answer("size", (folder,)) or 0

    def processors(self) -> tuple[int, int]:
        """How many processors there are, and how many this process may run on."""
        counted, allowed = self.answer("processors", ()) or (1, 1)
        return counted, allowed

    def packages(self) -> dict[str, Package]:
        """The distributions that bring or use CUDA, by normalised name."""
        found: Mapping[str, Mapping[str, str]] = self.answer("packages", ()) or {}
        return {name: Package(**fields) for name, fields in found.items()}

    def site_folders(self) -> tuple[str, ...]:
        """The folders that packages are imported from."""
        return tuple(self.answer("site_folders", ()) or ())

    def known_libraries(self) -> dict[str, str]:
        """Libraries for CUDA that the loader knows: name → real path."""
        return dict(self.answer("known_libraries", ()) or {})

    def opened(self, *runtimes: str) -> Mapping[str, Any]:
        """What CUDA says when it is opened, and what the `libcudart` files at these paths say (`open_cuda`)."""
        return self.answer("opened", runtimes) or {}
