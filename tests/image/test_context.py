"""An image as the context of a build elsewhere: what buildah makes of it is the image of our own writer."""

from __future__ import annotations

import gzip
import io
import shutil
import stat
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from mobuild.errors import ConfigError
from mobuild.image import context, layers, process, writer
from mobuild.image.layout import open_image
from mobuild.image.tree import Tree
from mobuild.image.unpack import unpack


def image(folder: Path) -> writer.Image:
    """Two layers, with all that a layer of ours can hold."""
    below, above = Tree(), Tree()
    below.folder("tmp", 0o1777)
    below.file("usr/bin/python3.11", b"program", executable=True)
    below.link("bin", "usr/bin")
    above.file("usr/lib/a.py", b"a = 1\n")
    above.link("usr/bin/python3", "python3.11")
    found = [layers.write(below, folder / "below", "base", 0), layers.write(above, folder / "above", "app", 0, "none")]
    container = process.container({"PATH": "/usr/bin", "ODD": 'a "$word" with \\ and é'})
    return writer.Image("det:v1", found, container, {"io.mobuild.recipe": "det", "odd": "$HOME"})


def tree(layout: Path, root: Path) -> dict[str, tuple[int, str]]:
    """Path → (mode, content, or where a link leads)."""
    unpack(open_image(layout), root)
    return {
        path.relative_to(root).as_posix(): (
            stat.S_IMODE(path.lstat().st_mode),
            str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else "",
        )
        for path in root.rglob("*")
    }


def test_buildah_makes_the_same_image_of_it(tmp_path: Path) -> None:
    if not shutil.which("buildah"):
        pytest.skip("buildah is not installed")
    context.write(image(tmp_path), tmp_path / "context")
    (tmp_path / "here").mkdir()
    writer.write_layout(image(tmp_path / "here"), tmp_path / "own")

    with tempfile.TemporaryDirectory() as store:
        buildah = ["buildah", "--root", f"{store}/s", "--runroot", f"{store}/r", "--storage-driver", "vfs"]
        made = subprocess.run(
            [*buildah, "bud", "--isolation", "chroot", "--timestamp", "0", "-t", "det", str(tmp_path / "context")],
            capture_output=True,
            text=True,
        )
        if "permitted" in made.stderr and made.returncode:
            pytest.skip(f"buildah may not build here: {made.stderr.splitlines()[-1]}")
        assert made.returncode == 0, made.stderr
        subprocess.run([*buildah, "push", "det", f"oci:{tmp_path}/built:det"], check=True, capture_output=True)
        subprocess.run([*buildah, "rmi", "--all", "--force"], check=True, capture_output=True)

    assert tree(tmp_path / "built", tmp_path / "theirs") == tree(tmp_path / "own", tmp_path / "ours")
    theirs, ours = (open_image(tmp_path / each).config["config"] for each in ("built", "own"))
    assert set(theirs["Env"]) == set(ours["Env"])
    assert {name: theirs["Labels"][name] for name in ours["Labels"]} == ours["Labels"]
    for name in ("Entrypoint", "Cmd", "User", "ExposedPorts", "WorkingDir", "StopSignal"):
        assert theirs[name] == ours[name]


def test_a_layer_that_removes_files_is_refused(tmp_path: Path) -> None:
    removing = Tree()
    removing.file("etc/.wh.passwd", b"")
    layer = layers.write(removing, tmp_path / "layer", "base", 0)

    with pytest.raises(ConfigError, match="the base has a layer that removes files"):
        context.write(writer.Image("det:v1", [layer], process.container({})), tmp_path / "context")

    assert not (tmp_path / "context").exists()


def test_a_layer_that_ends_with_its_last_byte_is_added(tmp_path: Path) -> None:
    made = image(tmp_path)
    blob = made.layers[0].blob
    plain = gzip.decompress(blob.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        last = archive.getmembers()[-1]
    blob.write_bytes(gzip.compress(plain[: last.offset_data + last.size], mtime=0))

    context.write(made, tmp_path / "context")

    assert (tmp_path / "context/Containerfile").is_file()
