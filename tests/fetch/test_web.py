"""Files of a web server: what goes wrong on the way is mended or told, and never becomes the file."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobuild import fetch
from mobuild.errors import ConfigError, SourceError, StoreError, Unreachable
from mobuild.fetch import web as client
from tests.fetch.servers import Answer, Handler, Web, certified, cut_off, first, moved, status, web, whole

CONTENT = os.urandom(1000) + b"weights" * 1000
HURRY = client.Patience(attempts=3, first_seconds=0.0, longest_seconds=0.0, timeout_seconds=0.3)


@pytest.fixture(scope="module")
def running() -> Iterator[Web]:
    with web() as server:
        yield server


@pytest.fixture
def server(running: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Web:
    running.asked.clear()
    running.answers.clear()
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setattr(client.Body.__init__, "__defaults__", (None, HURRY))
    return running


def taken(server: Web, tmp_path: Path, path: str = "/w.pt") -> bytes:
    fetch.take(server.url + path, tmp_path / "out")
    return (tmp_path / "out").read_bytes()


def refusal(server: Web, tmp_path: Path, path: str = "/w.pt") -> str:
    with pytest.raises(SourceError) as caught:
        fetch.take(server.url + path, tmp_path / "out")
    return str(caught.value).replace(server.url, "URL")


def test_a_file_is_read_with_its_etag(server: Web, tmp_path: Path) -> None:
    server.answers["/w.pt"] = lambda handler, _: handler.send(CONTENT, ETag='W/"v7"')

    found = fetch.take(f"{server.url}/w.pt", tmp_path / "out")

    assert (found.version, found.size_bytes) == ("v7", len(CONTENT))
    assert (tmp_path / "out").read_bytes() == CONTENT


def chunked(handler: Handler, _: int) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.begin(200, Transfer_Encoding="chunked", Connection="close")
    handler.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(CONTENT), CONTENT))
    handler.close_connection = True


PASSING: dict[str, Answer] = {
    "a dropped connection": first(cut_off(CONTENT, 500), then=whole(CONTENT)),
    "two of them": first(cut_off(CONTENT, 500), cut_off(CONTENT, 700), then=whole(CONTENT)),
    "before the first byte": first(lambda handler, _: handler.connection.shutdown(2), then=whole(CONTENT)),
    "no ETag": first(cut_off(CONTENT, 500, ""), then=whole(CONTENT)),
    "a weak ETag": first(cut_off(CONTENT, 500, 'W/"x"'), then=whole(CONTENT)),
    "too many requests": first(status(429, Retry_After="1000"), then=whole(CONTENT)),
    "an overloaded server": first(status(500), status(503, Retry_After="never"), then=whole(CONTENT)),
    "a permanent redirect": first(moved("/w.pt", 308), then=whole(CONTENT)),
    "chunks": chunked,
}


@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING)
def test_what_passes_leaves_the_whole_file(server: Web, tmp_path: Path, answer: Answer) -> None:
    server.answers["/w.pt"] = answer

    assert taken(server, tmp_path) == CONTENT


def test_only_the_rest_is_asked_for_after_a_dropped_connection(server: Web, tmp_path: Path) -> None:
    server.answers["/w.pt"] = first(cut_off(CONTENT, 500), then=whole(CONTENT))

    taken(server, tmp_path)

    assert [each.headers.get("range") for each in server.asked] == [None, "bytes=500-"]


@pytest.mark.parametrize("etag", ["", '"v1"'])
def test_a_file_replaced_meanwhile_is_never_mixed(server: Web, tmp_path: Path, etag: str) -> None:
    server.answers["/w.pt"] = first(cut_off(CONTENT, 500, etag), then=whole(b"other" * 2000))

    assert refusal(server, tmp_path) == "source 'URL/w.pt': was replaced while it was read\n  run the command again"


def silent(handler: Handler, _: int) -> None:
    handler.begin(200, Content_Length="10")
    handler.rfile.read(1)  # until the client has had enough


REFUSED: dict[str, tuple[Answer, str]] = {
    "gone": (status(404), "source 'URL/w.pt': is not there: 404 Not Found\n  check its name and version"),
    "forbidden": (
        status(403),
        "source 'URL/w.pt': is not given to you: 403 Forbidden\n  check your rights; a signed URL may have expired",
    ),
    "truncated each time": (
        cut_off(CONTENT, 500),
        "source 'URL/w.pt': cannot be read after 500 of 8000 bytes: the connection broke off before the end (3 ",
    ),
    "busy": (status(503), "source 'URL/w.pt': cannot be read: the server answers 503 Service Unavailable (3 attempts)"),
    "silent": (silent, "source 'URL/w.pt': cannot be read: nothing came for 0.3 s (3 attempts)"),
    "a circle": (moved("/w.pt"), "source 'URL/w.pt': the server redirects in a circle\n  check the address"),
    "a redirect to a file": (moved("file:///etc/passwd"), "source 'URL/w.pt': "),
    "a page": (
        lambda handler, _: handler.send(b"\n<!DOCTYPE html><html><title>Sign in</title>"),
        "source 'URL/w.pt': is an HTML page, not the file itself\n  the server answers with a page",
    ),
    "a pointer": (
        whole(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n"),
        "source 'URL/w.pt': is a Git LFS pointer, not the file itself\n  name the address of the content: '/resolve/'",
    ),
    "an error document": (
        whole(b'<?xml version="1.0"?>\n<Error><Code>NoSuchKey</Code></Error>'),
        "source 'URL/w.pt': is a storage server's error message, not the file itself",
    ),
    "nothing": (whole(b""), "source 'URL/w.pt': is empty\n  look at what lies there"),
}


@pytest.mark.parametrize(("answer", "says"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_pass_is_told(server: Web, tmp_path: Path, answer: Answer, says: str) -> None:
    server.answers["/w.pt"] = answer

    assert refusal(server, tmp_path).startswith(says)


@pytest.mark.parametrize("host", ["models..example", "a" * 64 + ".example", "models.example:port"])
def test_an_address_that_cannot_be_asked_is_refused_at_once(server: Web, tmp_path: Path, host: str) -> None:
    server.answers["/w.pt"] = moved(f"http://{host}/w.pt")

    assert refusal(server, tmp_path).startswith("source 'URL/w.pt': leads to an address that cannot be asked: ")
    assert len(server.asked) == 1


def test_a_server_that_does_not_answer_is_told_from_one_that_breaks_off(server: Web) -> None:
    server.answers["/w.pt"] = silent
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/w.pt"

    raised = []
    for url in (nobody, f"{server.url}/w.pt"):
        with pytest.raises(SourceError) as caught:
            fetch.take(url, None)
        raised.append(type(caught.value))

    assert raised == [Unreachable, SourceError]


def test_credentials_of_the_url_are_sent_and_never_shown(server: Web, tmp_path: Path) -> None:
    server.answers["/w.pt"] = status(403)
    address = server.url.replace("//", "//me:hunter2@") + "/w.pt?sig=hunter2&part=1"

    with pytest.raises(SourceError) as caught:
        fetch.take(address, tmp_path / "out")

    assert server.asked[0].headers["authorization"] == "Basic bWU6aHVudGVyMg=="
    assert server.asked[0].path == "/w.pt?sig=hunter2&part=1"
    assert "hunter2" not in str(caught.value)


def test_netrc_is_honoured(server: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.answers["/w.pt"] = whole(CONTENT)

    taken(server, tmp_path)

    assert server.asked[0].headers["authorization"] == "Basic bWU6aHVudGVyMg=="


def test_without_a_home_nobody_is_asked_for_netrc(server: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user of a container who has a number and no name."""
    monkeypatch.delenv("NETRC")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    server.answers["/w.pt"] = whole(CONTENT)

    assert taken(server, tmp_path) == CONTENT


