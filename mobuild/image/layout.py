"""An OCI image layout as a folder, read (OCI image specification 1.1: image layout, image manifest).

Every blob is compared with its digest before anything of it is believed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from mobuild.errors import SourceError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_REF = "org.opencontainers.image.ref.name"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Descriptor:
    """A blob by its digest (`sha256:…`), size and media type."""

    media_type: str
    digest: str
    size_bytes: int


@dataclass(frozen=True)
class Image:
    """One image of a layout. `manifest` is the document of `descriptor`, `config` that of the image."""

    layout: Path
    descriptor: Descriptor
    manifest: Mapping[str, Any]
    config: Mapping[str, Any]
    blobs: tuple[Descriptor, ...]
    """The configuration, then the layers from the bottom up."""

    def path(self, blob: Descriptor) -> Path:
        return _path(self.layout, blob.digest)

    @property
    def layers(self) -> tuple[Descriptor, ...]:
        return self.blobs[1:]

    def diff_id(self, layer: Descriptor) -> str:
        """The digest of the plain tar of a layer."""
        return str(self.config["rootfs"]["diff_ids"][self.layers.index(layer)])

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the image sets."""
        return dict(each.split("=", 1) for each in self.config.get("config", {}).get("Env") or ())


def open_image(layout: Path, name: str = "") -> Image:
    """The image called `name` in the layout, or its only one.

    Raises:
        SourceError: it is no layout, has not that image, or a blob is missing or not what its digest says.
    """
    index = _document(layout / "index.json", layout)
    images = [each for each in index.get("manifests", ()) if each.get("mediaType") == MANIFEST]
    named = [each for each in images if not name or each.get("annotations", {}).get(_REF) == name]
    if len(named) != 1:
        names = ", ".join(sorted(each.get("annotations", {}).get(_REF, each["digest"]) for each in images))
        asked = f"the image {name!r}" if name else "one image"
        raise SourceError(
            f"layout '{layout}': expected {asked}, found {len(named)}", f"images there: {names or 'none'}"
        )
    descriptor = _descriptor(named[0], layout)
    check(layout, descriptor)
    manifest = _document(_path(layout, descriptor.digest), layout)
    blobs = tuple(_descriptor(each, layout) for each in (manifest["config"], *manifest["layers"]))
    for blob in blobs:
        check(layout, blob)
    return Image(layout, descriptor, manifest, _document(_path(layout, blobs[0].digest), layout), blobs)


def check(layout: Path, blob: Descriptor) -> None:
    """Raise SourceError unless the blob is there, whole and undamaged."""
    path = _path(layout, blob.digest)
    if not path.is_file():
        raise SourceError(f"layout '{layout}': the blob {blob.digest} is missing", "build the image again")
    if path.stat().st_size != blob.size_bytes or digest(path) != blob.digest:
        raise SourceError(f"layout '{layout}': the blob {blob.digest} is damaged", "build the image again")


def digest(path: Path) -> str:
    """`sha256:…` of a file."""
    state = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK_BYTES), b""):
            state.update(block)
    return f"sha256:{state.hexdigest()}"


def _path(layout: Path, named: str) -> Path:
    algorithm, _, value = named.partition(":")
    return layout / "blobs" / algorithm / value


def _descriptor(found: Mapping[str, Any], layout: Path) -> Descriptor:
    if not _DIGEST.fullmatch(str(found.get("digest"))):
        raise SourceError(f"layout '{layout}': expected a digest sha256:…, found {found.get('digest')!r}")
    return Descriptor(str(found["mediaType"]), str(found["digest"]), int(found["size"]))


def _document(path: Path, layout: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SourceError(f"layout '{layout}': '{path.name}' cannot be read: {error}", "name an OCI layout") from error
    return found
