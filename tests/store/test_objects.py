"""Objects: published whole, never trusted blindly, handed out as real copies."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mobuild.errors import StoreError
from mobuild.fingerprint import Digest, digest_bytes
from mobuild.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "cache")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 1 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small tmpfs is not permitted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def staged_file(store: Store, content: bytes) -> Path:
    path = store.staging() / "artifact"
    path.write_bytes(content)
    return path


def staged_folder(store: Store) -> Path:
    folder = store.staging() / "artifact"
    (folder / "data").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"model")
    (folder / "data" / "w.bin").write_bytes(b"weights")
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def flip_bit(path: Path) -> None:
    """Change one bit and put the mtime back: only ctime shows it."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.chmod(0o644)
    with open(path, "r+b") as stream:
        stream.write(data)
    path.chmod(0o444)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rubbish(store: Store) -> list[Path]:
    return [path for path in (store.root / "objects").rglob("*") if path.is_file()]


def test_published_file_is_read_only_under_its_digest(store: Store) -> None:
    artifact = store.objects.publish(staged_file(store, b"content"))

    path = store.objects.path(artifact.digest)
    assert artifact.digest == digest_bytes(b"content") == "".join(path.parts[-2:])
    assert artifact.sha256 == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    assert (artifact.size_bytes, artifact.is_folder) == (7, False)
    assert path.stat().st_mode & 0o777 == 0o444
    assert store.objects.holds(artifact.digest)


def test_file_outside_staging_is_copied_not_moved(store: Store, tmp_path: Path) -> None:
    mine = tmp_path / "mine.pt"
    mine.write_bytes(b"content")

    artifact = store.objects.publish(mine)

    assert mine.read_bytes() == b"content"
    assert not mine.samefile(store.objects.path(artifact.digest))


def test_staged_file_with_a_second_name_is_copied(store: Store) -> None:
    staged = staged_file(store, b"content")
    other = staged.with_name("other")
    os.link(staged, other)

    artifact = store.objects.publish(staged)
    other.write_bytes(b"changed")

    assert store.objects.path(artifact.digest).read_bytes() == b"content"


def test_same_content_twice_is_one_object(store: Store) -> None:
    first = store.objects.publish(staged_file(store, b"content"))
    place = store.objects.path(first.digest).stat()

    second = store.objects.publish(staged_file(store, b"content"))

    assert second == first
    assert store.objects.path(first.digest).stat().st_ino == place.st_ino


def test_folder_comes_back_with_names_contents_and_executable_bits(store: Store, tmp_path: Path) -> None:
    artifact = store.objects.publish(staged_folder(store))

    store.objects.materialise(artifact.digest, tmp_path / "out")

    assert list(store.objects.listing(artifact.digest)) == ["data/w.bin", "model.onnx", "run.sh"]
    assert (artifact.size_bytes, artifact.is_folder) == (22, True)
    assert (tmp_path / "out/data/w.bin").read_bytes() == b"weights"
    assert os.access(tmp_path / "out/run.sh", os.X_OK)
    assert (tmp_path / "out/model.onnx").stat().st_mode & 0o777 == 0o644


def test_folder_digest_is_golden(store: Store) -> None:
    artifact = store.objects.publish(staged_folder(store))

    assert artifact.digest == "a8f120de272754768354b2d9e24d2e60"
    assert artifact.sha256 == "5bebb754f8b6bca384628b133696663480e9d1f804b9cbdad0373b199aa4a287"


def test_folder_with_a_symbolic_link_is_refused(store: Store) -> None:
    folder = staged_folder(store)
    (folder / "link").symlink_to("model.onnx")

    with pytest.raises(StoreError) as caught:
        store.objects.publish(folder)

    assert caught.value.message == f"folder '{folder}': 'link' is a symbolic link, which cannot be kept"


def test_file_that_pretends_to_be_a_folder_is_refused(store: Store) -> None:
    staged = staged_file(store, b'mobuild folder 1\n{"../../x":{}}')

    with pytest.raises(StoreError, match="begins as a folder listing of mobuild"):
        store.objects.publish(staged)

    assert rubbish(store) == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_damaged_object_is_moved_aside_with_a_warning(store: Store, damage: str) -> None:
    artifact = store.objects.publish(staged_file(store, b"content"))
    path = store.objects.path(artifact.digest)

    if damage == "flip":
        flip_bit(path)
    else:
        os.truncate(path, 3 if damage == "truncate" else 0)

    assert not store.objects.holds(artifact.digest)
    assert store.warnings == [
        f"cache object {artifact.digest} was damaged (its content changed), and is in quarantine now"
    ]
    assert not path.exists()
    assert len(list((store.local / "quarantine").glob(f"{artifact.digest}-*/object"))) == 1


