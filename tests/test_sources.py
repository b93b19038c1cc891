"""Local sources: named by content, used in place, refused when they are not what they seem."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mobuild.errors import SourceError
from mobuild.fingerprint import Digest, digest_bytes
from mobuild.sources import local_digest, stage
from mobuild.store import Store
from mobuild.store.stat_cache import StatCache
from tests.projects import recipe_project


@pytest.fixture
def files() -> StatCache:
    return StatCache(None)


def folder(path: Path) -> Path:
    (path / "a" / "b").mkdir(parents=True)
    (path / "one.txt").write_bytes(b"one")
    (path / "a" / "b" / "two.txt").write_bytes(b"two")
    return path


def bundle(path: Path, data: bytes = b"\0\0\0\0") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="data/w.bin")
    model = helper.make_model(helper.make_graph([], "g", [], [], initializer=[tensor]))
    (path / "m.onnx").write_bytes(model.SerializeToString())
    (path / "data").mkdir(exist_ok=True)
    (path / "data" / "w.bin").write_bytes(data)
    return path / "m.onnx"


def test_file_has_the_digest_of_its_content_and_is_used_in_place(tmp_path: Path, files: StatCache) -> None:
    path = tmp_path / "w.pt"
    path.write_bytes(b"weights")

    content = local_digest(path, files)

    assert (content.digest, content.size_bytes, content.is_folder) == (digest_bytes(b"weights"), 7, False)
    assert content.files == {"w.pt": path}
    assert stage(content, tmp_path / "staged") == path


def test_folder_has_the_digest_that_the_store_gives_it(tmp_path: Path, files: StatCache) -> None:
    content = local_digest(folder(tmp_path / "calib"), files)

    artifact = Store.open(tmp_path / "cache").objects.publish(tmp_path / "calib")
    assert content.digest == artifact.digest
    assert list(content.files) == ["a/b/two.txt", "one.txt"]
    assert content.digests["one.txt"] == digest_bytes(b"one")
    assert (content.size_bytes, content.is_folder) == (6, True)


def test_moved_folder_keeps_its_digest(tmp_path: Path, files: StatCache) -> None:
    before = local_digest(folder(tmp_path / "here"), files).digest

    (tmp_path / "here").rename(tmp_path / "there")

    assert local_digest(tmp_path / "there", files).digest == before


@pytest.mark.parametrize("name", [".git/HEAD", "a/__pycache__/x.pyc", ".one.txt.swp", "one.txt~", "a/.DS_Store"])
def test_rubbish_of_tools_does_not_count(tmp_path: Path, files: StatCache, name: str) -> None:
    root = folder(tmp_path / "calib")
    before = local_digest(root, files).digest

    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_bytes(b"rubbish")

    assert local_digest(root, files).digest == before


def add(root: Path) -> None:
    (root / "three.txt").write_bytes(b"three")


def swap(root: Path) -> None:
    (root / "one.txt").write_bytes(b"two")
    (root / "a/b/two.txt").write_bytes(b"one")


def rename(root: Path) -> None:
    (root / "one.txt").rename(root / "eins.txt")


def remove(root: Path) -> None:
    (root / "one.txt").unlink()


def make_empty_folder(root: Path) -> None:
    (root / "a" / "bird").mkdir()


def link_to_nothing(root: Path) -> None:
    (root / "a" / "gone").symlink_to("nowhere")


def link_upwards(root: Path) -> None:
    (root / "a" / "loop").symlink_to(root)


def link_to_itself(root: Path) -> None:
    (root / "a" / "self").symlink_to("self")


CHANGES = [add, swap, rename, remove, make_empty_folder, link_to_nothing, link_upwards, link_to_itself]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_folder_has_another_digest(tmp_path: Path, files: StatCache, change: Callable[[Path], None]) -> None:
    root = folder(tmp_path / "calib")
    before = local_digest(root, files).digest

    change(root)

    assert local_digest(root, files).digest != before


def test_link_to_a_file_counts_as_the_file(tmp_path: Path, files: StatCache) -> None:
    before = local_digest(folder(tmp_path / "plain"), files).digest
    linked = folder(tmp_path / "linked")
    (linked / "one.txt").rename(tmp_path / "elsewhere")

    (linked / "one.txt").symlink_to(tmp_path / "elsewhere")

    assert local_digest(linked, files).digest == before


def test_link_upwards_adds_no_files(tmp_path: Path, files: StatCache) -> None:
    root = folder(tmp_path / "calib")
    before = local_digest(root, files).files

    link_upwards(root)

    assert local_digest(root, files).files == before


def test_moved_folder_with_links_keeps_its_digest(tmp_path: Path, files: StatCache) -> None:
    here, there = folder(tmp_path / "here"), folder(tmp_path / "there")
    for root in (here, there):
        link_upwards(root)
        make_empty_folder(root)

    assert local_digest(here, files).digest == local_digest(there, files).digest


def test_link_to_another_folder_is_refused(tmp_path: Path, files: StatCache) -> None:
    root, other = folder(tmp_path / "calib"), folder(tmp_path / "other")
    (root / "images").symlink_to(other)

    with pytest.raises(SourceError) as caught:
        local_digest(root, files)

    assert str(caught.value) == (
        f"source '{root}/images': is a link to a folder, which is not followed\n"
        f"  name '{other}' as a source of its own, or put the folder in place of the link"
    )


def test_device_in_a_folder_is_refused(tmp_path: Path, files: StatCache) -> None:
    os.mkfifo(folder(tmp_path / "calib") / "pipe")

    with pytest.raises(SourceError, match=f"source '{tmp_path}/calib/pipe': is neither a file nor a folder"):
        local_digest(tmp_path / "calib", files)


def test_missing_file_says_which_is_near(tmp_path: Path, files: StatCache) -> None:
    (tmp_path / "weights.pt").write_bytes(b"")

    with pytest.raises(SourceError) as caught:
        local_digest(tmp_path / "wieghts.pt", files)

    assert str(caught.value) == (
        f"source '{tmp_path}/wieghts.pt': there is no such file. Did you mean 'weights.pt'?\n"
        "  put it there, or write where it is: uri: … in the recipe"
    )


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123456\n"


@pytest.mark.parametrize("place", ["w.pt", "folder/w.pt"])
def test_git_lfs_pointer_is_refused(tmp_path: Path, files: StatCache, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_bytes(POINTER)

    with pytest.raises(SourceError) as caught:
        local_digest(tmp_path / place.split("/")[0], files)

    assert str(caught.value) == (
        f"source '{tmp_path / place}': is a Git LFS pointer, not the file itself\n  git lfs pull"
    )


def test_html_page_in_place_of_weights_is_refused(tmp_path: Path, files: StatCache) -> None:
    (tmp_path / "w.pt").write_bytes(b"\n<!DOCTYPE html><html><title>Sign in</title>")

    with pytest.raises(SourceError) as caught:
        local_digest(tmp_path / "w.pt", files)

    assert str(caught.value) == (
        f"source '{tmp_path}/w.pt': is an HTML page, not the file itself\n"
        "  the download was answered with a page (a login, a licence, an error): download it again"
    )


def test_html_file_may_be_a_source(tmp_path: Path, files: StatCache) -> None:
    (tmp_path / "page.html").write_bytes(b"<html></html>")

    assert local_digest(tmp_path / "page.html", files).size_bytes == 13


def test_external_data_is_part_of_the_model(tmp_path: Path, files: StatCache) -> None:
    before = local_digest(bundle(tmp_path / "a"), files)
    after = local_digest(bundle(tmp_path / "b", data=b"\0\0\0\1"), files)

    assert before.digest != after.digest
    assert list(before.files) == ["m.onnx", "data/w.bin"]
    assert before.size_bytes == sum(path.stat().st_size for path in before.files.values())


def test_renamed_model_keeps_its_digest(tmp_path: Path, files: StatCache) -> None:
    model = bundle(tmp_path)
    before = local_digest(model, files).digest

    renamed = model.rename(tmp_path / "other.onnx")

    assert local_digest(renamed, files).digest == before


def test_plain_bundle_is_used_in_place(tmp_path: Path, files: StatCache) -> None:
    model = bundle(tmp_path)

    assert stage(local_digest(model, files), tmp_path / "staged") == model
    assert not (tmp_path / "staged").exists()


def hub_cache(root: Path) -> Path:
    """Model and data both links into a folder of blobs, as the Hugging Face cache lays them out."""
    real = bundle(root / "real")
    snapshot = root / "snapshots" / "1"
    (snapshot / "data").mkdir(parents=True)
    (root / "blobs").mkdir()
    for name in ("m.onnx", "data/w.bin"):
        blob = root / "blobs" / Digest(name.replace("/", "-"))
        (real.parent / name).rename(blob)
        (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
    return snapshot / "m.onnx"


def hard_link(root: Path) -> Path:
    model = bundle(root / "real")
    os.link(model.parent / "data" / "w.bin", root / "second-name")
    return model


@pytest.mark.parametrize("linked", [hub_cache, hard_link])
def test_linked_bundle_is_staged_as_real_files_that_onnx_loads(
    tmp_path: Path, files: StatCache, linked: Callable[[Path], Path]
) -> None:
    model = linked(tmp_path)
    content = local_digest(model, files)

    staged = stage(content, tmp_path / "staged")

    assert content.digest == local_digest(bundle(tmp_path / "plain"), files).digest
    assert staged == tmp_path / "staged" / "m.onnx"
    assert not any(path.is_symlink() for path in (tmp_path / "staged").rglob("*"))
    assert len(onnx.load(staged).graph.initializer) == 1


def test_link_to_a_model_with_its_data_is_used_where_it_really_lies(tmp_path: Path, files: StatCache) -> None:
    model = bundle(tmp_path / "real")
    (tmp_path / "det.onnx").symlink_to(model)

    content = local_digest(tmp_path / "det.onnx", files)

    assert stage(content, tmp_path / "staged") == model


def test_the_home_of_a_user_who_is_not_known_is_no_fault_of_ours(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  data: {kind: source, uri: ~nosuchuser/w.txt}\n")

    done = project.mobuild("target=data", check=False)

    assert f"source '{project.root}/~nosuchuser/w.txt': there is no such file" in done.errors[0]
