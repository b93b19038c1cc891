"""Reading and unpacking an OCI layout."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from mobuild.errors import SourceError
from mobuild.image.layout import open_image
from mobuild.image.unpack import unpack
from tests.image.layouts import layout, tar


def archive(*entries: tuple[str, str, str]) -> bytes:
    """A tar of (name, type, content or target)."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as file:
        for name, kind, content in entries:
            entry = tarfile.TarInfo(name)
            types = {
                "file": tarfile.REGTYPE,
                "folder": tarfile.DIRTYPE,
                "link": tarfile.SYMTYPE,
                "hard": tarfile.LNKTYPE,
            }
            entry.type = types[kind]
            entry.mode = 0o755 if kind == "folder" else 0o644
            entry.linkname, entry.size = (content, 0) if kind in ("link", "hard") else ("", len(content))
            file.addfile(entry, io.BytesIO(content.encode()))
    return raw.getvalue()


def test_an_image_is_read_with_its_variables(tmp_path: Path) -> None:
    digest = layout(tmp_path, [archive(("a", "file", "1"))], environment={"A": "b=c"})

    image = open_image(tmp_path)

    assert image.descriptor.digest == digest
    assert image.environment == {"A": "b=c"}
    assert len(image.layers) == 1


def test_a_damaged_or_missing_blob_is_refused(tmp_path: Path) -> None:
    layout(tmp_path, [archive(("a", "file", "1"))])
    blob = open_image(tmp_path).path(open_image(tmp_path).layers[0])

    blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    with pytest.raises(SourceError, match=r"the blob sha256:\w+ is damaged"):
        open_image(tmp_path)

    blob.unlink()
    with pytest.raises(SourceError, match=r"the blob sha256:\w+ is missing"):
        open_image(tmp_path)


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    layout(tmp_path, [archive(("a", "file", "1"))], name="det:v1")

    with pytest.raises(SourceError) as refused:
        open_image(tmp_path, "det:v2")

    assert "expected the image 'det:v2', found 0" in str(refused.value)
    assert "images there: det:v1" in str(refused.value)


def test_upper_layers_replace_and_remove(tmp_path: Path) -> None:
    lower = archive(("d", "folder", ""), ("d/a", "file", "old"), ("d/b", "file", "b"), ("e", "folder", ""))
    middle = archive(("d", "folder", ""), ("d/a", "file", "new"), ("d/.wh.b", "file", ""), ("e/x", "file", ""))
    upper = archive(("e", "folder", ""), ("e/.wh..wh..opq", "file", ""), ("e/y", "file", "y"))
    layout(tmp_path / "oci", [lower, middle, upper])

    unpack(open_image(tmp_path / "oci"), tmp_path / "root")

    assert sorted(path.relative_to(tmp_path / "root").as_posix() for path in (tmp_path / "root").rglob("*")) == [
        "d",
        "d/a",
        "e",
        "e/y",
    ]
    assert (tmp_path / "root/d/a").read_text() == "new"


def test_a_layer_hides_nothing_of_its_own(tmp_path: Path) -> None:
    lower = archive(("e/old", "file", ""), ("e/+sub/old", "file", ""), ("f/old", "file", ""))
    e = (("e", "folder", ""), ("e/+new", "file", ""), ("e/+sub/new", "file", ""), ("e/.wh..wh..opq", "file", ""))
    f = (("f", "folder", ""), ("f/new", "file", ""), (".wh.f", "file", ""))
    layout(tmp_path / "oci", [lower, archive(*e, *f)])

    unpack(open_image(tmp_path / "oci"), tmp_path / "root")

    files = [path for path in (tmp_path / "root").rglob("*") if path.is_file()]
    assert sorted(path.relative_to(tmp_path / "root").as_posix() for path in files) == ["e/+new", "e/+sub/new", "f/new"]


def test_a_layer_that_is_not_what_its_image_says_is_refused(tmp_path: Path) -> None:
    layout(tmp_path / "oci", [archive(("a", "file", "1")), archive(("b", "file", "2"))])
    image = open_image(tmp_path / "oci")
    swapped = {"rootfs": {"diff_ids": image.config["rootfs"]["diff_ids"][::-1]}}

    with pytest.raises(SourceError, match=r"layer sha256:\w+: unpacked it is sha256:\w+, its image says sha256:\w+"):
        unpack(replace(image, config=swapped), tmp_path / "root")


@pytest.mark.parametrize("root", ["./", "/"])
def test_a_layer_may_begin_with_the_root_itself(tmp_path: Path, root: str) -> None:
    entries = (
        (root, "folder", ""),
        (f"{root}d", "folder", ""),
        (f"{root}d/a", "file", "1"),
        (f"{root}d/b", "hard", f"{root}d/a"),
    )
    layout(tmp_path / "oci", [archive(*entries)])

    unpack(open_image(tmp_path / "oci"), tmp_path / "root")

    assert (tmp_path / "root/d/a").read_text() == (tmp_path / "root/d/b").read_text() == "1"


@pytest.mark.parametrize(
    "entries",
    [
        [("../x", "file", "1")],
        [("..", "file", "1")],
        [("a/..", "file", "1")],
        [(".wh...", "file", "")],
        [("a", "folder", ""), ("a/.wh.", "file", "")],
        [("/../x", "file", "1")],
        [("x", "hard", "/../y")],
        [("out", "link", "/etc"), ("out/x", "file", "1")],
        [("out", "link", "../.."), ("out/x", "file", "1")],
    ],
)
def test_a_layer_that_would_write_elsewhere_is_refused(tmp_path: Path, entries: list[tuple[str, str, str]]) -> None:
    layout(tmp_path / "oci", [archive(*entries)])

    with pytest.raises(SourceError, match="would be written outside the tree"):
        unpack(open_image(tmp_path / "oci"), tmp_path / "root")


def test_a_folder_that_a_later_entry_replaces_leaves_others_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "e").mkdir(parents=True)
    outside.chmod(0o700)
    (outside / "e").chmod(0o700)
    gone = [("a", "folder", ""), ("a", "file", "1"), ("b", "folder", ""), (".wh.b", "file", "")]
    linked = [("c", "folder", ""), ("d/e", "folder", ""), ("c", "link", str(outside)), ("d", "link", str(outside))]
    layout(tmp_path / "oci", [archive(*gone, *linked)])

    unpack(open_image(tmp_path / "oci"), tmp_path / "root")

    assert (tmp_path / "root/a").read_text() == "1" and (tmp_path / "root/c").is_symlink()
    assert [oct(each.stat().st_mode & 0o777) for each in (outside, outside / "e")] == ["0o700", "0o700"]


def test_umoci_unpacks_the_same_tree(tmp_path: Path) -> None:
    if not shutil.which("umoci"):
        pytest.skip("umoci is not installed")
    lower = archive(("d", "folder", ""), ("d/a", "file", "old"), ("d/b", "file", "b"), ("l", "link", "d/a"))
    upper = archive(("d", "folder", ""), ("d/.wh.b", "file", ""), ("d/a", "file", "new"))
    layout(tmp_path / "oci", [lower, upper])

    unpack(open_image(tmp_path / "oci"), tmp_path / "root")
    command = ["umoci", "unpack", "--rootless", "--image", f"{tmp_path}/oci:latest", f"{tmp_path}/bundle"]
    subprocess.run(command, check=True, capture_output=True)

    assert tar(tmp_path / "root") == tar(tmp_path / "bundle/rootfs")
