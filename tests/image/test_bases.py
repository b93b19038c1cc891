"""A base of the user's: by its digest, for its platform, with a libc that Python can use."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from mobuild.errors import ConfigError, NodeFailed, SourceError
from mobuild.image import bases, layers, space, tars, unpack, writer
from mobuild.image.layout import open_image
from mobuild.image.references import parse
from mobuild.image.registry import push
from mobuild.image.tree import Tree
from tests.image.registries import registry


def base(root: Path, glibc: int = 36, architecture: str = "amd64", text: bytes = b"own") -> writer.Image:
    tree = Tree()
    tree.file("usr/lib/libc.so.6", b"GNU C Library stable release version 2.%d." % glibc)
    tree.file("etc/own", text)
    root.mkdir(parents=True)
    layer = layers.write(tree, root / "layer", "base", 0)
    return writer.Image("own:v1", [layer], {"Env": ["OWN=1"]}, architecture=architecture)


def layout(root: Path, **wanted: int | str | bytes) -> str:
    writer.write_layout(base(root, **wanted), root / "layout")  # type: ignore[arg-type]
    return f"oci:{root}/layout:own"


def test_a_layout_gives_its_layers_as_they_are(tmp_path: Path) -> None:
    reference = layout(tmp_path / "base")

    count = bases.take(reference, bases.digest(reference, "amd64"), "amd64", tmp_path / "out")

    assert count == 1
    before, after = layers.read(tmp_path / "base/layer")[0], layers.read(tmp_path / "out")[0]
    assert (after.digest, after.diff_id) == (before.digest, before.diff_id)
    assert after.largest == before.largest == {"/usr/lib/libc.so.6": 42, "/etc/own": 3}
    assert json.loads((tmp_path / "out" / bases.CONFIG).read_bytes())["Env"] == ["OWN=1"]


def test_an_archive_of_docker_gives_the_same_layers(tmp_path: Path) -> None:
    writer.write_tar(base(tmp_path / "base"), tmp_path / "own.tar")
    reference = f"docker-archive:{tmp_path}/own.tar"

    bases.take(reference, bases.digest(reference, "amd64"), "amd64", tmp_path / "out")

    assert layers.read(tmp_path / "out")[0].diff_id == layers.read(tmp_path / "base/layer")[0].diff_id


def test_a_base_that_moved_is_refused(tmp_path: Path) -> None:
    pinned = bases.digest(layout(tmp_path / "one"), "amd64")
    moved = layout(tmp_path / "two", text=b"other")

    with pytest.raises(SourceError, match="expected the pinned digest") as error:
        bases.take(moved, pinned, "amd64", tmp_path / "out")

    assert "mobuild lock target=image" in error.value.hint
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"glibc": 31}, r"expected glibc 2\.36 or newer, found glibc 2\.31"),
        ({"architecture": "arm64"}, "expected linux/amd64, found linux/arm64"),
    ],
)
def test_a_base_that_cannot_serve_is_refused(tmp_path: Path, wanted: dict[str, int], text: str) -> None:
    reference = layout(tmp_path / "base", **wanted)

    with pytest.raises(SourceError, match=text):
        bases.take(reference, bases.digest(reference, "amd64"), "amd64", tmp_path / "out")


@pytest.mark.parametrize("reference", ["alpine", "debian:12", "oci:"])
def test_what_names_no_base_is_refused(reference: str) -> None:
    with pytest.raises(ConfigError, match="there is no base"):
        bases.check(reference)


def test_a_digest_of_another_length_is_said() -> None:
    with pytest.raises(ConfigError, match="expected 64 hexadecimal digits behind sha256:, found 2 characters"):
        bases.check("registry/name@sha256:12")


@pytest.mark.parametrize(("kind", "what"), [("oci", "no OCI layout"), ("docker-archive", "no file")])
def test_a_missing_base_is_missing(tmp_path: Path, kind: str, what: str) -> None:
    with pytest.raises(SourceError, match=what) as refused:
        bases.digest(f"{kind}:{tmp_path}/nothing", "amd64")

    assert f"{tmp_path}/nothing" in str(refused.value)


@pytest.mark.parametrize(
    ("index", "says"), [("{", "index.json is no JSON"), ("{}", "names no image"), ("[]", "names no image")]
)
def test_a_damaged_index_is_named(tmp_path: Path, index: str, says: str) -> None:
    reference = layout(tmp_path / "base")
    (tmp_path / "base/layout/index.json").write_text(index)

    with pytest.raises(SourceError, match=says):
        bases.digest(reference, "amd64")


def test_a_damaged_layer_is_named_with_what_to_do(tmp_path: Path) -> None:
    reference = layout(tmp_path / "base")
    digest = layers.read(tmp_path / "base/layer")[0].digest
    (tmp_path / "base/layout/blobs" / digest.replace(":", "/")).write_bytes(b"odd")

    with pytest.raises(SourceError, match=f"layer 1 of 1 cannot be read: the blob {digest} is damaged") as refused:
        bases.take(reference, bases.digest(reference, "amd64"), "amd64", tmp_path / "out")

    assert "copy the base to its place once more" in refused.value.hint


def test_a_layer_of_an_archive_that_is_not_what_the_image_says_is_refused(tmp_path: Path) -> None:
    made = base(tmp_path / "base")
    writer.write_tar(
        replace(made, layers=[replace(made.layers[0], diff_id=f"sha256:{'0' * 64}")]), tmp_path / "own.tar"
    )
    reference = f"docker-archive:{tmp_path}/own.tar"

    with pytest.raises(SourceError, match="layer 1 of 1 cannot be read: it is damaged"):
        bases.take(reference, bases.digest(reference, "amd64"), "amd64", tmp_path / "out")


def test_a_layer_that_ends_with_its_last_byte_is_read(tmp_path: Path) -> None:
    made = base(tmp_path / "base")
    plain = gzip.decompress(made.layers[0].blob.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        last = archive.getmembers()[-1]
    content = plain[: last.offset_data + last.size]
    packed = gzip.compress(content, mtime=0)
    made.layers[0].blob.write_bytes(packed)
    short = replace(
        made.layers[0],
        digest=f"sha256:{hashlib.sha256(packed).hexdigest()}",
        size=len(packed),
        diff_id=f"sha256:{hashlib.sha256(content).hexdigest()}",
    )
    writer.write_layout(replace(made, layers=[short]), tmp_path / "layout")
    reference = f"oci:{tmp_path}/layout"

    bases.take(reference, bases.digest(reference, "amd64"), "amd64", tmp_path / "out")
    unpack.unpack(open_image(tmp_path / "layout"), tmp_path / "root")

    assert layers.read(tmp_path / "out")[0].diff_id == short.diff_id
    assert (tmp_path / "root/usr/lib/libc.so.6").read_bytes().startswith(b"GNU C Library")


def packed(root: Path, content: bytes) -> tuple[str, layers.Layer]:
    """A base whose only layer is `content`, packed with zstd."""
    made = base(root)
    plain = gzip.decompress(made.layers[0].blob.read_bytes())
    made.layers[0].blob.write_bytes(content or b"".join(map(zstandard.compress, (plain[:700], plain[700:]))))
    raw = made.layers[0].blob.read_bytes()
    digest, media_type = f"sha256:{hashlib.sha256(raw).hexdigest()}", "application/vnd.oci.image.layer.v1.tar+zstd"
    layer = replace(made.layers[0], digest=digest, size=len(raw), media_type=media_type)
    writer.write_layout(replace(made, layers=[layer]), root / "layout")
    return f"oci:{root}/layout", layer


def test_a_layer_that_is_packed_with_zstd_is_read_to_its_end(tmp_path: Path) -> None:
    reference, layer = packed(tmp_path / "base", b"")

    bases.take(reference, bases.digest(reference, "amd64"), "amd64", tmp_path / "out")
    unpack.unpack(open_image(tmp_path / "base/layout"), tmp_path / "root")

    (found,) = layers.read(tmp_path / "out")
    assert (found.digest, found.media_type) == (layer.digest, layer.media_type)
    assert (found.plain_bytes, found.largest) == (layer.plain_bytes, layer.largest)
    assert (tmp_path / "root/etc/own").read_bytes() == b"own"


@pytest.mark.parametrize(
    "content", [tars.ZSTD + b"odd", zstandard.compress(b"other"), zstandard.compress(b"x" * 99)[:-4]]
)
def test_a_damaged_layer_of_zstd_is_named(tmp_path: Path, content: bytes) -> None:
    reference, _ = packed(tmp_path / "base", content)

    with pytest.raises(SourceError, match="layer 1 of 1 cannot be read: "):
        bases.take(reference, bases.digest(reference, "amd64"), "amd64", tmp_path / "out")


@pytest.mark.skipif(not shutil.which("skopeo"), reason="skopeo is not installed")
def test_a_registry_of_this_machine_is_asked_without_encryption(tmp_path: Path) -> None:
    layout(tmp_path / "base")
    with registry(tmp_path / "registry") as address:
        pushed = push(open_image(tmp_path / "base/layout"), parse(f"{address}/team/own:v1"))
        reference = f"{address}/team/own@{pushed.digest}"

        assert bases.digest(reference, "amd64") == pushed.digest.partition(":")[2]


def test_a_disk_that_gets_full_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodeFailed, match=f"no space: has .* at '{tmp_path}'"), space.needed(tmp_path):
        Path("/dev/full").write_bytes(b"1")
