"""One package of a lock file: name, version, SHA-256 and where it lies, as one line of text that is a part of keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Sequence

from mobuild.errors import SourceError
from mobuild.image.layers import digest_of


@dataclass(frozen=True)
class Package:
    """A package as it is pinned. `place` is the path below a mirror (deb) or the name of the file (wheel)."""

    name: str
    version: str
    sha256: str
    place: str
    size_bytes: int = 0

    @property
    def file(self) -> str:
        return self.place.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.name} {self.version} {self.sha256} {self.place}"


def packages(lines: Sequence[str]) -> list[Package]:
    """The packages that lines of `str(package)` tell."""
    return [Package(*line.split(" ")[:4]) for line in lines]  # type: ignore[arg-type]


def name_of(requirement: str) -> str:
    """The distribution that a requirement names: `Pillow` of `Pillow[x]>=10`."""
    return re.split(r"[^A-Za-z0-9._-]", requirement.strip())[0]


def normalized(name: str) -> str:
    """A distribution's name as lock files have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def component(package: Package, kind: str) -> dict[str, str]:
    """What a layer tells of a package that it holds."""
    return {"type": kind, "name": package.name, "version": package.version, "sha256": package.sha256}


def check(wanted: Iterable[Package], folder: Path) -> None:
    """
    Raises:
        SourceError: a file in `folder` is missing, or not what was pinned.
    """
    for each in wanted:
        path = folder / each.file
        found = digest_of(path) if path.is_file() else "no file"
        if found != each.sha256:
            raise SourceError(
                f"package {each.name} {each.version}: expected '{each.file}' with SHA-256 {each.sha256}, found {found}",
                "not the pinned file; if another one is wanted, pin it: mobuild lock target=image",
            )
