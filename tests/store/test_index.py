"""The index of records: a record that was found right is not read again, and not taken once anything changed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mobuild.store import Condition, Record, Store
from mobuild.store import record as written
from tests.store.finished import FINGERPRINT, record

LATER = 1 << 62  # all was written long before


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "cache")


HELD = Condition("file", "table.txt", "a digest")


def finished(store: Store, is_folder: bool = False, *conditions: Condition) -> Record:
    """A record in the store, with its object."""
    staged = store.staging() / "out"
    if is_folder:
        staged.mkdir()
    (staged / "a" if is_folder else staged).write_bytes(b"content")
    return store.records.publish(record(artifact=store.objects.publish(staged), conditions=conditions))


def noted(store: Store, *conditions: Condition) -> Record:
    found = finished(store, False, *conditions)
    store.index.note(found, LATER)
    store.index.keep()
    assert store.index.get(found.key, found.fingerprint) == found
    return found


def rewritten(path: Path) -> None:
    """Other content of equal size, and the old times."""
    seen = path.stat()
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"c", b"d"))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def moved_away(path: Path) -> None:
    path.rename(path.with_name("away"))


def test_a_record_is_known_to_other_processes(store: Store) -> None:
    found = noted(store)

    assert Store.open(store.root).index.get(found.key, found.fingerprint) == found
    assert list(map(type, vars(store.index.get(found.key, found.fingerprint)).values())) == list(
        map(type, vars(found).values())
    )


@pytest.mark.parametrize("change", [rewritten, moved_away, Path.unlink])
@pytest.mark.parametrize("of_object", [True, False])
def test_a_record_is_not_known_once_its_file_or_its_object_changed(
    store: Store, change: Callable[[Path], None], of_object: bool
) -> None:
    found = noted(store)

    change(store.objects.path(found.artifact.digest) if of_object else store.records.path(found))

    assert store.index.get(found.key, found.fingerprint) is None


def test_a_record_with_conditions_is_not_known_once_another_one_of_its_key_came(store: Store) -> None:
    found = noted(store, HELD)

    store.records.publish(dataclasses.replace(found, conditions=(Condition("file", "a", "b"),)))

    assert store.index.get(found.key, found.fingerprint) is None


def test_a_record_without_conditions_holds_whatever_comes_beside_it(store: Store) -> None:
    found = noted(store)

    store.records.publish(dataclasses.replace(found, conditions=(HELD,)))

    assert store.index.get(found.key, found.fingerprint) == found


def test_what_a_version_with_other_fields_noted_is_not_taken(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = noted(store, HELD)

    monkeypatch.setattr(written, "_LAYOUT", 0)

    assert store.index.get(found.key, found.fingerprint) is None


@pytest.mark.parametrize("why", ["folder", "just written", "one of two"])
def test_what_cannot_be_watched_is_not_noted(store: Store, why: str) -> None:
    found = finished(store, is_folder=why == "folder")
    if why == "one of two":
        store.records.publish(dataclasses.replace(found, conditions=(Condition("file", "a", "b"),)))

    store.index.note(found, store.files.now_ns() if why == "just written" else LATER)
    store.index.keep()

    assert store.index.get(found.key, found.fingerprint) is None


def test_what_another_version_wrote_is_not_known(store: Store) -> None:
    token, _ = store.files.noted(f"record {noted(store).key}")

    store.files.note_as([(f"record {FINGERPRINT.key}", token, '{"schema": 9, "checksum": ""}')])

    assert store.index.get(FINGERPRINT.key, FINGERPRINT) is None


def test_gc_forgets_all(store: Store) -> None:
    found = noted(store)

    store.index.forget()

    assert store.index.get(found.key, found.fingerprint) is None
