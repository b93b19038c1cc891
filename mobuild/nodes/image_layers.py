"""The layers of an image, each a node: what does not change is not written again, and a sweep shares it.

base → python → deps → app → model, by how often they change; the engine, which does not compress, is stored.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from mobuild import definitions, runtime
from mobuild.errors import ConfigError, SourceError
from mobuild.image import bases, bytecode, debian, layers, locked, process, runtimes, space, wheels
from mobuild.image.locked import Package
from mobuild.image.tree import Tree
from mobuild.node import Built, unkeyed

APP = "app"
DISTROLESS = "distroless"
_LAST_EPOCH = 253402300799  # what a date of four digits can say, and what milliseconds are beyond


@dataclass(frozen=True)
class ImageBase:
    """libc and what Python and wheels link, from Debian packages; or a base of the user's, with what that may lack."""

    kind: ClassVar[str] = "image_base"
    revision: ClassVar[int] = 3
    isolated: ClassVar[bool] = False

    base: str = DISTROLESS
    architecture: str = "amd64"
    compression: str = "gzip"
    epoch: int = 0
    digest: str = ""  # of the user's base, from the lock file

    suffix = ""
    tools: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check(self.compression, self.epoch)
        if self.base != DISTROLESS:
            bases.check(self.base)

    @property
    def lock_prefix(self) -> str:
        """What the name of the base begins with in a lock file; empty where there is nothing to pin."""
        return "" if self.base == DISTROLESS else f"base:{self.base}/"

    @property
    def said(self) -> str:
        return f"base image {self.base!r}"

    def resolve(self) -> dict[str, Any]:
        """The base as it would be pinned now."""
        return {self.architecture: {"sha256": bases.digest(self.base, self.architecture), "size_bytes": 0}}

    def pinned(self, pins: Mapping[str, Any]) -> ImageBase:
        pin = pins.get(self.lock_prefix + self.architecture)
        return replace(self, digest=pin.sha256) if pin and self.lock_prefix else self

    def check_pinned(self, name: str, recipe: str) -> None:
        """
        Raises:
            SourceError: the base is missing, or not pinned; says the command that pins it.
        """
        if self.lock_prefix and not self.digest:
            bases.check_there(self.base)
            raise SourceError(
                f"recipe {recipe!r}, node {name!r}: the base {self.base!r} is not pinned",
                f"mobuild lock target=image recipe={recipe}",
            )

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        debs = _debs(inputs["debs"], (*debian.BASE, *debian.SSL))
        told = [_of_deb(deb) for deb in debs]
        if self.base == DISTROLESS:
            with space.needed(out.parent):
                return _built(layers.write(debian.base(debs), out, "base", self.epoch, self.compression, told))
        with space.needed(out.parent):
            count = bases.take(self.base, self.digest, self.architecture, out)
            tree = debian.libraries(debs)
            return _built(layers.write(tree, out / f"{count:02}", "libraries", self.epoch, self.compression, told))


@dataclass(frozen=True)
class ImagePython:
    """Python of Debian, with byte code."""

    kind: ClassVar[str] = "image_python"
    revision: ClassVar[int] = 3
    isolated: ClassVar[bool] = False

    architecture: str = "amd64"
    ssl: bool = False
    compression: str = "gzip"
    epoch: int = 0

    suffix = ""
    tools: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check(self.compression, self.epoch)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        debs = _debs(inputs["debs"], debian.PYTHONS)
        told = [_of_deb(deb) for deb in debs]
        return _compiled(debian.python(debs, self.ssl), self, inputs, out, "python", told)


@dataclass(frozen=True)
class ImageDeps:
    """The runtime's wheels, without what serving does not need."""

    kind: ClassVar[str] = "image_deps"
    revision: ClassVar[int] = 5
    isolated: ClassVar[bool] = False

    backend: Any = unkeyed(None)  # noqa: RUF009 (a field)
    architecture: str = "amd64"
    runtime: str = ""  # that of the backend
    compression: str = "gzip"
    epoch: int = 0

    suffix = ""
    tools: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check(self.compression, self.epoch)
        object.__setattr__(self, "runtime", self.runtime or runtimes.runtime_of(self.backend))

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        found = sorted(inputs["wheels"].glob("*.whl"))
        tree = Tree()
        wheels.unpack(found, runtimes.RUNTIMES[self.runtime].left_out, tree)
        told = [{**locked.component(_of_wheel(wheel), "wheel"), "licence": wheels.licence(wheel)} for wheel in found]
        return _compiled(tree, self, inputs, out, "deps", told)


