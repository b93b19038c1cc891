"""The store as a whole: its layout, its locks, its refs, and what it says when it cannot be opened."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mobuild.errors import StoreError
from mobuild.fingerprint import Fingerprint, Key
from mobuild.store import Condition, Record, Ref, Store
from tests.store.finished import record

KEY = Key("ab" * 16)
ELSEWHERE = "choose another folder with cache.dir=<folder> or MOBUILD_CACHE=<folder>"


def test_new_store_is_laid_out(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "a" / "cache")

    assert (store.root / "format").read_text() == "1\n"
    assert (store.root / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert store.writable
    assert store.local.parent == store.root / "local"
    assert stat.S_IMODE(store.staging().stat().st_mode) == 0o700


def test_store_opens_twice(tmp_path: Path) -> None:
    assert Store.open(tmp_path).local == Store.open(tmp_path).local


@pytest.mark.parametrize("found", ["2", "", "one"])
def test_store_of_another_format_is_refused(tmp_path: Path, found: str) -> None:
    (tmp_path / "format").write_text(found)

    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path)

    assert str(caught.value) == (
        f"cache '{tmp_path}': expected format 1, found {found!r}\n"
        f"  another version of mobuild wrote it: update mobuild, or {ELSEWHERE}"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["format"]


@pytest.mark.parametrize("root", ["file", "file/below", "/proc/mobuild"])
def test_store_that_cannot_be_made_says_where_and_how_to_go_on(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").write_bytes(b"in the way")

    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path / root)

    assert str(caught.value).startswith(f"cache '{tmp_path / root}': cannot be made: ")
    assert str(caught.value).endswith(f"\n  {ELSEWHERE}")


_HOLDER = """
import subprocess, sys
from pathlib import Path
from mobuild.store import Store

with Store.open(Path(sys.argv[1])).lock(sys.argv[2]):
    child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""

_WORKER = """
import sys
from pathlib import Path
from mobuild.store import Store

store = Store.open(Path(sys.argv[1]))
with store.lock(sys.argv[2]):
    done = store.root / "done"
    if not done.exists():
        with open(store.root / "runs", "a") as stream:
            stream.write("run\\n")
        sum(range(3_000_000))
        done.touch()
"""


def test_processes_on_one_cold_key_run_it_once(tmp_path: Path) -> None:
    store = Store.open(tmp_path)

    command = [sys.executable, "-c", _WORKER, str(store.root), KEY]
    running = [subprocess.Popen(command) for _ in range(3)]

    assert [process.wait() for process in running] == [0, 0, 0]
    assert (store.root / "runs").read_text() == "run\n"


def test_lock_of_a_killed_process_is_free_though_its_child_lives(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    command = [sys.executable, "-c", _HOLDER, str(store.root), KEY]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin and holder.stdout
    child = int(holder.stdout.readline())

    holder.kill()
    assert holder.wait() == -signal.SIGKILL

    with store.lock(KEY):  # blocks for as long as the child lives when it inherited the lock
        subprocess.run(["kill", str(child)], check=True)
    holder.stdin.close()
    holder.stdout.close()


def test_locks_of_different_keys_do_not_wait_for_each_other(tmp_path: Path) -> None:
    store = Store.open(tmp_path)

    with store.lock(KEY), store.lock(Key("cd" * 16)):
        pass


def finished(opset: int) -> Record:
    fingerprint = Fingerprint("export", 1, {"opset": opset})
    return record(key=fingerprint.key, fingerprint=fingerprint, conditions=(Condition("file", "a.txt", "0" * 64),))


def test_last_ref_wins(tmp_path: Path) -> None:
    refs = Store.open(tmp_path).refs
    for opset in (19, 20):
        refs.put(tmp_path, "det", "l20+fp16/x", {"onnx": finished(opset)})

    assert refs.get(tmp_path, "det", "l20+fp16/x", "onnx") == Ref(finished(20).fingerprint, finished(20).conditions)


def test_builds_of_different_nodes_keep_the_refs_of_each_other(tmp_path: Path) -> None:
    refs = Store.open(tmp_path).refs
    refs.put(tmp_path, "det", "l20", {"onnx": finished(19), "engine": finished(1)})
    Store.open(tmp_path).refs.put(tmp_path, "det", "l20", {"onnx": finished(20)})

    assert [refs.get(tmp_path, "det", "l20", name) for name in ("onnx", "engine")] == [
        Ref(finished(opset).fingerprint, finished(opset).conditions) for opset in (20, 1)
    ]


def test_refs_of_other_projects_and_nodes_are_apart(tmp_path: Path) -> None:
    refs = Store.open(tmp_path).refs
    refs.put(tmp_path, "det", "l20", {"onnx": finished(20)})

    assert refs.get(tmp_path / "other", "det", "l20", "onnx") is None
    assert refs.get(tmp_path, "det", "l20", "engine") is None


def test_damaged_ref_is_no_ref(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.refs.put(tmp_path, "det", "l20", {"onnx": finished(20)})
    for path in (store.local / "refs").rglob("*.json"):
        path.write_bytes(path.read_bytes()[:-9])

    assert store.refs.get(tmp_path, "det", "l20", "onnx") is None
