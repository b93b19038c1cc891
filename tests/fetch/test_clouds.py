"""`gs://` and `az://` through gcsfs and adlfs, against stand-ins on this machine; skipped without those libraries.

The stand-ins answer what reading needs: an object's properties, its content, listings.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import fsspec
import pytest

from mobuild import fetch
from mobuild.errors import SourceError
from tests.fetch.servers import Handler, web

OBJECTS = {"det/w.pt": b"weights", "images/a/1.png": b"1", "images/b.png": b"22", "imagesque.png": b"333"}
LIBRARIES = {"gs": "gcsfs", "az": "adlfs"}


@pytest.fixture(params=LIBRARIES)
def scheme(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # asks a stand-in for gRPC, and waits a minute
    pytest.importorskip(LIBRARIES[request.param])
    with web() as server:
        server.otherwise = {"gs": google, "az": azure}[request.param]
        account = f"AccountName=acct;AccountKey=aHVudGVyMg==;BlobEndpoint={server.url}/acct;"
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "project")
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"DefaultEndpointsProtocol=http;{account}")
        monkeypatch.setitem(fsspec.config.conf, "gs", {"token": "anon"})  # FSSPEC_GS_TOKEN=anon
        fsspec.get_filesystem_class(request.param).clear_instance_cache()
        yield request.param


def test_a_file_is_read_with_its_version(scheme: str, tmp_path: Path) -> None:
    found = fetch.take(f"{scheme}://models/det/w.pt", tmp_path / "out")

    assert (tmp_path / "out").read_bytes() == b"weights"
    assert found.version == "17"


def test_a_folder_has_the_digest_that_every_store_gives_it(scheme: str, tmp_path: Path) -> None:
    for name in ("a/1.png", "b.png"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(OBJECTS[f"images/{name}"])

    found = fetch.take(f"{scheme}://models/images/", tmp_path / "out")

    assert found.sha256 == fetch.take(f"file://{tmp_path}/images/", None).sha256
    assert (tmp_path / "out" / "a" / "1.png").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nosuch.pt", "there is no such file"),
        ("nosuch/", "there are no files below it"),
        ("images", "is a folder"),
        ("det/w.pt/", "there are no files below it"),
    ],
)
def test_what_is_not_there_is_told(scheme: str, name: str, says: str) -> None:
    with pytest.raises(SourceError) as caught:
        fetch.take(f"{scheme}://models/{name}", None)

    assert caught.value.message == f"source '{scheme}://models/{name}': {says}"


def google(handler: Handler, _: int) -> None:
    """The JSON interface of Google Cloud Storage."""
    address = urlsplit(handler.path)
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    found = re.fullmatch(r"(/download)?/(?:storage/v1/)?b/models/o/(.+)", address.path)
    if not found:
        names, folders = _listed(asked)
        items = [_described(name) for name in names]
        return handler.send(json.dumps({"items": items, "prefixes": folders}).encode(), Content_Type="application/json")
    name = unquote(found.group(2))
    if name not in OBJECTS:
        return handler.send(b'{"error": {"code": 404, "message": "no such object"}}', 404)
    if found.group(1) or asked.get("alt") == "media":
        return _part(handler, name, handler.headers.get("Range", ""))
    media = f"http://{handler.headers['Host']}/download{address.path}?alt=media"
    return handler.send(json.dumps({**_described(name), "mediaLink": media}).encode(), Content_Type="application/json")


def azure(handler: Handler, _: int) -> None:
    """The REST interface of Azure's Blob service."""
    address = urlsplit(handler.path)
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    if asked.get("comp") == "list":
        names, folders = _listed(asked)
        blobs = "".join(
            f"<Blob><Name>{name}</Name><Properties><Content-Length>{len(OBJECTS[name])}</Content-Length>"
            "<Etag>17</Etag><BlobType>BlockBlob</BlobType></Properties></Blob>"
            for name in names
        )
        blobs += "".join(f"<BlobPrefix><Name>{name}</Name></BlobPrefix>" for name in folders)
        listing = f'<EnumerationResults ContainerName="models"><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>'
        return handler.send(b'<?xml version="1.0"?>' + listing.encode(), Content_Type="application/xml")
    name = unquote(address.path).partition("/models/")[2]
    if name not in OBJECTS:
        return handler.begin(404, Content_Length="0", x_ms_error_code="BlobNotFound")
    facts = {"ETag": '"17"', "x_ms_blob_type": "BlockBlob", "Last_Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    if handler.command == "HEAD":
        return handler.begin(200, Content_Length=str(len(OBJECTS[name])), **facts)
    return _part(handler, name, handler.headers.get("x-ms-range", ""), **facts)


def _described(name: str) -> dict[str, Any]:
    times = dict.fromkeys(("updated", "timeCreated"), "2026-01-01T00:00:00.000Z")
    return {"name": name, "bucket": "models", "size": str(len(OBJECTS[name])), "generation": "17", **times}


def _listed(asked: dict[str, str]) -> tuple[list[str], list[str]]:
    """The objects that a listing names, and what stands for those further down."""
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter")
    rest = {name: name[len(prefix) :] for name in sorted(OBJECTS) if name.startswith(prefix)}
    if not delimiter:
        return list(rest), []
    folders = {prefix + each.partition(delimiter)[0] + delimiter for each in rest.values() if delimiter in each}
    return [name for name, each in rest.items() if delimiter not in each], sorted(folders)


def _part(handler: Handler, name: str, asked: str, **headers: str) -> None:
    body, found = OBJECTS[name], re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
    if not found:
        return handler.send(body, **headers)
    start, end = int(found.group(1)), min(int(found.group(2) or len(body)), len(body) - 1)
    return handler.send(body[start : end + 1], 206, Content_Range=f"bytes {start}-{end}/{len(body)}", **headers)
