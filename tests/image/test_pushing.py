"""An image as it lies in build/, pushed."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from mobuild.errors import ConfigError, PushFailed
from mobuild.image import layers, writer
from mobuild.image.pushing import BASE, push_artifact
from mobuild.image.tree import Tree
from tests.image.layouts import layout
from tests.image.registries import registry


def test_a_tar_and_its_layout_are_the_same_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    digest = layout(tmp_path / "oci", [b"layer" * 100])
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.add(tmp_path / "oci", ".")

    with registry(tmp_path / "registry") as address:
        of_tar = push_artifact(tmp_path / "image.tar", f"{address}/team/det:v1")
        of_folder = push_artifact(tmp_path / "oci", f"{address}/team/det:v2")

    assert of_tar.digest == of_folder.digest == digest
    assert len(of_tar.sent) == 2
    assert of_folder.sent == ()


def test_the_layers_of_a_base_in_the_same_registry_are_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    trees = [Tree(), Tree()]
    for number, tree in enumerate(trees):
        tree.file("etc/own", b"%d" % number)
    found = [layers.write(tree, tmp_path / f"{number}", "x", 0) for number, tree in enumerate(trees)]
    writer.write_layout(writer.Image("own:v1", found[:1]), tmp_path / "base")

    with registry(tmp_path / "registry") as address:
        push_artifact(tmp_path / "base", f"{address}/team/base:v1")
        image = writer.Image("det:v1", found, labels={BASE: f"{address}/team/base"})
        writer.write_layout(image, tmp_path / "image")
        pushed = push_artifact(tmp_path / "image", f"{address}/team/det:v1")

    assert [each.digest for each in pushed.mounted] == [found[0].digest]
    assert found[1].digest in {each.digest for each in pushed.sent}


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "blobs/sha256/../../x"])
def test_a_tar_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo(name))

    with pytest.raises(PushFailed, match="is no part of an OCI layout"):
        push_artifact(tmp_path / "image.tar", "127.0.0.1:1/team/det:v1")


def test_what_is_no_image_is_told(tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(b"no tar" * 1000)

    with pytest.raises(PushFailed, match=r"'image\.tar': is no tar of an OCI layout"):
        push_artifact(tmp_path / "image.tar", "127.0.0.1:1/team/det:v1")
    with pytest.raises(PushFailed, match="cannot be read"):
        push_artifact(tmp_path, "127.0.0.1:1/team/det:v1")


def test_a_wrong_reference_is_told_before_the_image_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no registry"):
        push_artifact(tmp_path / "absent.tar", "det:v1")
