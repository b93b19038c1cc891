"""What builders remember: slots that many processes change and none damages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mobuild import scratch

_CHILD = """
import sys
from pathlib import Path
from mobuild import scratch
scratch.folder = Path(sys.argv[1])
for number in range(20):
    scratch.update("one slot", lambda content: content + f"{sys.argv[2]}.{number}\\n".encode())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scratch, "folder", tmp_path / "scratch")
    return tmp_path / "scratch"


def test_a_new_slot_is_empty() -> None:
    assert scratch.read("timing l4") == b""


def test_a_slot_keeps_what_it_was_given(folder: Path) -> None:
    scratch.update("timing 10.16 NVIDIA L4/2", lambda content: content + b"one ")
    scratch.update("timing 10.16 NVIDIA L4/2", lambda content: content + b"two")

    assert scratch.read("timing 10.16 NVIDIA L4/2") == b"one two"
    assert (folder / "timing_10.16_NVIDIA_L4_2").read_bytes() == b"one two"


def test_processes_at_the_same_time_lose_nothing(folder: Path) -> None:
    command = [sys.executable, "-c", _CHILD, str(folder)]
    running = [subprocess.Popen([*command, name]) for name in "abcd"]
    assert [each.wait() for each in running] == [0, 0, 0, 0]

    lines = scratch.read("one slot").decode().splitlines()

    assert sorted(lines) == sorted(f"{name}.{number}" for name in "abcd" for number in range(20))


def test_a_change_that_fails_leaves_the_slot_alone() -> None:
    scratch.update("slot", lambda _: b"good")

    with pytest.raises(ZeroDivisionError):
        scratch.update("slot", lambda _: bytes(1 // 0))

    assert scratch.read("slot") == b"good"


def test_without_a_folder_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "folder", None)

    scratch.update("slot", lambda _: b"good")

    assert scratch.read("slot") == b""