def test_credentials_follow_redirects_on_their_own_host_alone(server: Web, tmp_path: Path) -> None:
    with web() as other:
        other.answers["/w.pt"] = whole(CONTENT)
        server.answers.update({"/w.pt": moved("/here.pt"), "/here.pt": moved(f"{other.url}/w.pt")})

        fetch.take(server.url.replace("//", "//me:hunter2@") + "/w.pt", tmp_path / "out")

        assert ["authorization" in each.headers for each in server.asked] == [True, True]
        assert "authorization" not in other.asked[0].headers


def test_a_proxy_is_asked_unless_the_host_is_excepted(
    server: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("http_proxy", server.url)
    server.answers["/w.pt"] = whole(CONTENT)

    fetch.take("http://models.example/w.pt", tmp_path / "out")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    fetch.take(f"{server.url}/w.pt", tmp_path / "direct")

    assert [each.path for each in server.asked] == ["http://models.example/w.pt", "/w.pt"]


def test_a_missing_file_of_certificates_names_its_variable(
    server: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")

    assert refusal(server, tmp_path).startswith("REQUESTS_CA_BUNDLE=/nowhere/ca.pem: holds no certificates")


def test_spaces_and_umlauts_in_a_name_are_quoted(server: Web, tmp_path: Path) -> None:
    server.answers["/größe 1.pt"] = whole(CONTENT)

    assert taken(server, tmp_path, "/größe 1.pt") == taken(server, tmp_path, "/gr%C3%B6%C3%9Fe%201.pt") == CONTENT


def test_a_folder_of_a_web_server_is_refused_before_it_is_asked(server: Web, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder, and a web server lists none"):
        fetch.take(f"{server.url}/images/", tmp_path / "out")

    assert server.asked == []


def test_a_full_disk_is_named(server: Web, tmp_path: Path) -> None:
    server.answers["/w.pt"] = whole(CONTENT)

    with pytest.raises(StoreError) as caught:
        fetch.take(f"{server.url}/w.pt", Path("/dev/full"))

    assert str(caught.value) == "'/dev/full': cannot be written: No space left on device\n  make room there"


def test_certificates_of_a_network_are_trusted_when_a_variable_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    place, context = certified(tmp_path)
    with web(context) as server:
        server.answers["/w.pt"] = whole(CONTENT)
        said = refusal(server, tmp_path)
        for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            with monkeypatch.context() as patch:
                patch.setenv(name, str(place))
                fetch.take(f"{server.url}/w.pt", tmp_path / name)

    assert said.startswith("source 'URL/w.pt': the server's certificate is not trusted: self-signed certificate\n")
    assert "SSL_CERT_FILE or REQUESTS_CA_BUNDLE" in said
