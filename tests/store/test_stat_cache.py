"""The stat cache: an unchanged file is read once, a changed one is never missed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mobuild.errors import SourceError
from mobuild.fingerprint import digest_bytes, sha256_file
from mobuild.store import stat_cache
from mobuild.store.stat_cache import StatCache

SECOND_NS = 1_000_000_000


class World:
    """A clock and the time stamps of files, both set by the test."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND_NS + 1
        self.stamped_ns: int | None = 500 * SECOND_NS + 1

    def clock_ns(self) -> int:
        return self.now_ns

    def stat(self, path: Path | str) -> os.stat_result:
        seen = Path(path).stat()
        if self.stamped_ns is None:
            return seen
        exact = {"st_mtime_ns": self.stamped_ns, "st_ctime_ns": self.stamped_ns}
        return os.stat_result(tuple(seen), exact)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file that was really read for its digest."""
    found: list[Path] = []
    real = stat_cache.digest_file

    def counted(path: Path) -> str:
        found.append(path)
        return real(path)

    monkeypatch.setattr(stat_cache, "digest_file", counted)
    return found


def opened(tmp_path: Path, world: World) -> StatCache:
    return StatCache(tmp_path / "files.sqlite", world.clock_ns, world.stat)


def test_unchanged_file_is_read_once_for_all_processes(tmp_path: Path, world: World, readings: list[Path]) -> None:
    path = tmp_path / "w.pt"
    path.write_bytes(b"one")

    digests = {opened(tmp_path, world).digest(path) for _ in range(3)}

    assert digests == {digest_bytes(b"one")}
    assert readings == [path]


def test_touched_file_is_read_once_more_and_not_twice(tmp_path: Path, world: World, readings: list[Path]) -> None:
    path, files = tmp_path / "w.pt", opened(tmp_path, world)
    path.write_bytes(b"one")
    files.digest(path)

    world.stamped_ns = 600 * SECOND_NS + 1
    files.digest(path)
    files.digest(path)

    assert len(readings) == 2


@pytest.mark.parametrize(
    ("age_ns", "is_trusted"),
    [(0, False), (SECOND_NS // 20, False), (SECOND_NS // 2, True), (-SECOND_NS, False)],
)
def test_file_stamped_in_the_tick_of_its_reading_is_not_trusted(
    tmp_path: Path, world: World, readings: list[Path], age_ns: int, is_trusted: bool
) -> None:
    path, files = tmp_path / "w.pt", opened(tmp_path, world)
    path.write_bytes(b"one")
    world.stamped_ns = world.now_ns - age_ns
    files.digest(path)

    path.write_bytes(b"two")  # in the same tick: the same token
    digest = files.digest(path)

    assert digest == digest_bytes(b"one" if is_trusted else b"two")
    assert len(readings) == (1 if is_trusted else 2)


def test_whole_seconds_mean_a_coarse_clock(tmp_path: Path, world: World, readings: list[Path]) -> None:
    path, files = tmp_path / "w.pt", opened(tmp_path, world)
    path.write_bytes(b"one")
    world.now_ns, world.stamped_ns = 1_001 * SECOND_NS, 1_000 * SECOND_NS

    files.digest(path)
    files.digest(path)

    assert len(readings) == 2


def test_edit_with_mtime_put_back_is_seen(tmp_path: Path, world: World) -> None:
    world.stamped_ns = None  # real time stamps, and a clock that trusts them
    world.now_ns = 1 << 62
    path, files = tmp_path / "w.pt", opened(tmp_path, world)
    path.write_bytes(b"one")
    before = path.stat()
    files.digest(path)

    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert files.digest(path) == digest_bytes(b"two")


def test_both_digests_of_a_file_are_kept(tmp_path: Path, world: World, readings: list[Path]) -> None:
    path, files = tmp_path / "w.pt", opened(tmp_path, world)
    path.write_bytes(b"one")

    files.digest(path)
    sha256 = files.sha256(path)
    files.digest(path)

    assert sha256 == sha256_file(path)
    assert len(readings) == 1


def test_changed_token_makes_both_digests_void(tmp_path: Path, world: World) -> None:
    path, files = tmp_path / "w.pt", opened(tmp_path, world)
    path.write_bytes(b"one")
    files.digest(path)
    files.sha256(path)

    path.write_bytes(b"two")
    world.stamped_ns = 600 * SECOND_NS + 1
    files.digest(path)

    assert files.sha256(path) == sha256_file(path)


def test_noted_digest_is_trusted_at_once(tmp_path: Path, world: World, readings: list[Path]) -> None:
    path, files = tmp_path / "object", opened(tmp_path, world)
    path.write_bytes(b"one")
    world.stamped_ns = world.now_ns

    files.note(path, digest_bytes(b"one"))

    assert files.known(path) == files.digest(path) == digest_bytes(b"one")
    assert readings == []


def test_file_that_changes_all_the_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, files = tmp_path / "w.pt", StatCache(None)
    path.write_bytes(b"one")
    real = stat_cache.digest_file

    def written_meanwhile(target: Path) -> str:
        with open(target, "ab") as stream:
            stream.write(b"more")
        return real(target)

    monkeypatch.setattr(stat_cache, "digest_file", written_meanwhile)

    with pytest.raises(SourceError) as caught:
        files.digest(path)

    assert str(caught.value) == (f"file '{path}': changes while it is read\n  wait until it is written, then run again")


@pytest.mark.parametrize("place", ["damaged", "no folder", "a folder"])
def test_unusable_cache_costs_time_only(tmp_path: Path, place: str) -> None:
    path, cache = tmp_path / "w.pt", tmp_path / "files.sqlite"
    path.write_bytes(b"one")
    if place == "damaged":
        cache.write_bytes(b"no database" * 1000)
    elif place == "a folder":
        cache.mkdir()
    else:
        cache = tmp_path / "missing" / "files.sqlite"

    assert StatCache(cache).digest(path) == digest_bytes(b"one")


_WRITER = """
import sys
from pathlib import Path
from mobuild.store.stat_cache import StatCache

