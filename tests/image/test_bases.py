"""A base of the user's: by its digest, for its platform, with a libc that Python can use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mobuild.errors import ConfigError, SourceError
from mobuild.image import bases, layers, writer
from mobuild.image.tree import Tree


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


@pytest.mark.parametrize("reference", ["alpine", "debian:12", "oci:", "registry/name@sha256:12"])
def test_what_names_no_base_is_refused(reference: str) -> None:
    with pytest.raises(ConfigError, match="there is no base"):
        bases.check(reference)


def test_a_damaged_base_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read: FileNotFoundError"):
        bases.digest(f"oci:{tmp_path}/nothing", "amd64")