@dataclass(frozen=True)
class ImageApp:
    """mobuild's own runtime and server, as `mobuild_runtime`, and the user's code `app` beside it."""

    kind: ClassVar[str] = "image_app"
    revision: ClassVar[int] = 3
    isolated: ClassVar[bool] = False

    architecture: str = "amd64"
    compression: str = "gzip"
    epoch: int = 0
    app: str = ""  # serving.py:answer, or serving:answer of a folder, beside the recipe
    content: str = ""  # the digest of the files that it takes

    suffix = ""
    is_beside_recipe: ClassVar[bool] = True
    said_by: ClassVar[str] = "image.app"
    tools: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check(self.compression, self.epoch)
        object.__setattr__(self, "content", self.content or _digest(_runtime_folder(), _runtime_files()))
        if self.app:
            process.application(self.app)

    @property
    def sources(self) -> Mapping[str, str]:
        return {"code": process.application(self.app)[0]} if self.app else {}

    def check_code(self, folder: Path, project: Path) -> None:
        """
        Raises:
            ConfigError: the file is there, and surely defines no such function.
        """
        place, _, function = self.app.partition(":")
        form = place if place.endswith(".py") else f"{place}/__init__.py"
        message, hint = definitions.lacks(f"{form}:{function}", folder, project) if self.app else ("", "")
        if message:
            raise ConfigError(f"image.app: {message}", hint)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        tree = Tree()
        folder = _runtime_folder()
        for path in _runtime_files():
            tree.file(f"{APP}/mobuild_runtime/{path.relative_to(folder).as_posix()}", path)
        told = [{"type": "app", "name": "mobuild-runtime", "version": "", "sha256": self.content}]
        if self.app:
            _, reference = process.application(self.app)
            module, code = reference.partition(":")[0], inputs["code"]
            tree.copy(code, f"{APP}/{module}{'.py' if code.is_file() else ''}")
            files = [path for path in sorted(code.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
            digest = layers.digest_of(code) if code.is_file() else _digest(code, files)
            told.append({"type": "app", "name": module, "version": "", "sha256": digest})
        return _compiled(tree, self, inputs, out, "app", told)


def _runtime_folder() -> Path:
    assert runtime.__file__
    return Path(runtime.__file__).parent


def _runtime_files() -> list[Path]:
    return sorted(_runtime_folder().rglob("*.py"))


def _digest(folder: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _compiled(
    tree: Tree, node: Any, inputs: Mapping[str, Path], out: Path, name: str, told: Sequence[Mapping[str, str]]
) -> Built:
    """The layer of `tree` with its byte code, where this machine can run the image's Python."""
    reason = bytecode.cannot(node.architecture)
    with space.needed(out.parent), tempfile.TemporaryDirectory(prefix="bytecode-", dir=out.parent) as scratch:
        if not reason:
            bytecode.compile_all(tree, sorted(inputs["debs"].glob("*.deb")), Path(scratch))
        written = layers.write(tree, out, name, node.epoch, node.compression, told)
    return _built(written, [f"{name}: {reason}"] if reason else [])


def _built(layer: layers.Layer, warnings: Sequence[str] = ()) -> Built:
    return Built({"layer_bytes": layer.size, "plain_bytes": layer.plain_bytes, "diff_id": layer.diff_id}, {}, warnings)


def _debs(folder: Path, names: Sequence[str]) -> list[Path]:
    return [deb for deb in sorted(folder.glob("*.deb")) if deb.name.split("_")[0] in names]


def _of_deb(deb: Path) -> dict[str, str]:
    name, version = deb.name.split("_")[:2]
    return locked.component(Package(name, version, layers.digest_of(deb), deb.name), "deb")


def _of_wheel(wheel: Path) -> Package:
    name, version = wheel.name.split("-")[:2]
    return Package(locked.normalized(name), version, layers.digest_of(wheel), wheel.name)


def _check(compression: str, epoch: int) -> None:
    """
    Raises:
        ConfigError: names the setting.
    """
    if compression not in layers.COMPRESSIONS:
        raise ConfigError(f"image.compression: expected one of {', '.join(layers.COMPRESSIONS)}, found {compression!r}")
    if not 0 <= epoch <= _LAST_EPOCH:
        raise ConfigError(
            f"image.epoch: expected seconds from 1970 to the end of 9999, found {epoch}",
            "SOURCE_DATE_EPOCH sets it, too",
        )