@pytest.mark.parametrize("there", ["folder", "link", "dangling link", "pipe"])
def test_what_is_no_file_is_no_object_and_heals(store: Store, tmp_path: Path, there: str) -> None:
    artifact = store.objects.publish(staged_file(store, b"content"))
    path = store.objects.path(artifact.digest)
    if there == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.unlink()
    if there == "folder":
        (path / "sub").mkdir(parents=True)
    elif there == "dangling link":
        path.symlink_to("nowhere")
    elif there == "pipe":
        os.mkfifo(path)

    assert not store.objects.holds(artifact.digest)
    assert store.warnings == [f"cache object {artifact.digest} was damaged (it is no file), and is in quarantine now"]
    assert store.objects.publish(staged_file(store, b"content")) == artifact
    assert path.read_bytes() == b"content"


def test_damaged_object_heals_when_published_again(store: Store) -> None:
    artifact = store.objects.publish(staged_file(store, b"content"))
    flip_bit(store.objects.path(artifact.digest))

    again = store.objects.publish(staged_file(store, b"content"))

    assert again == artifact
    assert store.objects.path(artifact.digest).read_bytes() == b"content"


def test_touched_object_is_read_once_and_raises_no_warning(store: Store) -> None:
    artifact = store.objects.publish(staged_file(store, b"content"))
    path = store.objects.path(artifact.digest)
    os.utime(path, ns=(1, 1))

    assert store.objects.holds(artifact.digest)

    assert store.files.known(path) == artifact.digest
    assert store.warnings == []


def test_folder_with_a_lost_member_is_a_miss(store: Store) -> None:
    artifact = store.objects.publish(staged_folder(store))
    member = store.objects.listing(artifact.digest)["data/w.bin"]

    store.objects.path(member).unlink()

    assert not store.objects.holds(artifact.digest)


def test_unknown_digest_is_a_miss(store: Store) -> None:
    assert not store.objects.holds(Digest("0" * 32))


def test_copy_is_neither_a_link_nor_read_only(store: Store, tmp_path: Path) -> None:
    artifact = store.objects.publish(staged_file(store, b"content"))

    store.objects.materialise(artifact.digest, tmp_path / "build" / "engine.plan")

    copy = tmp_path / "build" / "engine.plan"
    copy.write_bytes(b"changed by the user")
    assert not copy.is_symlink() and copy.stat().st_nlink == 1
    assert store.objects.path(artifact.digest).read_bytes() == b"content"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_equal_destination_is_left_alone(store: Store, tmp_path: Path, kind: str) -> None:
    staged = staged_file(store, b"content") if kind == "file" else staged_folder(store)
    artifact, copy = store.objects.publish(staged), tmp_path / "copy"
    store.objects.materialise(artifact.digest, copy)
    before = copy.stat()

    store.objects.materialise(artifact.digest, copy)

    assert (copy.stat().st_ino, copy.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("there", ["other file", "hard link", "link", "folder", "dangling link"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_other_destination_is_replaced(store: Store, tmp_path: Path, there: str, kind: str) -> None:
    lone = store.objects.publish(staged_file(store, b"content"))
    artifact = lone if kind == "file" else store.objects.publish(staged_folder(store))
    copy = tmp_path / "out" / "copy"
    copy.parent.mkdir()
    if there == "folder":
        (copy / "extra").mkdir(parents=True)
    elif there == "hard link":
        os.link(store.objects.path(lone.digest), copy)
    elif there == "other file":
        copy.write_bytes(b"other")
    else:
        copy.symlink_to(store.objects.path(lone.digest) if there == "link" else "nowhere")

    store.objects.place(artifact, copy)

    assert not copy.is_symlink()
    if kind == "file":
        assert copy.read_bytes() == b"content" and copy.stat().st_nlink == 1
    else:
        assert sorted(path.name for path in copy.iterdir()) == ["data", "model.onnx", "run.sh"]
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]


@pytest.mark.parametrize("size_bytes", [0, 1 << 20, (5 << 20) + 3])
def test_a_file_from_elsewhere_is_copied_whole(store: Store, tmp_path: Path, size_bytes: int) -> None:
    mine, data = tmp_path / "mine", random.Random(1).randbytes(size_bytes)
    mine.write_bytes(data)

    artifact = store.objects.publish(mine)

    assert store.objects.path(artifact.digest).read_bytes() == mine.read_bytes() == data
    assert (artifact.digest, artifact.sha256) == (digest_bytes(data), hashlib.sha256(data).hexdigest())
    assert artifact.size_bytes == size_bytes


def test_a_known_copy_that_was_changed_is_replaced(store: Store, tmp_path: Path) -> None:
    artifact, copy = store.objects.publish(staged_file(store, b"content")), tmp_path / "copy"
    for _ in range(2):
        store.objects.place(artifact, copy)
    before = copy.stat()
    copy.write_bytes(b"CONTENT")
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))

    store.objects.place(artifact, copy)

    assert copy.read_bytes() == b"content"


