"""A user's own base image: found by its digest, its layers taken as they are.

`oci:FOLDER[:NAME]` is a layout, `docker-archive:FILE` what `docker save` writes; anything else is a reference with a
digest, `registry/name@sha256:…`, which skopeo fetches. The digest is that of the manifest (of an archive, of its
configuration); another one than the pinned is an error.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from mobuild.errors import ConfigError, SourceError, ToolchainError
from mobuild.image import layers, references, space, tars
from mobuild.image.layers import BLOB, Layer
from mobuild.image.tree import plain as plain_path

CONFIG = "config.json"
_GLIBC = re.compile(rb"stable release version 2\.(\d+)")
_NEEDED = 36  # of Debian 12, whose Python is put on top
_LOCAL = ("oci:", "docker-archive:")
_COPY_AGAIN = "copy the base to its place once more"
_UNREADABLE = (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, tarfile.TarError, zlib.error)


@dataclass(frozen=True)
class Base:
    """An opened base: its digest, its configuration, and how each layer's blob is read, lowest first."""

    digest: str
    config: Mapping[str, Any]
    blobs: Sequence[Callable[[], bytes]]


def check(reference: str) -> None:
    """
    Raises:
        ConfigError: it names no base.
    """
    _, at, digits = reference.partition("@sha256:")
    if at and not reference.startswith(_LOCAL) and not re.fullmatch("[0-9a-f]{64}", digits):
        raise ConfigError(
            f"image.base {reference!r}: expected 64 hexadecimal digits behind sha256:, found {len(digits)} characters",
            "skopeo inspect docker://registry/name:tag tells the whole digest",
        )
    if not re.fullmatch(r"(oci|docker-archive):.+|[^@\s:]\S*@sha256:[0-9a-f]{64}", reference):
        raise ConfigError(
            f"image.base: there is no base {reference!r}",
            "distroless, oci:FOLDER[:NAME], docker-archive:FILE, or registry/name@sha256:… with its digest",
        )


def check_there(reference: str) -> None:
    """
    Raises:
        SourceError: it is a folder or a file of this machine, and is missing.
    """
    kind, _, place = reference.partition(":")
    missing = Path(place) if kind == "docker-archive" else Path(place.partition(":")[0]) / "index.json"
    if reference.startswith(_LOCAL) and not missing.is_file():
        what = "no file" if kind == "docker-archive" else "no OCI layout: there is no"
        raise SourceError(
            f"image.base {reference!r}: {what} '{missing.absolute()}'", "name the place that has the base"
        )


def digest(reference: str, architecture: str) -> str:
    """The digest of the base as it is now, as hexadecimal digits."""
    with tempfile.TemporaryDirectory(prefix="mobuild-base-") as scratch:
        return _open(reference, architecture, Path(scratch)).digest


def take(reference: str, pinned: str, architecture: str, out: Path) -> int:
    """Write each layer as `out/00`, `out/01`, … and the configuration; returns how many.

    Raises:
        SourceError: it is not the pinned one, or not for the architecture, or its glibc is too old.
    """
    with tempfile.TemporaryDirectory(prefix="base-", dir=out.parent) as scratch:
        base = _open(reference, architecture, Path(scratch))
        if base.digest != pinned:
            raise SourceError(
                f"image.base {reference!r}: expected the pinned digest {pinned}, found {base.digest}",
                "it moved; if the new one is wanted, pin it: mobuild lock target=image",
            )
        there = f"{base.config.get('os')}/{base.config.get('architecture')}"
        if there != f"linux/{architecture}":
            raise SourceError(f"image.base {reference!r}: expected linux/{architecture}, found {there}")
        out.mkdir()
        found = []
        for number, blob in enumerate(base.blobs):
            told = [_component(reference, base)] if number == 0 else []
            with _said(reference, f"layer {number + 1} of {len(base.blobs)}"):
                diff_id = base.config["rootfs"]["diff_ids"][number]
                found.append(_layer(blob(), diff_id, out / f"{number:02}", told))
        _check_glibc(found, reference)
    (out / CONFIG).write_text(json.dumps(base.config.get("config") or {}, indent=1, sort_keys=True) + "\n")
    return len(found)


def _component(reference: str, base: Base) -> dict[str, str]:
    """The base as its lowest layer tells of it; a place on this machine is no name."""
    is_here = reference.startswith(("oci:", "docker-archive:"))
    name = "base" if is_here else reference.partition("@")[0]
    return {"type": "base", "name": name, "version": "", "sha256": base.digest}


def _layer(content: bytes, diff_id: str, folder: Path, told: Sequence[Mapping[str, str]]) -> Layer:
    is_zstd = content.startswith(tars.ZSTD)
    plain = tars.unpacked(io.BytesIO(content)).read()
    if not is_zstd and not content.startswith(tars.GZIP):
        content = gzip.compress(content, 6, mtime=0)
    if f"sha256:{hashlib.sha256(plain).hexdigest()}" != diff_id:
        raise ValueError("it is damaged: its content is not what the configuration of the image says")
    folder.mkdir()
    (folder / BLOB).write_bytes(content)
    layer = Layer(
        folder=folder,
        media_type=f"application/vnd.oci.image.layer.v1.tar+{'zstd' if is_zstd else 'gzip'}",
        digest=f"sha256:{hashlib.sha256(content).hexdigest()}",
        size=len(content),
        diff_id=diff_id,
        plain_bytes=len(plain),
        created_by="base: user",
        components=told,
        largest=_largest(plain),
    )
    layers.describe(layer)
    return layer


