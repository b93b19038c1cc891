"""HTTP/1.1 with one client: requests off a socket, strictly and by deadlines, and answers onto it.

Only what inference needs (RFC 9112): Content-Length bodies, keep-alive, pipelining, `Expect: 100-continue`. What two
parsers could read differently is refused, since proxies stand in front. A request has a deadline as a whole: a
time-out for each read would let a client that sends one byte a second stay for ever.
"""

from __future__ import annotations

import json
import re
import socket
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Mapping, Sequence

MAX_HEAD_BYTES = 16384
_CHUNK_BYTES = 1 << 13
_GROWTH_BYTES = 1 << 22
_ONE_WRITE_BYTES = 1 << 18
_SLOWEST_BYTES_PER_SECOND = 250_000  # what a large body may take beyond the time of a small one
_LINGER_SECONDS = 2.0
_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([^\x00-\x20\x7f]+) HTTP/(\d\.\d)\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*?)[ \t]*\Z")


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] = {}) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


@dataclass(frozen=True)
class Request:
    """The head of a request; names of headers are in lower case, `length` is that of the body."""

    method: str
    path: str
    version: str
    headers: Mapping[str, str]
    length: int

    @property
    def keeps_alive(self) -> bool:
        options = [option.strip() for option in self.headers.get("connection", "").lower().split(",")]
        return "close" not in options if self.version == "1.1" else "keep-alive" in options

    @property
    def waits_for_word(self) -> bool:
        """Whether the client sends the body only after it was told to."""
        return self.version == "1.1" and self.headers.get("expect", "").lower() == "100-continue"


@dataclass(frozen=True)
class Response:
    """A status and a body in parts, which are buffers."""

    status: int
    parts: Sequence[Any] = ()
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(len(part) for part in self.parts)

    @classmethod
    def of(cls, document: Any, status: int = 200, headers: Mapping[str, str] = {}) -> Response:
        return cls(status, (json.dumps(document).encode(),), headers=headers)

    @classmethod
    def refusing(cls, refused: Refused) -> Response:
        return cls.of({"error": refused.message}, refused.status, refused.headers)


