"""Records: created once, never trusted, set aside when they cannot be used."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobuild.errors import StoreError
from mobuild.fingerprint import Key, digest_bytes
from mobuild.store import Condition, Store
from mobuild.store.record import Unreadable, decode, encode
from tests.store.finished import FINGERPRINT, record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "cache")


def place(store: Store, name: str = "plain.json") -> Path:
    return store.root / "records" / FINGERPRINT.key[:2] / FINGERPRINT.key / name


def test_record_comes_back_as_it_was(store: Store) -> None:
    published = store.records.publish(record())

    assert published == record()
    assert store.records.find(FINGERPRINT.key) == (record(),)
    assert place(store).stat().st_mode & 0o777 == 0o444


def test_the_name_of_a_file_that_is_no_text_comes_back(store: Store) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    made = record(conditions=(Condition("file", name, "-"),), warnings=(f"reads {name}",))

    store.records.publish(made)

    assert store.records.find(made.key) == (made,)


def test_first_writer_wins(store: Store) -> None:
    first = store.records.publish(record())

    second = store.records.publish(record(seconds=9.0))

    assert second == first


def test_records_of_other_conditions_stand_beside_each_other_newest_first(store: Store) -> None:
    observed = Condition("file", "vocabulary.txt", "-")
    old = store.records.publish(record())
    new = store.records.publish(record(conditions=(observed,), created="2026-01-03T00:00:00Z"))

    assert store.records.find(FINGERPRINT.key) == (new, old)


def test_order_of_conditions_does_not_matter(store: Store) -> None:
    one, two = Condition("file", "a", "-"), Condition("environment", "B", "cd" * 16)
    first = store.records.publish(record(conditions=(one, two)))

    assert store.records.publish(record(conditions=(two, one))) == first


def test_unknown_key_has_no_records(store: Store) -> None:
    assert store.records.find(Key("0" * 32)) == ()


DAMAGE = {
    "truncated": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "not JSON": lambda text: "\x80\x04pickle",
    "a list": lambda text: "[]",
    "deep": lambda text: "[" * 100_000,
    "newer": lambda text: text.replace('"schema": 2', '"schema": 3'),
    "another key": lambda text: text.replace(FINGERPRINT.key, "0" * 32),
    "another fingerprint": lambda text: text.replace('"opset": 20,\n   "shapes"', '"opset": 21,\n   "shapes"'),
    "a path as digest": lambda text: text.replace("cd" * 16, "../" * 10 + "cd"),
    "a path as digest of the log": lambda text: text.replace('"log": null', '"log": "../../../../../etc/hostname"'),
    "a path as ending": lambda text: text.replace('".onnx"', '"/../../../evil.sh"'),
    "a field too many": lambda text: text.replace('"schema": 2', '"schema": 2, "evil": 1'),
    "a wrong type": lambda text: text.replace('"seconds": 1.5', '"seconds": "1.5"'),
    "what was seen is no text": lambda text: text.replace('"host": "a"', '"host": 5'),
    "no end": lambda text: text.replace('"seconds": 1.5', '"seconds": NaN'),
    "beyond all floats": lambda text: text.replace('"seconds": 1.5', f'"seconds": 1{"0" * 400}'),
    "other conditions": lambda text: text.replace(
        '"conditions": []', '"conditions": [{"kind": "file", "name": "a", "value": "-"}]'
    ),
}


def with_checksum(text: str) -> str:
    """As a forger would write it: with the checksum that belongs to what it says now, if it says anything."""
    try:
        document = json.loads(text)
        del document["checksum"]
    except (ValueError, TypeError, RecursionError):
        return text
    return json.dumps({**document, "checksum": digest_bytes(json.dumps(document, sort_keys=True).encode())})


@pytest.mark.parametrize("damage", DAMAGE)
def test_unusable_record_is_a_miss_with_a_warning_until_published_again(store: Store, damage: str) -> None:
    store.records.publish(record())
    text = place(store).read_text()
    assert DAMAGE[damage](text) != text
    place(store).unlink()
    place(store).write_text(with_checksum(DAMAGE[damage](text)), encoding="latin-1")

    assert store.records.find(FINGERPRINT.key) == ()
    assert len(store.warnings) == 1
    assert store.warnings[0].startswith(f"cache record '{FINGERPRINT.key}/plain.json' is not usable (")

    assert store.records.publish(record()) == record()
    assert store.records.find(FINGERPRINT.key) == (record(),)
    assert place(store, "plain.json.damaged-1").exists()


def test_a_number_that_changed_on_the_disk_is_noticed(store: Store) -> None:
    store.records.publish(record())
    text = place(store).read_text()
    place(store).unlink()
    place(store).write_text(text.replace("Infinity", "0"))

    assert store.records.find(FINGERPRINT.key) == ()
    assert store.warnings == [f"cache record '{FINGERPRINT.key}/plain.json' is not usable (its content changed)"]


@pytest.mark.parametrize("there", ["folder", "link", "dangling link", "pipe"])
def test_what_is_no_file_is_no_record_until_published_again(store: Store, tmp_path: Path, there: str) -> None:
    store.records.publish(record())
    if there == "link":
        place(store).rename(tmp_path / "elsewhere.json")
        place(store).symlink_to(tmp_path / "elsewhere.json")
    else:
        place(store).unlink()
    if there == "folder":
        place(store).mkdir()
    elif there == "dangling link":
        place(store).symlink_to("nowhere")
    elif there == "pipe":
        os.mkfifo(place(store))

    assert store.records.find(FINGERPRINT.key) == ()
    assert store.warnings == [f"cache record '{FINGERPRINT.key}/plain.json' is not usable (it is no file)"]
    assert store.records.publish(record()) == record()


@pytest.mark.parametrize("level", ["key", "shelf"])
def test_a_file_in_place_of_a_folder_of_records_is_a_miss(store: Store, level: str) -> None:
    folder = place(store).parent if level == "key" else place(store).parent.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way")

    assert store.records.find(FINGERPRINT.key) == ()
    assert store.warnings == [f"cache records '{place(store).parent}' cannot be read (Not a directory)"]


def test_record_set_aside_is_a_miss_and_can_be_published_again(store: Store) -> None:
    for number in (1, 2):
        published = store.records.publish(record(seconds=float(number)))
        store.records.set_aside(published)

        assert store.records.find(FINGERPRINT.key) == ()
        assert json.loads(place(store, f"plain.json.damaged-{number}").read_text())["seconds"] == number


def test_record_of_a_measurement_that_is_no_number_is_set_aside_too(store: Store) -> None:
    published = record(measurements={"cosine": float("nan")})
    store.records.publish(published)

    store.records.set_aside(published)

    assert store.records.find(FINGERPRINT.key) == ()


def test_record_that_another_process_replaced_is_not_set_aside(store: Store) -> None:
    lost = store.records.publish(record())
    place(store).unlink()
    healed = store.records.publish(record(seconds=9.0))

    store.records.set_aside(lost)

    assert store.records.find(FINGERPRINT.key) == (healed,)


def test_measurement_that_is_no_plain_value_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="record of kind 'export': a measurement is no plain value: "):
        store.records.publish(record(measurements={"x": object()}))

    assert list(place(store).parent.glob("*")) == []


def test_file_in_place_of_the_records_names_the_place(store: Store) -> None:
    (store.root / "records").rmdir()
    (store.root / "records").write_bytes(b"")

    with pytest.raises(StoreError, match=f"'{store.root}': cannot be written: "):
        store.records.publish(record())


@given(st.binary())
def test_any_bytes_are_a_record_or_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(data)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)


@given(st.sampled_from(sorted(json.loads(encode(record())))), PLAIN)
def test_a_record_with_any_value_for_a_field_is_a_record_or_unreadable(field: str, value: object) -> None:
    document = json.loads(encode(record()))
    document[field] = value

    with suppress(Unreadable):
        decode(with_checksum(json.dumps(document)).encode())


@given(st.dictionaries(st.text(), PLAIN, max_size=3))
def test_any_measurements_come_back(measurements: dict[str, object]) -> None:
    data = encode(record(measurements=measurements))

    assert encode(decode(data)) == data
