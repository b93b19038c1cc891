"""What `image.push=` does with a built image: a layout's folder, or the tar of one, to a registry.

An action after a build and never a node: what is in a registry is not mobuild's to know, and a push has no artifact.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Mapping

from mobuild.errors import ConfigError, PushFailed, SourceError
from mobuild.image import space
from mobuild.image.layout import open_image
from mobuild.image.references import Reference, parse
from mobuild.image.registry import Pushed, push

BASE = "org.opencontainers.image.base.name"
_MEMBER = re.compile(r"\.|oci-layout|index\.json|manifest\.json|blobs|blobs/sha256|blobs/sha256/[0-9a-f]{64}")


def push_artifact(artifact: Path, reference: str) -> Pushed:
    """Push the only image in `artifact` to `reference`.

    Raises:
        ConfigError: the reference is none.
        PushFailed: the artifact is no image, or the registry does not take it.
    """
    place = parse(reference)
    with tempfile.TemporaryDirectory(prefix="mobuild-push-") as scratch:
        try:
            folder = artifact if artifact.is_dir() else _unpacked(artifact, Path(scratch))
            image = open_image(folder)
        except SourceError as error:
            raise PushFailed(f"push to {place}: '{artifact.name}': {error.message}", error.hint) from error
        return push(image, place, _mountable(image.manifest.get("annotations") or {}, place))


def _mountable(annotations: Mapping[str, str], place: Reference) -> list[str]:
    """The repository of the base that the image tells of, where the same registry has it: its layers are not sent."""
    try:
        base = parse(annotations.get(BASE, ""))
    except ConfigError:
        return []
    return [base.repository] if base.registry == place.registry and base.repository != place.repository else []


def _unpacked(tar: Path, folder: Path) -> Path:
    """The layout in `tar`, below `folder`."""
    space.check(folder, tar.stat().st_size, "make room there, set TMPDIR to another folder, or image.format=layout")
    try:
        with tarfile.open(tar, "r:") as archive:
            for entry in archive:
                name = entry.name[2:] if entry.name.startswith("./") else entry.name
                if not _MEMBER.fullmatch(name) or not (entry.isfile() or entry.isdir()):
                    raise SourceError(f"{entry.name!r} is no part of an OCI layout", "image.format: tar or layout")
                _write(archive, entry, folder / name)
    except tarfile.TarError as error:
        raise SourceError(f"is no tar of an OCI layout: {error}", "image.format: tar or layout") from error
    return folder


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    if entry.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(entry)
    assert content is not None
    with open(path, "wb") as file:
        shutil.copyfileobj(content, file)
