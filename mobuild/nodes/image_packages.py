"""The files that an image is made of and that come from outside: packages of Debian, wheels.

`mobuild lock` pins them by version and SHA-256; what is kept in the cache is what was pinned. Only that is keyed.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from mobuild.errors import ConfigError, SourceError
from mobuild.image import apt, debian, locked, runtimes, space, wheels
from mobuild.image.locked import Package
from mobuild.node import Built, unkeyed

_ARCHITECTURES = ("amd64", "arm64")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]]*\])?\s*([<>=!~;(].*)?")


@dataclass(frozen=True)
class ImageDebs:
    """Debian packages for the base and the Python of an image; `locked` comes from the lock file."""

    kind: ClassVar[str] = "image_debs"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False
    needs_network: ClassVar[bool] = True

    architecture: str = "amd64"
    ssl: bool = False
    mirror: str = unkeyed("")  # the place above `debian/pool`
    locked: Sequence[str] = ()

    suffix = ""
    tools: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check_architecture(self.architecture)

    @property
    def names(self) -> tuple[str, ...]:
        return (*debian.BASE, *debian.PYTHONS, *(debian.SSL if self.ssl else ()))

    @property
    def lock_prefix(self) -> str:
        """What the names of its packages begin with in a lock file."""
        return f"deb:bookworm/{self.architecture}/"

    @property
    def said(self) -> str:
        return f"{len(self.names)} packages of Debian"

    def resolve(self) -> dict[str, Any]:
        """The packages as they would be pinned now."""
        return _told(apt.resolve(self.names, self.architecture))

    def pinned(self, pins: Mapping[str, Any]) -> ImageDebs:
        return replace(self, locked=_locked(self.lock_prefix, self.names, pins))

    def check_pinned(self, name: str, recipe: str) -> None:
        _check_locked(name, recipe, self.names, self.locked, "Debian packages")

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        wanted = locked.packages(self.locked)
        with space.needed(out.parent):
            out.mkdir()
            apt.fetch(wanted, self.architecture, out, self.mirror)
        locked.check(wanted, out)
        return Built({"size_bytes": sum(path.stat().st_size for path in out.iterdir())})


@dataclass(frozen=True)
class ImageWheels:
    """The wheels of the runtime that opens the engine, and of what the application imports (`requirements`)."""

    kind: ClassVar[str] = "image_wheels"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False
    needs_network: ClassVar[bool] = True

    backend: Any = unkeyed(None)  # noqa: RUF009 (a field)
    architecture: str = "amd64"
    requirements: Sequence[str] = ()
    runtime: str = ""  # that of the backend
    locked: Sequence[str] = ()

    suffix = ""
    tools: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check_architecture(self.architecture)
        _check_requirements(self.requirements)
        object.__setattr__(self, "runtime", self.runtime or runtimes.runtime_of(self.backend))

    @property
    def names(self) -> tuple[str, ...]:
        others = (locked.normalized(locked.name_of(each)) for each in self.requirements)
        return tuple(dict.fromkeys((*runtimes.RUNTIMES[self.runtime].packages, *others)))

    @property
    def lock_prefix(self) -> str:
        return f"wheel:{self.runtime}/cp{debian.PYTHON.replace('.', '')}/{self.architecture}/"

    @property
    def said(self) -> str:
        return f"wheels: {', '.join(self.names)}"

    def resolve(self) -> dict[str, Any]:
        """The wheels as they would be pinned now: of the runtime the version that builds here, where one does."""
        own = {locked.normalized(locked.name_of(each)): each for each in self.requirements}
        return _told(wheels.resolve([own.get(name) or _as_installed(name) for name in self.names], self.architecture))

    def pinned(self, pins: Mapping[str, Any]) -> ImageWheels:
        return replace(self, locked=_locked(self.lock_prefix, self.names, pins))

    def check_pinned(self, name: str, recipe: str) -> None:
        _check_locked(name, recipe, self.names, self.locked, "wheels")

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        wanted = locked.packages(self.locked)
        out.mkdir()
        wheels.fetch(wanted, self.architecture, out)
        locked.check(wanted, out)
        return Built({"size_bytes": sum(path.stat().st_size for path in out.iterdir())})


def _told(packages: Sequence[Package]) -> dict[str, Any]:
    """Name → the fields of its pin."""
    return {
        each.name: {
            "sha256": each.sha256,
            "size_bytes": each.size_bytes,
            "version": each.version,
            "place": each.place,
        }
        for each in packages
    }


def _as_installed(name: str) -> str:
    """What is validated is what ships."""
    try:
        return f"{name}=={importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return name


def _locked(prefix: str, names: Sequence[str], pins: Mapping[str, Any]) -> tuple[str, ...]:
    found = [(name, pins.get(prefix + name)) for name in names]
    return tuple(str(Package(name, pin.version, pin.sha256, pin.place)) for name, pin in found if pin)


def _check_locked(name: str, recipe: str, names: Sequence[str], found: Sequence[str], what: str) -> None:
    """
    Raises:
        SourceError: some package is not pinned; says the command that pins it.
    """
    missing = sorted(set(names) - {package.name for package in locked.packages(found)})
    if missing:
        raise SourceError(
            f"recipe {recipe!r}, node {name!r}: {what} are not pinned: {', '.join(missing)}",
            f"mobuild lock target=image recipe={recipe}",
        )


def _check_architecture(name: str) -> None:
    if name not in _ARCHITECTURES:
        raise ConfigError(f"image.architecture: expected one of {', '.join(_ARCHITECTURES)}, found {name!r}")


def _check_requirements(found: Sequence[str]) -> None:
    """
    Raises:
        ConfigError: one is no package; a file of them is none.
    """
    wrong = [each for each in found if not _REQUIREMENT.fullmatch(each) or each.endswith((".txt", ".in"))]
    if wrong:
        raise ConfigError(
            f"image.requirements: expected packages, found {', '.join(map(repr, wrong))}",
            "files of requirements are not read: image.requirements=[pillow,scipy]; `mobuild lock` pins the versions",
        )
