"""A registry on this machine's loopback, and a proxy before it that asks for credentials and makes faults."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

_CONFIG = """
version: 0.1
log: {{level: info}}
storage: {{filesystem: {{rootdirectory: "{root}"}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """`127.0.0.1:port` of a registry that keeps its blobs in `folder`; skips where there is none."""
    if not shutil.which("docker-registry"):
        pytest.skip("docker-registry is not installed")
    folder.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "registry.yml"
    config.write_text(_CONFIG.format(root=folder / "data", port=port))
    process = subprocess.Popen(
        ["docker-registry", "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if "listening on" in line:
            break
    else:
        pytest.fail("".join(said))
    drain = threading.Thread(target=process.stderr.read, daemon=True)  # or it would stop at a full pipe
    drain.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
        drain.join()
        process.stderr.close()


@dataclass
class Proxy:
    """Passes requests on to a registry. `fault` sees method and path first: a status to answer with, `drop` to break
    the connection, or None; `challenge` is the header of a 401 for who lacks the `authorization`. Uploads are to go to
    `storage` where that is given; `token` is what the service for tokens says, `retry_after` goes with each fault."""

    address: str = ""
    fault: Callable[[str, str], int | str | None] = lambda method, path: None
    challenge: str = ""
    authorization: str = ""
    storage: str = ""
    token: bytes = b'{"token": "of the service"}'
    retry_after: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)

    def count(self, method: str, part: str) -> int:
        return sum(each == method and part in path for each, path in self.seen)


@contextmanager
def proxy(upstream: str) -> Iterator[Proxy]:
    """A proxy before the registry at `upstream`."""
    told = Proxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            told.seen.append((self.command, self.path))
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.startswith("/token"):
                told.credentials.append(self.headers.get("Authorization") or content.decode())
                return self._answer(200, told.token, {})
            if told.challenge and self.headers.get("Authorization") != told.authorization:
                return self._answer(401, b'{"errors": [{"message": "who?"}]}', {"WWW-Authenticate": told.challenge})
            fault = told.fault(self.command, self.path)
            if fault == "drop":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return None
            if isinstance(fault, int):
                wait = {"Retry-After": told.retry_after} if told.retry_after else {}
                return self._answer(fault, b'{"errors": [{"code": "X", "message": "made up"}]}', wait)
            self._forward(content)

        def _forward(self, content: bytes) -> None:
            connection = http.client.HTTPConnection(upstream, timeout=60)
            headers = {name: value for name, value in self.headers.items() if name not in ("Host", "Authorization")}
            connection.request(self.command, self.path, content, headers)
            answer = connection.getresponse()
            place = answer.headers.get("Location")
            elsewhere = {"scheme": "http" if told.storage else "", "netloc": told.storage}
            changed = {"Location": place and urlsplit(place)._replace(**elsewhere).geturl()}
            kept = ("Content-Type", "Docker-Content-Digest")
            changed.update({name: answer.headers.get(name) for name in kept})
            body = answer.read()
            length = answer.headers.get("Content-Length")
            connection.close()
            self._answer(answer.status, body, {name: value for name, value in changed.items() if value}, length)

        def _answer(self, status: int, body: bytes, headers: dict[str, str], length: str | None = None) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = _pass_on

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
