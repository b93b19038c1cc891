"""`s3://` against moto's server on this machine, and what other stores share with it through fsspec's interface."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import fsspec
import pytest
from moto.server import ThreadedMotoServer

from mobuild import fetch
from mobuild.errors import ConfigError, SourceError, ToolchainError
from tests.fetch.servers import status, web


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    made = boto3.resource("s3").Bucket("models")
    made.create()
    yield made
    made.object_versions.delete()
    made.objects.delete()
    made.delete()


def test_a_file_is_read_with_its_etag(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Key="det/v 1#2.pt", Body=b"weights")

    found = fetch.take("s3://models/det/v 1#2.pt", tmp_path / "out")

    assert (tmp_path / "out").read_bytes() == b"weights"
    assert found.version == bucket.Object("det/v 1#2.pt").e_tag.strip('"')


def test_an_older_version_is_read_by_its_id(bucket: Any, tmp_path: Path) -> None:
    bucket.Versioning().enable()
    old = bucket.put_object(Key="w.pt", Body=b"old").version_id
    bucket.put_object(Key="w.pt", Body=b"new")

    found = fetch.take(f"s3://models/w.pt?versionId={old}", tmp_path / "out")

    assert ((tmp_path / "out").read_bytes(), found.version) == (b"old", old)


def test_a_prefix_is_a_folder_whose_digest_says_names_and_content(bucket: Any, tmp_path: Path) -> None:
    for name in ("images/a/1.png", "images/b.png", "images/a/", "imagesque.png"):
        bucket.put_object(Key=name, Body=name.encode())

    found = fetch.take("s3://models/images/", tmp_path / "out")
    bucket.put_object(Key="images/b.png", Body=b"other")
    changed = fetch.take("s3://models/images/", None)

    assert {
        path.relative_to(tmp_path / "out").as_posix(): path.read_text() for path in (tmp_path / "out").rglob("*.png")
    } == {
        "a/1.png": "images/a/1.png",
        "b.png": "images/b.png",
    }
    assert changed.sha256 != found.sha256


def test_a_name_that_leads_out_of_the_folder_is_refused(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Key="images/../../x.png", Body=b"x")

    with pytest.raises(SourceError, match="cannot be the name of a file in a folder"):
        fetch.take("s3://models/images/", tmp_path / "out")


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s3://models/nosuch.pt", "there is no such file\n  check its name and version"),
        ("s3://nosuch/w.pt", "there is no bucket 'nosuch'\n  check its name; AWS_ENDPOINT_URL is http://127.0.0.1:"),
        ("s3://models/images", "is a folder\n  end it with '/' to name all that is in it"),
        ("s3://models/empty.pt", "is empty\n  look at what lies there"),
        ("s3://nosuch/all/", "there is no bucket 'nosuch'\n  check its name; AWS_ENDPOINT_URL is http://127.0.0.1:"),
        ("s3://models/nosuch/", "there are no files below it\n  check its name"),
    ],
)
def test_what_is_not_there_is_told(bucket: Any, uri: str, says: str) -> None:
    bucket.put_object(Key="images/a.png", Body=b"a")
    bucket.put_object(Key="empty.pt", Body=b"")

    with pytest.raises(SourceError) as caught:
        fetch.take(uri, None)

    assert str(caught.value).startswith(f"source {uri!r}: {says}")


def test_without_credentials_the_ways_to_give_them_are_named(
    bucket: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    fsspec.get_filesystem_class("s3").clear_instance_cache()

    with pytest.raises(SourceError) as caught:
        fetch.take("s3://models/w.pt", None)

    assert "redentials" in caught.value.message
    assert caught.value.hint.startswith("set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; ")


def test_a_server_that_does_not_answer_is_named(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    fsspec.get_filesystem_class("s3").clear_instance_cache()

    with pytest.raises(SourceError) as caught:
        fetch.take("s3://models/w.pt", None)

    assert str(caught.value) == (
        "source 's3://models/w.pt': its server does not answer: "
        f'Could not connect to the endpoint URL: "{endpoint}/models/w.pt"\n'
        f"  check the network and that it runs; AWS_ENDPOINT_URL is {endpoint}\n"
        "  offline=true asks no server and takes what the cache has"
    )


def test_refused_credentials_are_not_asked_for_again(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with web() as server:
        server.otherwise = status(403)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        fsspec.get_filesystem_class("s3").clear_instance_cache()

        with pytest.raises(SourceError) as caught:
            fetch.take("s3://models/w.pt", None)

    assert caught.value.message == "source 's3://models/w.pt': is not given to you: Forbidden"
    assert caught.value.hint == "check the credentials that AWS_ACCESS_KEY_ID gives, and their right to read it"


def test_a_pointer_in_a_store_is_no_matter_of_addresses() -> None:
    fsspec.filesystem("memory").pipe("/pointer.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")

    with pytest.raises(SourceError) as caught:
        fetch.take("memory://pointer.pt", None)

    assert str(caught.value) == (
        "source 'memory://pointer.pt': is a Git LFS pointer, not the file itself\n"
        "  it was copied there from a clone without its content: git lfs pull there, and copy it again"
    )


@pytest.mark.parametrize(
    ("uri", "library", "extra"),
    [("gs://b/w.pt", "gcsfs", "gs"), ("az://b/w.pt", "adlfs", "az"), ("s3://b/w.pt", "s3fs", "s3")],
)
def test_a_missing_library_names_the_extra(uri: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, uri[:2], raising=False)  # which keeps loaded classes

    with pytest.raises(ToolchainError) as caught:
        fetch.take(uri, None)

    assert caught.value.hint == f"pip install 'mobuild[{extra}]'"


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s4://b/w.pt", "there is no scheme 's4'.\n  Schemes: s3, gs, az, https, http, hf, file"),
        ("htps://h/w.pt", "there is no scheme 'htps'. Did you mean 'https'?"),
        ("s3:/b/w.pt", "expected '://' after the scheme\n  write 's3://b/w.pt'"),
        ("s3//b/w.pt", "expected '://' after the scheme\n  write 's3://b/w.pt'"),
        ("hf//org/net", "expected ':' after the scheme\n  write 'hf:org/net'"),
        ("file://data/w.pt", "is no absolute path\n  write file:///folder/file, or the path alone"),
        ("https:h/w.pt", "expected '://' after the scheme\n  write 'https://h/w.pt'"),
        (" s3://b/w.pt", "begins or ends with a space\n  write 's3://b/w.pt'"),
        ("s3://", "names no bucket"),
        ("s3:///w.pt", "names no bucket"),
        ("s3://b", "names no file\n  write s3://b/path/file, or s3://b/ for all that is in it"),
        ("https://[h/w.pt", "is no URL"),
        ("https://h", "names no file"),
    ],
)
def test_a_slip_of_the_pen_is_refused_before_anything_is_asked(uri: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fetch.check(uri)

    assert str(caught.value).startswith(f"source {uri!r}: {says}")


def test_a_folder_of_any_file_system_is_read(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe({"/tree/a/1.txt": b"1", "/tree/2.txt": b"2", "/treehouse.txt": b"3"})

    found = fetch.take("memory://tree/", tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").rglob("*.txt")) == ["1.txt", "2.txt"]
    assert found.size_bytes == 2


def test_a_file_that_comes_short_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/short.pt", b"weights")
    monkeypatch.setattr(type(memory), "info", lambda *_: {"name": "/short.pt", "size": 9, "type": "file"})

    with pytest.raises(SourceError, match="expected 9 bytes, and 7 came"):
        fetch.take("memory://short.pt", None)