def _largest(plain: bytes) -> dict[str, int]:
    """The largest files of a tar, which a budget of the image names."""
    with tars.opened(io.BytesIO(plain)) as archive:
        sizes = {f"/{plain_path(member.name.lstrip('/'))}": member.size for member in archive if member.isfile()}
    return layers.largest(sizes)


def _check_glibc(found: Sequence[Layer], reference: str) -> None:
    versions = [version for layer in found for version in _versions(layer)]
    if not versions or versions[-1] < _NEEDED:
        what = f"glibc 2.{versions[-1]}" if versions else "no glibc"
        raise SourceError(
            f"image.base {reference!r}: expected glibc 2.{_NEEDED} or newer, found {what}",
            "a base of Debian 12 or newer has it; or leave image.base=distroless",
        )


def _versions(layer: Layer) -> Iterator[int]:
    """The minor versions of glibc in a layer."""
    with open(layer.blob, "rb") as stream, tars.opened(tars.unpacked(stream)) as archive:
        for member in archive:
            if member.name.endswith("/libc.so.6") and member.isfile():
                content = archive.extractfile(member)
                assert content
                if match := _GLIBC.search(content.read()):
                    yield int(match[1])


def _open(reference: str, architecture: str, scratch: Path) -> Base:
    kind, _, place = reference.partition(":")
    check_there(reference)
    if not reference.startswith(_LOCAL):
        _fetch(reference, architecture, scratch / "layout")
    with _said(reference, "it"):
        if kind == "docker-archive":
            return _archive(Path(place))
        if kind == "oci":
            folder, _, name = place.partition(":")
            return _layout(Path(folder), name, architecture)
        return _layout(scratch / "layout", "", architecture)


@contextmanager
def _said(reference: str, what: str) -> Iterator[None]:
    """Name the base, and what of it cannot be read; a full disk is no fault of the base."""
    try:
        yield
    except _UNREADABLE as error:
        if space.is_full(error):
            raise
        kind = "has no" if isinstance(error, LookupError) else type(error).__name__ + ":"
        why = str(error) if type(error) is ValueError else f"{kind} {error}"
        raise SourceError(f"image.base {reference!r}: {what} cannot be read: {why}", _COPY_AGAIN) from error


def _layout(folder: Path, name: str, architecture: str) -> Base:
    def blob(descriptor: Mapping[str, Any]) -> bytes:
        content = (folder / "blobs" / str(descriptor["digest"]).replace(":", "/")).read_bytes()
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != descriptor["digest"]:
            raise ValueError(f"the blob {descriptor['digest']} is damaged")
        return content

    def chosen(index: Any) -> Mapping[str, Any]:
        listed: Any = index.get("manifests") if isinstance(index, dict) else None
        if not isinstance(listed, list) or not listed:
            raise ValueError("its index names no image")
        if name and any(_name(each) == name for each in listed):
            listed = [each for each in listed if _name(each) == name]
        fitting = [each for each in listed if each.get("platform", {}).get("architecture") == architecture]
        found: Mapping[str, Any] = (fitting or listed)[0]
        return found

    descriptor = chosen(_document((folder / "index.json").read_bytes(), "index.json"))
    document = json.loads(blob(descriptor))
    if "manifests" in document:
        descriptor = chosen(document)
        document = json.loads(blob(descriptor))
    blobs = [lambda each=each: blob(each) for each in document["layers"]]
    return Base(str(descriptor["digest"]).partition(":")[2], json.loads(blob(document["config"])), blobs)


def _document(content: bytes, name: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"{name} is no JSON: {error}") from error


def _name(descriptor: Mapping[str, Any]) -> str:
    return str(descriptor.get("annotations", {}).get("org.opencontainers.image.ref.name", ""))


def _archive(file: Path) -> Base:
    def member(name: str) -> bytes:
        with tarfile.open(file) as archive:
            stream = archive.extractfile(name)
            if stream is None:
                raise ValueError(f"{name!r} is no file")
            return stream.read()

    told = json.loads(member("manifest.json"))[0]
    config = member(told["Config"])
    blobs = [lambda name=name: member(name) for name in told["Layers"]]
    return Base(hashlib.sha256(config).hexdigest(), json.loads(config), blobs)


def _fetch(reference: str, architecture: str, folder: Path) -> None:
    if not shutil.which("skopeo"):
        raise ToolchainError(
            f"image.base {reference!r}: needs skopeo, which is not here",
            "apt-get install skopeo; or save the image and name the file: image.base=docker-archive:FILE",
        )
    platform = ["--override-os", "linux", "--override-arch", architecture]
    plain = ["--src-tls-verify=false"] if references.is_loopback(reference.partition("/")[0]) else []
    command = ["skopeo", "copy", *platform, *plain, f"docker://{reference}", f"oci:{folder}:base"]
    said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if said.returncode:
        raise SourceError(f"image.base {reference!r}: skopeo cannot fetch it", said.stderr.strip()[-500:])
