"""Servers on this machine alone: a web server that fails as it is told, and a stand-in for a hub of models."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class Asked:
    """One request as the server saw it."""

    path: str
    headers: Mapping[str, str]


Answer = Callable[["Handler", int], None]
"""Answers a request, of which it was the n-th, from 0, for its path."""


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's table says."""

    server: Web

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        number = sum(1 for each in self.server.asked if urlsplit(each.path).path == urlsplit(self.path).path)
        self.server.asked.append(Asked(self.path, {name.lower(): value for name, value in self.headers.items()}))
        answer = self.server.answers.get(path, self.server.otherwise)
        with suppress(ConnectionError):
            answer(self, number)

    def do_HEAD(self) -> None:
        self.do_GET()

    def handle(self) -> None:
        with suppress(OSError):  # of a client that trusts nobody
            super().handle()

    def log_message(self, *_: Any) -> None:
        pass

    def send(self, body: bytes, status: int = 200, **headers: str) -> None:
        """A whole answer."""
        self.begin(status, **{"Content_Length": str(len(body)), **headers})
        if self.command != "HEAD":
            self.wfile.write(body)

    def begin(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


class Web(ThreadingHTTPServer):
    """A web server with a table of answers."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "https" if context else "http"
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.answers: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self.otherwise: Answer = lambda handler, _: handler.send(b"no such thing", 404)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"


@contextmanager
def web(context: ssl.SSLContext | None = None) -> Iterator[Web]:
    """A running web server; with `context` over TLS."""
    server = Web(context)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def whole(body: bytes, **headers: str) -> Answer:
    """The file, with Range where it is asked for and the ETag fits."""

    def answer(handler: Handler, number: int) -> None:
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        found = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        if found and handler.headers.get("If-Range") == etag:
            start = int(found.group(1))
            place = f"bytes {start}-{len(body) - 1}/{len(body)}"
            handler.send(body[start:], 206, ETag=etag, Content_Range=place, **headers)
        else:
            handler.send(body, ETag=etag, **headers)

    return answer


def first(*answers: Answer, then: Answer) -> Answer:
    """`answers`, one after the other, and from then on `then`."""
    return lambda handler, number: (answers[number] if number < len(answers) else then)(handler, number)


def cut_off(body: bytes, after: int, etag: str | None = None) -> Answer:
    """Promises the whole body and closes the connection after some of it."""

    def answer(handler: Handler, _: int) -> None:
        headers = {"ETag": etag if etag is not None else f'"{hashlib.md5(body).hexdigest()}"'}
        handler.begin(200, Content_Length=str(len(body)), **{name: text for name, text in headers.items() if text})
        handler.wfile.write(body[:after])
        handler.wfile.flush()
        handler.connection.shutdown(2)

    return answer


def status(code: int, **headers: str) -> Answer:
    return lambda handler, _: handler.send(b"<html>sorry</html>", code, **headers)


def moved(place: str, code: int = 302) -> Answer:
    return lambda handler, _: handler.send(b"", code, Location=place)


@dataclass
class Repository:
    """A repository of the stand-in hub: the files of its commits, and what its branches mean."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)  # commit → name → content
    revisions: dict[str, str] = field(default_factory=dict)


def serve_hub(
    server: Web, repositories: Mapping[str, Repository], tells_commit: bool = True, lists: bool = True, token: str = ""
) -> None:
    """Let `server` answer as a hub: `/api/models/{repo}/revision/{revision}` and `/{repo}/resolve/{revision}/{file}`.

    Content comes from another path after a redirect, as from a hub's content servers. A mirror may tell no commit,
    or list nothing.
    """

    def answer(handler: Handler, _: int) -> None:
        path = unquote(urlsplit(handler.path).path)
        if token and handler.headers.get("Authorization") != f"Bearer {token}":
            return handler.send(b"{}", 401)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            return _list(handler, found.group(1), found.group(2))
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return _resolve(handler, *found.groups())
        return handler.send(b"{}", 404)

    def _list(handler: Handler, name: str, revision: str) -> None:
        repository = repositories.get(name)
        commit = repository.revisions.get(revision, revision) if repository else ""
        if not lists or not repository or commit not in repository.files:
            return handler.send(b"{}", 404)
        files = repository.files[commit].items()
        document: dict[str, Any] = {"siblings": [{"rfilename": each, **_blob(each, body)} for each, body in files]}
        if tells_commit:
            document["sha"] = commit
        return handler.send(json.dumps(document).encode())

    def _resolve(handler: Handler, name: str, revision: str, file: str) -> None:
        repository = repositories.get(name)
        commit = repository.revisions.get(revision, revision) if repository else ""
        content = repository.files.get(commit, {}).get(file) if repository else None
        if content is None:
            return handler.send(b"Entry not found", 404)
        place = f"/content/{hashlib.sha256(content).hexdigest()}"
        server.answers[place] = whole(content)
        headers = {"X_Repo_Commit": commit} if tells_commit else {}
        return handler.send(b"", 302, Location=place, **headers)

    server.otherwise = answer


def _blob(name: str, content: bytes) -> dict[str, Any]:
    """What a hub tells of a file: of one that Git LFS keeps, the SHA-256 as well."""
    if not name.endswith(".onnx"):
        return {"size": len(content)}
    return {"size": len(content), "lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}}


def certified(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate of 127.0.0.1 that nobody else vouches for, as a file of trusted ones and for a server."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "ca.pem").write_bytes(certificate.public_bytes(encoding))
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return folder / "ca.pem", context
