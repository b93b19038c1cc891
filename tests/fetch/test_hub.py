"""`hf:` sources: against a stand-in for the hub, with and without what mirrors leave out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobuild import fetch
from mobuild.errors import ConfigError, SourceError
from mobuild.fetch import web as client
from mobuild.fetch.hub_names import HubName, parse
from tests.fetch.servers import Repository, Web, serve_hub, web
from tests.test_toolchain_python import PYTHON38

OLD, NEW = "a" * 40, "b" * 40
FILES = {"config.json": b"{}", "onnx/model.onnx": b"model", "onnx/empty.txt": b"", "a@b.bin": b"at"}
HURRY = client.Patience(attempts=2, first_seconds=0.0, timeout_seconds=0.5)


@pytest.fixture(scope="module")
def running() -> Iterator[Web]:
    with web() as server:
        yield server


@pytest.fixture
def hub(running: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Web:
    running.asked.clear()
    for name in [name for name in os.environ if name.startswith(("HF_", "TRANSFORMERS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_ENDPOINT", f"{running.url}/")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setattr(client.Body.__init__, "__defaults__", (None, HURRY))
    serve_hub(running, {"org/net": repository()})
    return running


def repository() -> Repository:
    return Repository({OLD: FILES, NEW: {**FILES, "config.json": b"{1}"}}, {"main": NEW, "v1": OLD, "refs/pr/1": OLD})


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("hf:org/net", HubName("models", "org/net", "", "main")),
        ("hf:org/net/", HubName("models", "org/net", "", "main")),
        ("hf://org/net/onnx/m.onnx@v1", HubName("models", "org/net", "onnx/m.onnx", "v1")),
        ("hf:org/net@v1/onnx/", HubName("models", "org/net", "onnx/", "v1")),
        ("hf:org/net@refs/pr/1", HubName("models", "org/net", "", "refs/pr/1")),
        ("hf:org/net@refs/pr/1/a.bin", HubName("models", "org/net", "a.bin", "refs/pr/1")),
        ("hf:org/net/a.bin@refs/pr/1", HubName("models", "org/net", "a.bin", "refs/pr/1")),
        ("hf:datasets/org/net/a.bin", HubName("datasets", "org/net", "a.bin", "main")),
    ],
)
def test_names_have_repository_path_and_revision(uri: str, name: HubName) -> None:
    assert parse(uri) == name


@pytest.mark.parametrize("uri", ["hf:", "hf:net", "hf:/", "hf:org/", "hf:org/net@", "hf:org/net/../x", "hf:o rg/net/x"])
def test_what_names_no_repository_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="hf:org/name/file@revision"):
        fetch.check(uri)


def test_a_file_is_pinned_by_the_commit_that_its_branch_means(hub: Web, tmp_path: Path) -> None:
    found = fetch.take("hf:org/net/config.json", tmp_path / "out")

    assert (found.version, (tmp_path / "out").read_bytes()) == (NEW, b"{1}")


def test_a_pinned_commit_is_read_when_the_branch_has_moved_on(hub: Web, tmp_path: Path) -> None:
    fetch.take("hf:org/net/config.json", tmp_path / "out", version=OLD)

    assert (tmp_path / "out").read_bytes() == b"{}"
    assert not any("/api/" in each.path for each in hub.asked)


@pytest.mark.parametrize(
    ("uri", "names"), [("hf:org/net@v1", FILES), ("hf:org/net/onnx/@v1", ("empty.txt", "model.onnx"))]
)
def test_a_repository_and_its_folders_are_listed_and_read(
    hub: Web, tmp_path: Path, uri: str, names: dict[str, bytes]
) -> None:
    commit, files = fetch.listed(uri)
    found = fetch.take(uri, tmp_path / "out")

    assert (commit, found.version, set(files)) == (OLD, OLD, set(names))
    assert {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")} == set(names)
    assert found.sha256.startswith(fetch.FOLDER)
    assert found == fetch.take(uri, None)


def test_a_large_file_is_pinned_by_what_the_hub_tells_and_not_read(hub: Web, tmp_path: Path) -> None:
    told = fetch.take("hf:org/net/onnx/model.onnx", None)
    asked = [each.path for each in hub.asked]
    read = fetch.take("hf:org/net/onnx/model.onnx", tmp_path / "out")

    assert told == read
    assert not any("/resolve/" in path for path in asked)
    assert fetch.listed("hf:org/net/onnx/")[1]["model.onnx"].size_bytes == len(b"model")


@pytest.mark.parametrize("lists", [True, False])
def test_a_mirror_that_tells_no_commit_serves_the_same_file(hub: Web, tmp_path: Path, lists: bool) -> None:
    straight = fetch.take("hf:org/net/onnx/model.onnx", None)
    serve_hub(hub, {"org/net": repository()}, tells_commit=False, lists=lists)

    found = fetch.take("hf:org/net/onnx/model.onnx", tmp_path / "out")

    assert (found.sha256, found.size_bytes) == (straight.sha256, straight.size_bytes)
    assert (tmp_path / "out").read_bytes() == b"model"


def test_a_token_goes_to_the_hub_and_not_where_it_redirects(
    hub: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_hub(hub, {"org/net": repository()}, token="hf_hunter2")
    with pytest.raises(SourceError) as caught:
        fetch.take("hf:org/net/config.json", None)
    monkeypatch.setenv("HF_TOKEN", "hf_hunter2")

    fetch.take("hf:org/net/config.json", tmp_path / "out")

    assert str(caught.value) == (
        "source 'hf:org/net/config.json': needs credentials: 401 Unauthorized\n"
        "  check the name; a private or gated repository needs HF_TOKEN, and its licence accepted on the hub"
    )


def test_the_token_that_logging_in_left_is_found(hub: Web, tmp_path: Path) -> None:
    serve_hub(hub, {"org/net": repository()}, token="hf_hunter2")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("hf_hunter2\n")

    assert fetch.take("hf:org/net/config.json", None).version == NEW


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("hf:org/net/onnx/modl.onnx", "there is no such file in org/net. Did you mean 'onnx/model.onnx'?\n  Files: "),
        ("hf:org/net/onnx", "is a folder\n  end it with '/' to name all that is in it"),
        ("hf:org/net/nosuch/", "there are no files below it\n"),
        ("hf:org/nosuch/x.bin", "is not there: 404 Not Found\n  check repository, revision and file"),
        ("hf:org/net/config.json@v9", "is not there: 404 Not Found\n  check repository, revision and file"),
    ],
)
def test_what_is_not_there_is_told(hub: Web, uri: str, says: str) -> None:
    with pytest.raises(SourceError) as caught:
        fetch.take(uri, None)

    assert str(caught.value).startswith(f"source {uri!r}: {says}")


def test_an_endpoint_that_is_no_hub_is_named(hub: Web) -> None:
    hub.otherwise = lambda handler, _: handler.send(b"<html>Welcome</html>")

    with pytest.raises(SourceError, match="does not answer as a hub"):
        fetch.take("hf:org/net/config.json", None)


def test_credentials_of_an_endpoint_that_is_no_hub_are_not_shown(hub: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.otherwise = lambda handler, _: handler.send(b"<html>Welcome</html>")
    monkeypatch.setenv("HF_ENDPOINT", hub.url.replace("//", "//me:hunter2@"))

    with pytest.raises(SourceError, match="does not answer as a hub") as caught:
        fetch.take("hf:org/net/config.json", None)

    assert "hunter2" not in str(caught.value)


def test_an_endpoint_without_a_scheme_is_named(hub: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "hf-mirror.com")

    with pytest.raises(SourceError) as caught:
        fetch.take("hf:org/net/config.json", None)

    assert str(caught.value) == "HF_ENDPOINT=hf-mirror.com: is no address of a web server\n  write https://host"


@pytest.mark.parametrize("token", ["hf_hunter2\nX-Other: 1", "hf_hunter2…"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_shown(
    hub: Web, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)

    with pytest.raises(SourceError, match="the token for the hub has letters that no token has") as caught:
        fetch.take("hf:org/net/config.json", None)

    assert "hunter2" not in str(caught.value)


@pytest.mark.skipif(not PYTHON38.exists(), reason=f"no interpreter {PYTHON38}")
def test_a_folder_is_fetched_under_python_38(hub: Web, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    code = f"from pathlib import Path; from mobuild import fetch; fetch.take('hf:org/net@v1', Path({out!r}))"
    variables = {**os.environ, "PYTHONPATH": str(Path(fetch.__file__).parents[2])}

    done = subprocess.run([str(PYTHON38), "-c", code], env=variables, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out/config.json").read_bytes() == b"{}"


def test_offline_the_cache_of_the_hub_answers_and_nothing_is_asked(
    hub: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "hf" / "hub" / "models--org--net"
    (kept / "snapshots" / OLD).mkdir(parents=True)
    (kept / "snapshots" / OLD / "config.json").write_bytes(b"{}")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(OLD)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    found = fetch.take("hf:org/net/config.json", tmp_path / "out")
    with pytest.raises(SourceError, match="which files a folder has is not known to the hub's cache"):
        fetch.take("hf:org/net", None)
    with pytest.raises(SourceError) as caught:
        fetch.take("hf:org/net/onnx/model.onnx", None)

    assert (found.version, (tmp_path / "out").read_bytes()) == (OLD, b"{}")
    assert str(caught.value) == (
        "source 'hf:org/net/onnx/model.onnx': HF_HUB_OFFLINE is set, and the hub's cache does not have it\n"
        "  unset HF_HUB_OFFLINE, once"
    )
    assert hub.asked == []