def test_many_may_replace_one_folder_at_once(store: Store, tmp_path: Path) -> None:
    one = store.objects.publish(staged_folder(store))
    changed = staged_folder(store)
    (changed / "model.onnx").write_bytes(b"another model")
    other, copy = store.objects.publish(changed), tmp_path / "out" / "copy"

    def replace(number: int) -> None:
        for artifact in (one, other) * 10 if number % 2 else (other, one) * 10:
            store.objects.materialise(artifact.digest, copy)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(replace, range(8)))

    assert (copy / "model.onnx").read_bytes() in (b"model", b"another model")
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]


def test_copying_a_lost_object_says_so(store: Store, tmp_path: Path) -> None:
    digest = Digest("0" * 32)

    with pytest.raises(StoreError) as caught:
        store.objects.materialise(digest, tmp_path / "copy")

    assert str(caught.value) == (f"cache object {digest}: is missing or damaged\n  run again: it is built anew")


def test_full_disk_names_the_place_and_leaves_nothing(small_disk: Path, tmp_path: Path) -> None:
    store = Store.open(small_disk / "cache")
    kept = store.objects.publish(staged_file(store, b"kept"))
    big = tmp_path / "big"
    big.write_bytes(bytes(2 << 20))

    with pytest.raises(StoreError) as caught:
        store.objects.publish(big)

    assert str(caught.value).startswith(f"'{small_disk}/cache': cannot be written: {os.strerror(errno.ENOSPC)}\n")
    assert rubbish(store) == [store.objects.path(kept.digest)]
    assert not list((store.local / "staging").glob("publish-*"))
    assert store.objects.holds(kept.digest)


def test_read_only_cache_serves_hits_and_refuses_to_publish(small_disk: Path, tmp_path: Path) -> None:
    writable = Store.open(small_disk / "cache")
    artifact = writable.objects.publish(staged_file(writable, b"content"))
    writable.files.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    store = Store.open(small_disk / "cache")
    store.objects.materialise(artifact.digest, tmp_path / "copy")

    assert not store.writable
    assert (tmp_path / "copy").read_bytes() == b"content"
    with pytest.raises(StoreError) as caught:
        store.objects.publish(tmp_path / "copy")
    assert str(caught.value) == (
        f"cache '{small_disk}/cache': is read-only, nothing can be published\n"
        "  choose another folder with cache.dir=<folder> or MOBUILD_CACHE=<folder>"
    )


_KILLED = """
import os, signal, sys
from pathlib import Path
from mobuild.store import Store, blobs, measuring

store = Store.open(Path(sys.argv[1]))
staged = store.staging() / "artifact"
staged.write_bytes(b"content" * int(sys.argv[2]))
blobs.sync = measuring.sync = lambda path: os.kill(os.getpid(), signal.SIGKILL)
store.objects.publish(staged)
"""


@pytest.mark.parametrize("times", [1, 1 << 18], ids=["small", "large"])
def test_process_killed_before_the_rename_leaves_no_object(store: Store, times: int) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(store.root), str(times)], check=False)

    assert done.returncode == -signal.SIGKILL
    assert rubbish(store) == []
    artifact = store.objects.publish(staged_file(store, b"content" * times))
    assert store.objects.holds(artifact.digest)
