"""An image of layers that are there: configuration, manifest and index (OCI image-spec), as a layout or as one tar.

The tar is an OCI layout that also holds docker's `manifest.json`, which points into the same blobs: `skopeo`, `podman
load` and `docker load` of any age read it. Layers are copied as they are, never compressed again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from mobuild.image import references
from mobuild.image.layers import Layer, add
from mobuild.image.tree import Content, Entry

_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class Image:
    """All of an image but its layers. `config` is that of a container: Entrypoint, Env, User …"""

    name: str  # repository:tag
    layers: Sequence[Layer]
    config: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    architecture: str = "amd64"
    epoch: int = 0


@dataclass(frozen=True)
class Written:
    """The digests that name an image."""

    manifest: str
    config: str


def write_layout(image: Image, out: Path) -> Written:
    """Write the new folder `out`, an OCI image layout."""
    files, written = _files(image)
    for name, content in files:
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, path)
        else:
            path.write_bytes(content)
    return written


def write_tar(image: Image, out: Path) -> Written:
    """Write the new file `out`: the layout and docker's manifest in one tar."""
    files, written = _files(image)
    layers = [_place(layer.digest) for layer in image.layers]
    docker = [{"Config": _place(written.config), "RepoTags": [image.name], "Layers": layers}]
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as archive:
        for folder in ("blobs", "blobs/sha256"):
            add(archive, Entry(folder, 0o755), image.epoch)
        for name, content in sorted([*files, ("manifest.json", encoded(docker))]):
            add(archive, Entry(name, 0o644, content), image.epoch)
    return written


def encoded(document: Any) -> bytes:
    """Canonical JSON."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def created(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _files(image: Image) -> tuple[list[tuple[str, Content]], Written]:
    """The files of a layout, each once: equal layers are one blob."""
    config = encoded(_config(image))
    manifest = encoded(_manifest(image, config))
    index = encoded(_index(image, manifest))
    blobs: dict[str, Content] = {_place(layer.digest): layer.blob for layer in image.layers}
    blobs.update({_place(_digest(each)): each for each in (config, manifest)})
    layout = encoded({"imageLayoutVersion": "1.0.0"})
    written = Written(_digest(manifest), _digest(config))
    return [*blobs.items(), ("index.json", index), ("oci-layout", layout)], written


def _config(image: Image) -> dict[str, Any]:
    time = created(image.epoch)
    return {
        "architecture": image.architecture,
        "os": "linux",
        "created": time,
        "config": {**image.config, "Labels": dict(image.labels)},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]},
        "history": [{"created": time, "created_by": layer.created_by} for layer in image.layers],
    }


def _manifest(image: Image, config: bytes) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _descriptor(_CONFIG, config),
        "layers": [layer.descriptor for layer in image.layers],
        "annotations": dict(image.labels),
    }


def _index(image: Image, manifest: bytes) -> dict[str, Any]:
    names = {
        "org.opencontainers.image.ref.name": image.name,
        "io.containerd.image.name": references.qualified(image.name),  # containerd looks for no other
    }
    entry = {
        **_descriptor(_MANIFEST, manifest),
        "platform": {"architecture": image.architecture, "os": "linux"},
        "annotations": names,
    }
    return {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]}


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def largest(layers: Sequence[Layer], count: int = 5) -> Iterator[tuple[str, int]]:
    """(path, bytes) of the largest files of all layers."""
    sizes = {path: size for layer in layers for path, size in layer.largest.items()}
    for path in sorted(sizes, key=lambda path: (-sizes[path], path))[:count]:
        yield path, sizes[path]
