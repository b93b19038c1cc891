"""The `source` kind: remote bytes are the pinned ones, or an error that shows both."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from mobuild import node, pins
from mobuild.errors import ConfigError, SourceError
from mobuild.fingerprint import parameters
from mobuild.nodes.source import Source

CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip is told to use in place of any index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tinypitch-0.0.24-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tinypitch/assets/tiny.pth", CONTENT)
        wheel.writestr("tinypitch/__init__.py", "raise SystemError('never imported')")
        wheel.writestr(
            "tinypitch-0.0.24.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: tinypitch\nVersion: 0.0.24\nRequires-Dist: nosuchpackage\n",
        )
        wheel.writestr("tinypitch-0.0.24.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tinypitch-0.0.24.dist-info/RECORD", "")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_only_the_sha256_is_keyed() -> None:
    source = Source(uri="s3://a/w.pt", sha256=SHA256, size_bytes=7, version="1")

    assert parameters(source) == {"sha256": SHA256}


def test_source_travels_to_another_process() -> None:
    source = Source(package="a==1", member="a/b.pth", sha256=SHA256)

    assert node.decode(node.encode(source)) == source


@pytest.mark.parametrize(
    ("source", "is_local", "suffix"),
    [
        (Source(), False, ""),
        (Source(uri="models/w.pt"), True, ".pt"),
        (Source(uri="/data/calib"), True, ""),
        (Source(uri="file:///data/w.pt"), False, ".pt"),
        (Source(uri="https://host/w.safetensors?x=1.2"), False, ".safetensors"),
        (Source(package="a==1", member="a/tiny.pth"), False, ".pth"),
    ],
)
def test_bare_paths_are_local(source: Source, is_local: bool, suffix: str) -> None:
    assert (source.is_local, source.suffix) == (is_local, suffix)


def test_pinned_file_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(CONTENT)
    source = Source(uri=f"file://{tmp_path}/w.pt", sha256=SHA256, size_bytes=7)

    source.build({}, tmp_path / "out")

    assert (tmp_path / "out").read_bytes() == CONTENT


def test_other_content_than_pinned_shows_both(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(CONTENT)
    source = Source(uri=f"file://{tmp_path}/w.pt", sha256="0" * 64)

    with pytest.raises(SourceError) as caught:
        source.build({}, tmp_path / "out")

    assert str(caught.value) == (
        f"source 'file://{tmp_path}/w.pt': expected SHA-256 {'0' * 64}, found {SHA256} (7 bytes)\n"
        "  not the pinned file; if the new one is wanted, write its sha256 in the recipe, or run `mobuild lock`"
    )


def test_other_size_than_pinned_shows_both(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(CONTENT)

    with pytest.raises(SourceError, match=rf"expected SHA-256 {SHA256} \(9 bytes\), found {SHA256} \(7 bytes\)"):
        Source(uri=f"file://{tmp_path}/w.pt", sha256=SHA256, size_bytes=9).build({}, tmp_path / "out")


def test_unpinned_remote_source_prints_the_command_that_pins_it() -> None:
    source = Source(uri="https://me:secret@host/w.pt")

    with pytest.raises(SourceError) as caught:
        source.check_pinned("weights", "det")

    assert str(caught.value) == (
        "recipe 'det', node 'weights': 'https://host/w.pt' is not pinned\n  mobuild lock recipe=det"
    )


@pytest.mark.parametrize(
    "source",
    [
        Source(uri="w.pt"),
        Source(uri="s3://a/w.pt", sha256=SHA256),
        Source(package="a==1", member="b", sha256=SHA256),
    ],
)
def test_local_and_pinned_sources_pass(source: Source) -> None:
    source.check_pinned("weights", "det")


@pytest.mark.parametrize(
    "source",
    [
        Source(),
        Source(uri="w.pt", package="a==1", member="b"),
        Source(package="a>=1", member="b"),
        Source(package="a==1"),
    ],
)
def test_source_that_names_no_one_file_is_refused(source: Source) -> None:
    with pytest.raises(ConfigError):
        source.check_pinned("weights", "det")


def test_lock_file_fills_in_what_the_recipe_leaves_open() -> None:
    locked = {"s3://a/w.pt": pins.Pin(SHA256, 7, "v1")}

    assert Source(uri="s3://me:secret@a/w.pt").pinned(locked) == Source(
        uri="s3://me:secret@a/w.pt", sha256=SHA256, size_bytes=7, version="v1"
    )
    assert Source(uri="w.pt").pinned(locked) == Source(uri="w.pt")
    assert Source(uri="s3://a/w.pt", sha256="0" * 64).pinned(locked).sha256 == "0" * 64


def test_member_of_a_wheel_is_fetched_alone(wheels: Path, tmp_path: Path) -> None:
    source = Source(package="tinypitch==0.0.24", member="tinypitch/assets/tiny.pth", sha256=SHA256)

    source.build({}, tmp_path / "out")

    assert (tmp_path / "out").read_bytes() == CONTENT


def test_member_of_a_wheel_is_pinned(wheels: Path) -> None:
    assert pins.pin(Source(package="tinypitch==0.0.24", member="tinypitch/assets/tiny.pth").remote_uri) == pins.Pin(
        SHA256, 7, "0.0.24"
    )


def test_misspelt_member_says_which_is_near(wheels: Path, tmp_path: Path) -> None:
    source = Source(package="tinypitch==0.0.24", member="tinypitch/asset/tiny.pth", sha256=SHA256)

    with pytest.raises(SourceError) as caught:
        source.build({}, tmp_path / "out")

    assert str(caught.value) == (
        "source 'tinypitch==0.0.24': has no member 'tinypitch/asset/tiny.pth'. "
        "Did you mean 'tinypitch/assets/tiny.pth'?"
    )


def test_wheel_that_pip_cannot_find_is_named(wheels: Path, tmp_path: Path) -> None:
    source = Source(package="tinypitch==9", member="tinypitch/assets/tiny.pth", sha256=SHA256)

    with pytest.raises(SourceError) as caught:
        source.build({}, tmp_path / "out")

    assert caught.value.message == "source 'tinypitch==9': pip cannot download its wheel"
    assert "No matching distribution found for tinypitch==9" in caught.value.hint
