"""Pins: what a lock file says, and what it never says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import fsspec
import pytest

from mobuild import fetch, pins
from mobuild.errors import ConfigError, SourceError
from mobuild.pins import Pin

CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def test_pins_come_back_as_they_were_written(tmp_path: Path) -> None:
    found = {"s3://b/two.pt": Pin(SHA256, 7, "v2"), "s3://a/one.pt": Pin("0" * 64, 1)}

    pins.write(tmp_path / "det.lock", found)

    assert pins.read(tmp_path / "det.lock") == found


def test_lock_file_is_sorted_and_stable(tmp_path: Path) -> None:
    found = {"s3://b/two.pt": Pin(SHA256, 7, "v2"), "s3://a/one.pt": Pin("0" * 64, 1)}

    pins.write(tmp_path / "a.lock", found)
    pins.write(tmp_path / "b.lock", dict(reversed(list(found.items()))))

    assert (tmp_path / "a.lock").read_bytes() == (tmp_path / "b.lock").read_bytes()
    assert (
        (tmp_path / "a.lock").read_text()
        == f"""{{
  "schema": 1,
  "sources": {{
    "s3://a/one.pt": {{
      "sha256": "{"0" * 64}",
      "size_bytes": 1,
      "version": ""
    }},
    "s3://b/two.pt": {{
      "sha256": "{SHA256}",
      "size_bytes": 7,
      "version": "v2"
    }}
  }}
}}
"""
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.lock", "b.lock"]


def test_recipe_without_a_lock_file_has_no_pins(tmp_path: Path) -> None:
    assert pins.read(tmp_path / "det.lock") == {}


@pytest.mark.parametrize(
    "text", ["<<<<<<< ours", "[]", '{"schema": 1, "sources": {"a": {"sha256": "short", "size_bytes": 1}}}']
)
def test_damaged_lock_file_says_how_to_write_it_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "det.lock").write_text(text)

    with pytest.raises(SourceError) as caught:
        pins.read(tmp_path / "det.lock")

    assert caught.value.message.startswith(f"lock file '{tmp_path}/det.lock': cannot be read: ")
    assert caught.value.hint.startswith("take it from version control again, or remove it")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ('"sha256": "abc", "size_bytes": 1', "'s3://a': sha256: expected 64 hexadecimal digits, found 'abc'"),
        (f'"sha256": "{SHA256}", "size_bytes": "1"', "'s3://a': expected a number as size_bytes"),
        (f'"sha256": "{SHA256}", "size": 1', "'s3://a' has sha256, size; expected are sha256, size_bytes, version"),
    ],
)
def test_a_slip_of_the_pen_in_a_lock_file_names_source_and_field(tmp_path: Path, fields: str, says: str) -> None:
    (tmp_path / "det.lock").write_text('{"schema": 1, "sources": {"s3://a": {' + fields + "}}}")

    with pytest.raises(SourceError) as caught:
        pins.read(tmp_path / "det.lock")

    assert says in caught.value.message


def test_digests_are_read_in_capitals_too(tmp_path: Path) -> None:
    pins.write(tmp_path / "det.lock", {"s3://a": Pin(SHA256.upper(), 7)})

    assert pins.read(tmp_path / "det.lock") == {"s3://a": Pin(SHA256, 7)}


def test_file_uri_is_pinned_by_time_size_and_sha256(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(CONTENT)

    found = pins.pin(f"file://{tmp_path}/w.pt")

    assert (found.sha256, found.size_bytes) == (SHA256, 7)
    assert found.version.startswith("20") and found.version.endswith("Z")


def test_memory_uri_is_pinned() -> None:
    fsspec.filesystem("memory").pipe("/pins/w.pt", CONTENT)

    assert pins.pin("memory://pins/w.pt").sha256 == SHA256


def test_missing_remote_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        pins.pin(f"file://{tmp_path}/missing.pt")

    assert str(caught.value) == (
        f"source 'file://{tmp_path}/missing.pt': there is no such file\n  check its name and version"
    )


def test_unknown_scheme_is_an_error_without_credentials() -> None:
    with pytest.raises(ConfigError) as caught:
        pins.pin("nosuch://me:hunter2@host/w.pt?token=hunter2")

    assert str(caught.value).startswith("source 'nosuch://host/w.pt': there is no scheme 'nosuch'.")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("models/w.pt", "models/w.pt"),
        ("s3://bucket/w.pt", "s3://bucket/w.pt"),
        ("https://me:secret@host:8443/w.pt", "https://host:8443/w.pt"),
        ("https://host/w.pt?file=a&X-Amz-Signature=secret&X-Amz-Date=1", "https://host/w.pt?file=a"),
        ("https:/me:secret@host/w.pt", "https:/host/w.pt"),
        ("https://[me:secret@host/w.pt?sig=secret", "https://host/w.pt"),
        ("hf:org/net/w.pt@v1", "hf:org/net/w.pt@v1"),
        ("https://host/w.pt?sv=1&sig=secret&se=2", "https://host/w.pt"),
        ("https://host/w.pt?access_token=secret&rev=3", "https://host/w.pt?rev=3"),
    ],
)
def test_credentials_are_never_shown_or_written(tmp_path: Path, uri: str, shown: str) -> None:
    pins.write(tmp_path / "det.lock", {uri: Pin(SHA256, 7)})

    assert fetch.without_credentials(uri) == pins.name_of(uri) == shown
    assert list(pins.read(tmp_path / "det.lock")) == [shown]
    assert "secret" not in (tmp_path / "det.lock").read_text()


def test_containers_of_one_account_have_pins_of_their_own() -> None:
    first, second = (f"abfss://{name}@account.dfs.core.windows.net/w.pt" for name in ("one", "two"))

    assert pins.name_of(first) == first != pins.name_of(second)
    assert pins.name_of("az://me:hunter2@account.dfs.core.windows.net/w.pt") == "az://account.dfs.core.windows.net/w.pt"


def test_a_name_that_is_no_text_comes_back(tmp_path: Path) -> None:
    pins.write(tmp_path / "det.lock", {"s3://b/\udcff.pt": Pin(SHA256, 7)})

    assert list(pins.read(tmp_path / "det.lock")) == ["s3://b/\udcff.pt"]