class Connection:
    """One client. `max_body_bytes` and the seconds are limits; every read has a deadline."""

    def __init__(
        self, client: socket.socket, max_body_bytes: int, read_seconds: float, idle_seconds: float = 75
    ) -> None:
        self._socket, self._buffer, self._deadline = client, bytearray(), 0.0
        self._max_body_bytes, self._read_seconds, self._idle_seconds = max_body_bytes, read_seconds, idle_seconds

    def head(self) -> Request | None:
        """The next request without its body; None when the client has gone, or sent nothing for long, or many
        empty lines.

        Raises:
            Refused: it is none, too large, or too slow; nothing more can be read from this client.
        """
        self._deadline = time.monotonic() + self._idle_seconds
        try:
            while not self._buffer.strip(b"\r\n"):
                if len(self._buffer) >= MAX_HEAD_BYTES or not self._receive():
                    return None
        except Refused:
            return None
        self._deadline = time.monotonic() + self._read_seconds
        while self._buffer.startswith(b"\r\n"):  # an empty line before a request is to be ignored
            del self._buffer[:2]
        while (end := self._buffer.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES)) < 0:
            if len(self._buffer) >= MAX_HEAD_BYTES:
                raise Refused(431, f"the request line and the headers are longer than {MAX_HEAD_BYTES} bytes")
            if not self._receive():
                return None
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        return _parsed(lines)

    def body(self, request: Request) -> bytearray:
        """The body of the request whose head was read last.

        Raises:
            Refused: it is too large, ends early, or comes too slowly.
        """
        if request.length > self._max_body_bytes:
            raise Refused(413, f"the body has {request.length} bytes, this server takes {self._max_body_bytes} at most")
        if request.waits_for_word and len(self._buffer) < request.length:
            self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._deadline = time.monotonic() + self._read_seconds + request.length / _SLOWEST_BYTES_PER_SECOND
        body = self._buffer[: request.length]
        del self._buffer[: request.length]  # what is left is a request that did not wait for this answer
        place = len(body)
        while place < request.length:
            if place == len(body):  # room as bytes come: a length alone must not cost memory
                body += bytes(min(request.length - place, _GROWTH_BYTES))
            with memoryview(body) as room:
                count = self._fill(room[place:])
            if not count:
                raise Refused(400, f"the body ends after {place} of {request.length} bytes")
            place += count
        return body

    def answer(self, response: Response, request: Request | None, stays: bool) -> None:
        """Send the answer; `request` is None for one that was not understood."""
        lines = [
            f"HTTP/1.1 {response.status} {_PHRASES.get(response.status, '')}",
            time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
            f"Content-Type: {response.content_type}",
            f"Content-Length: {response.size_bytes}",
            "Connection: keep-alive" if stays else "Connection: close",
            *(f"{name}: {value}" for name, value in response.headers.items()),
        ]
        head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        parts = [] if request and request.method == "HEAD" else list(response.parts)
        # Two small packets would wait for each other (Nagle, delayed acknowledgement): one write where it fits.
        together = len(head) + response.size_bytes <= _ONE_WRITE_BYTES
        self._socket.settimeout(self._read_seconds + response.size_bytes / _SLOWEST_BYTES_PER_SECOND)
        for part in [b"".join([head, *parts])] if together else [head, *parts]:
            self._socket.sendall(part)

    def linger(self) -> None:
        """Read what a refused client still sends, for a moment: closing at once would destroy the answer on its way."""
        self._deadline = time.monotonic() + _LINGER_SECONDS
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while self._receive():
                self._buffer.clear()
        except (OSError, Refused):
            return

    def _receive(self) -> int:
        """Read some bytes into the buffer; how many, 0 when the client has ended."""
        chunk = bytearray(_CHUNK_BYTES)
        count = self._fill(chunk)
        self._buffer += chunk[:count]
        return count

    def _fill(self, room: Any) -> int:
        """Read some bytes into `room`; how many, 0 when the client has ended."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise Refused(408, "the request did not come in time")
        self._socket.settimeout(remaining)
        try:
            return self._socket.recv_into(room)
        except socket.timeout as error:
            raise Refused(408, "the request did not come in time") from error
        except ConnectionError:
            return 0


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def _parsed(lines: Sequence[bytes]) -> Request:
    """The head of a request from its lines."""
    found = _REQUEST_LINE.match(lines[0])
    if not found:
        raise Refused(400, "the request line is not 'METHOD /path HTTP/1.1'")
    method, target, version = (part.decode("latin-1") for part in found.groups())
    if version not in ("1.0", "1.1"):
        raise Refused(505, f"HTTP/{version} is not spoken here, HTTP/1.1 is")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        matched = _FIELD.match(line)
        if not matched:
            raise Refused(400, "a header is not 'Name: value'")
        name, value = matched[1].decode("latin-1").lower(), matched[2].decode("latin-1")
        if name in headers and name in ("content-length", "host", "transfer-encoding"):
            raise Refused(400, f"the header {name} is there twice")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if version == "1.1" and "host" not in headers:
        raise Refused(400, "the header Host is missing, which HTTP/1.1 asks for")
    if headers.get("expect", "100-continue").lower() != "100-continue":
        raise Refused(417, "the header Expect may be 100-continue")
    return Request(method, _path(target), version, headers, _length(method, headers))


def _path(target: str) -> str:
    """The path of a request's target, which may be a whole URL and have a query."""
    return re.sub(r"^https?://[^/?]*", "", target, flags=re.IGNORECASE).partition("?")[0] or "/"


def _length(method: str, headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise Refused(411, "chunked bodies are not taken: send the header Content-Length")
    text = headers.get("content-length")
    if text is None:
        if method in ("POST", "PUT", "PATCH"):
            raise Refused(411, "the header Content-Length is missing")
        return 0
    if not re.match(r"[0-9]{1,18}$", text):
        raise Refused(400, f"Content-Length: expected a number of bytes, found {text[:40]!r}")
    return int(text)
