"""One layer as a folder: `blob`, and `layer.json` that describes it (OCI image-spec, "Image Layer").

    {"media_type": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:…", "size": 1,
     "diff_id": "sha256:…", "plain_bytes": 1, "created_by": "mobuild: deps", "largest": {"/path": bytes},
     "components": [{"type": "deb", "name": "libc6", "version": "2.36", "sha256": "…"}]}

A component is a `deb`, a `wheel`, an `app`, a file of the `engine`, or a user's `base`.

The plain tar, and with it the diff id, is the same everywhere; the compressed bytes are those of the zlib in use.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Mapping, Sequence

from mobuild.errors import ConfigError, ToolchainError
from mobuild.image import space
from mobuild.image.tree import Entry, Tree

BLOB, DESCRIPTION = "blob", "layer.json"
COMPRESSIONS = ("gzip", "zstd", "none")
_TAR = "application/vnd.oci.image.layer.v1.tar"
_LARGEST = 5
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Layer:
    """What `layer.json` says; `folder` is where it lies."""

    folder: Path
    media_type: str
    digest: str
    size: int
    diff_id: str
    plain_bytes: int
    created_by: str = ""
    components: Sequence[Mapping[str, str]] = ()
    largest: Mapping[str, int] = field(default_factory=dict)

    @property
    def blob(self) -> Path:
        return self.folder / BLOB

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def write(
    tree: Tree,
    out: Path,
    created_by: str,
    epoch: int,
    compression: str = "gzip",
    components: Sequence[Mapping[str, str]] = (),
) -> Layer:
    """Write the layer of `tree` as the new folder `out`. `none` is gzip of stored blocks, which every tool reads.

    Raises:
        ConfigError: no such compression.
        ToolchainError: zstd is asked for, and `zstandard` is not installed.
    """
    out.mkdir()
    if compression == "none":
        space.check(out, sum(entry.size_bytes for entry in tree.entries()))
    with open(out / BLOB, "wb") as stream:
        sink = _Sink(stream, compressor(compression))
        sizes = {}
        with tarfile.TarFile(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT) as archive:  # type: ignore[arg-type]
            for entry in tree.entries():
                add(archive, entry, epoch)
                if not entry.is_folder:
                    sizes[f"/{entry.path}"] = entry.size_bytes
        sink.end()
    layer = Layer(
        folder=out,
        media_type=f"{_TAR}+{'zstd' if compression == 'zstd' else 'gzip'}",
        digest=f"sha256:{sink.packed.hexdigest()}",
        size=(out / BLOB).stat().st_size,
        diff_id=f"sha256:{sink.plain.hexdigest()}",
        plain_bytes=sink.tell(),
        created_by=f"mobuild: {created_by}",
        components=tuple(components),
        largest=largest(sizes),
    )
    describe(layer)
    return layer


def largest(sizes: Mapping[str, int]) -> dict[str, int]:
    """The few largest of these files."""
    return {path: sizes[path] for path in sorted(sizes, key=lambda path: (-sizes[path], path))[:_LARGEST]}


def describe(layer: Layer) -> None:
    """Write `layer.json` beside the blob."""
    told = asdict(layer)
    del told["folder"]
    (layer.folder / DESCRIPTION).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read(folder: Path) -> list[Layer]:
    """The layer in `folder`, or those in its folders `00`, `01`, …, which a base image has; lowest first."""
    if not (folder / DESCRIPTION).exists():
        return [layer for each in sorted(folder.iterdir()) if each.is_dir() for layer in read(each)]
    told = json.loads((folder / DESCRIPTION).read_bytes())
    return [Layer(folder=folder, **told)]


def add(archive: tarfile.TarFile, entry: Entry, epoch: int) -> None:
    """One entry, as root's, at the time `epoch`."""
    member = tarfile.TarInfo(entry.path)
    member.mode, member.mtime = entry.mode, epoch
    if entry.target:
        member.type, member.linkname = tarfile.SYMTYPE, entry.target
        archive.addfile(member)
    elif entry.content is None:
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    elif isinstance(entry.content, Path):
        member.size = entry.size_bytes
        with open(entry.content, "rb") as stream:
            archive.addfile(member, stream)
    else:
        member.size = len(entry.content)
        archive.addfile(member, io.BytesIO(entry.content))


def compressor(compression: str) -> Any:
    """An object with `compress` and `flush`.

    Raises:
        ConfigError: no such compression.
        ToolchainError: zstd is asked for, and `zstandard` is not installed.
    """
    if compression == "zstd":
        try:
            import zstandard
        except ImportError as error:
            raise ToolchainError(
                "image.compression=zstd: needs the package zstandard",
                "pip install zstandard, or image.compression=gzip",
            ) from error
        return zstandard.ZstdCompressor(level=3).compressobj()
    if compression not in COMPRESSIONS:
        raise ConfigError(f"image.compression: expected one of {', '.join(COMPRESSIONS)}, found {compression!r}")
    return zlib.compressobj(6 if compression == "gzip" else 0, zlib.DEFLATED, 31)  # 31: a gzip header without time


class _Sink:
    """Where a tar goes: digested as it is, compressed, digested again."""

    def __init__(self, stream: BinaryIO, packer: Any) -> None:
        self._stream, self._packer = stream, packer
        self.plain, self.packed = hashlib.sha256(), hashlib.sha256()
        self._bytes = 0

    def write(self, data: bytes) -> int:
        self.plain.update(data)
        self._bytes += len(data)
        self._out(self._packer.compress(data))
        return len(data)

    def tell(self) -> int:
        return self._bytes

    def end(self) -> None:
        self._out(self._packer.flush())

    def _out(self, data: bytes) -> None:
        self.packed.update(data)
        self._stream.write(data)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(_BLOCK), b""):
            digest.update(block)
    return str(digest.hexdigest())