folder = Path(sys.argv[1])
files = StatCache(folder / "files.sqlite", clock_ns=lambda: 1 << 62)
for i in range(200):
    files.digest(folder / f"{i % 20}.bin")
"""


def test_processes_share_one_cache(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"{i}.bin").write_bytes(bytes([i]))

    command = [sys.executable, "-c", _WRITER, str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]

    assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 3
    files = StatCache(tmp_path / "files.sqlite")
    assert [files.known(tmp_path / f"{i}.bin") for i in range(20)] == [digest_bytes(bytes([i])) for i in range(20)]


def test_files_together_mean_what_was_noted_until_one_of_them_changes(tmp_path: Path) -> None:
    files = StatCache(tmp_path / "files.sqlite")
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        Path(path).write_bytes(b"one")
    files.note_as([("both", files.together(paths), "meaning")])

    token, meaning = files.noted("both")
    before = files.together(paths)
    Path(paths[1]).write_bytes(b"three")

    assert (token, meaning) == (before, "meaning")
    assert files.noted("other") == ("", "")
    assert files.together(paths) != before


@pytest.mark.parametrize("stamped_ns", [1, -1, -SECOND_NS // 20])
def test_files_that_may_have_changed_while_they_were_looked_into_are_not_to_be_noted(
    tmp_path: Path, world: World, stamped_ns: int
) -> None:
    files, path = opened(tmp_path, world), tmp_path / "a"
    path.write_bytes(b"one")
    began_ns = world.now_ns

    world.stamped_ns = began_ns + stamped_ns
    changed = files.together([str(path)], began_ns)
    world.stamped_ns = began_ns - SECOND_NS
    unchanged = files.together([str(path)], began_ns)

    assert changed == ""
    assert unchanged


def test_an_absent_file_has_no_token(tmp_path: Path) -> None:
    assert StatCache(None).together([str(tmp_path), str(tmp_path / "absent")]) == ""


def test_what_is_forgotten_is_what_begins_with_the_word(tmp_path: Path) -> None:
    files = StatCache(None)
    files.note_as([("record 1", "t", "m"), ("recorded 1", "t", "m"), ("view 1", "t", "m")])

    files.forget("record")

    assert [files.noted(name) for name in ("record 1", "recorded 1", "view 1")] == [("", ""), ("t", "m"), ("t", "m")]


def test_what_is_read_meanwhile_is_kept(tmp_path: Path, world: World, readings: list[Path]) -> None:
    one, other = tmp_path / "one.pt", tmp_path / "other.pt"
    one.write_bytes(b"one")
    other.write_bytes(b"other")
    files = opened(tmp_path, world)
    files.note_as([("view a", "token", "meaning")])

    with files.reading():
        known = files.noted("view a")
        files.digest(one)
        opened(tmp_path, world).digest(other)  # another process writes, too
        files.note_as([("view b", "token", "meaning")])

    assert known == ("token", "meaning")
    assert opened(tmp_path, world).noted("view b") == ("token", "meaning")
    for path in (one, other):
        files.digest(path)
        opened(tmp_path, world).digest(path)
    assert readings == [one, other]


def test_others_write_while_it_is_read(tmp_path: Path, world: World) -> None:
    files, others = opened(tmp_path, world), opened(tmp_path, world)

    with files.reading():
        assert files.noted("view a") == ("", "")
        others.note_as([("view a", "token", "meaning")])
        assert files.noted("view a") == ("", "")  # as it was at the first question

    assert files.noted("view a") == ("token", "meaning")
    assert opened(tmp_path, world).noted("view a") == ("token", "meaning")
