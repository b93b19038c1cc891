"""Layers and images as the image-spec wants them, with equal bytes for equal content."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from mobuild.errors import ConfigError, NodeFailed
from mobuild.image import layers, writer
from mobuild.image.tree import Tree


def tree(text: bytes = b"hello") -> Tree:
    made = Tree()
    made.file("usr/bin/run", text, executable=True)
    made.link("bin", "usr/bin")
    made.folder("tmp", 0o1777)
    return made


def image(folder: Path, name: str = "small:v1") -> writer.Image:
    folder.mkdir(exist_ok=True)
    one = layers.write(tree(), folder / "one", "base", epoch=7)
    other = Tree()
    other.file("model/engine", b"weights" * 1000)
    two = layers.write(other, folder / "two", "model", 7, "none")
    config = {"Entrypoint": ["/usr/bin/run"], "User": "65532:65532"}
    return writer.Image(name, (one, two), config, {"org.opencontainers.image.title": "small"}, epoch=7)


def test_entries_have_explicit_parents_fixed_owners_times_and_modes(tmp_path: Path) -> None:
    layers.write(tree(), tmp_path / "layer", "base", epoch=7)

    with tarfile.open(tmp_path / "layer" / "blob") as archive:
        found = [(each.name, oct(each.mode), each.mtime, each.uid, each.gid, each.uname) for each in archive]

    assert found == [
        ("bin", "0o777", 7, 0, 0, ""),
        ("tmp", "0o1777", 7, 0, 0, ""),
        ("usr", "0o755", 7, 0, 0, ""),
        ("usr/bin", "0o755", 7, 0, 0, ""),
        ("usr/bin/run", "0o755", 7, 0, 0, ""),
    ]


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_a_layer_is_described_by_its_bytes(tmp_path: Path, compression: str) -> None:
    written = layers.write(tree(), tmp_path / "layer", "base", 0, compression, [{"type": "deb", "name": "libc6"}])

    blob = written.blob.read_bytes()
    assert written.digest == f"sha256:{hashlib.sha256(blob).hexdigest()}"
    assert written.diff_id == f"sha256:{hashlib.sha256(gzip.decompress(blob)).hexdigest()}"
    assert (written.size, written.plain_bytes) == (len(blob), len(gzip.decompress(blob)))
    assert [each.digest for each in layers.read(tmp_path / "layer")] == [written.digest]
    assert layers.read(tmp_path / "layer")[0].components == [{"type": "deb", "name": "libc6"}]


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected one of gzip, zstd, none, found 'lzma'"):
        layers.write(tree(), tmp_path / "layer", "base", 0, "lzma")


def test_two_builds_in_two_folders_are_one_image(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        made = image(tmp_path / name)
        digests.add(writer.write_layout(made, tmp_path / name / "layout"))
        digests.add(writer.write_tar(made, tmp_path / name / "image.tar"))

    assert len(digests) == 1
    assert (tmp_path / "one/image.tar").read_bytes() == (tmp_path / "two/image.tar").read_bytes()


def test_every_descriptor_of_a_layout_names_its_blob(tmp_path: Path) -> None:
    written = writer.write_layout(image(tmp_path / "layers"), tmp_path / "layout")

    def blob(descriptor: dict[str, object]) -> bytes:
        found = (tmp_path / "layout/blobs" / str(descriptor["digest"]).replace(":", "/")).read_bytes()
        assert (len(found), f"sha256:{hashlib.sha256(found).hexdigest()}") == (descriptor["size"], descriptor["digest"])
        return found

    entry = json.loads((tmp_path / "layout/index.json").read_bytes())["manifests"][0]
    assert entry["digest"] == written.manifest
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "small:v1"
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    plain = [f"sha256:{hashlib.sha256(gzip.decompress(blob(each))).hexdigest()}" for each in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == plain
    assert config["created"] == "1970-01-01T00:00:07Z"


def test_the_tar_serves_dockers_manifest_from_the_same_blobs(tmp_path: Path) -> None:
    writer.write_tar(image(tmp_path / "layers"), tmp_path / "image.tar")

    with tarfile.open(tmp_path / "image.tar") as archive:
        names = archive.getnames()
        stream = archive.extractfile("manifest.json")
        assert stream
        docker = json.load(stream)[0]
    assert docker["RepoTags"] == ["small:v1"]
    assert {docker["Config"], *docker["Layers"]} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", ["../etc/passwd", "/etc/passwd", "."])
def test_a_path_out_of_the_image_is_refused(path: str) -> None:
    with pytest.raises(NodeFailed, match="expected a path inside the image"):
        Tree().file(path, b"")


def test_one_path_with_two_contents_is_refused() -> None:
    made = tree()
    with pytest.raises(NodeFailed, match="'/usr/bin/run' is there twice"):
        made.file("usr/bin/run", b"other", executable=True)


@pytest.mark.skipif(not shutil.which("podman"), reason="podman is not installed")
def test_podman_loads_the_tar(tmp_path: Path) -> None:
    writer.write_tar(image(tmp_path / "layers"), tmp_path / "image.tar")
    with tempfile.TemporaryDirectory() as store:  # podman refuses a longer path
        podman = ["podman", "--root", f"{store}/s", "--runroot", f"{store}/r", "--storage-driver", "vfs"]
        done = subprocess.run([*podman, "load", "-i", str(tmp_path / "image.tar")], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "library/small:v1" in done.stdout


@pytest.mark.skipif(not shutil.which("skopeo"), reason="skopeo is not installed")
def test_skopeo_inspects_the_layout(tmp_path: Path) -> None:
    written = writer.write_layout(image(tmp_path / "layers"), tmp_path / "layout")

    done = subprocess.run(
        ["skopeo", "inspect", f"oci:{tmp_path}/layout:small:v1"], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout)["Digest"] == written.manifest
