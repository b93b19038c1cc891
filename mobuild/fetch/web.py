"""Files of web servers, by the standard library alone: retried, resumed, and never mixed of two versions."""

from __future__ import annotations

import hashlib
import http.client
import random
import time
from dataclasses import dataclass
from typing import Any, Mapping
from urllib.error import HTTPError, URLError
from urllib.request import Request

from mobuild.errors import SourceError, Unreachable
from mobuild.fetch.connections import clean, credentials, opener
from mobuild.fetch.refusals import PASSING, reason, refused, retry_after
from mobuild.fetch.uris import scrubbed

_BLOCK_BYTES = 1 << 20
_AGAIN = "run the command again"


@dataclass(frozen=True)
class Patience:
    """How often to try, and how long to wait: twice as long after each failure without progress in between."""

    attempts: int = 6
    first_seconds: float = 0.5
    longest_seconds: float = 60.0
    timeout_seconds: float = 60.0  # without a byte


class Body:
    """The content of a URL as a stream.

    When a connection breaks, the rest is asked for (`Range` with `If-Range`). A server that cannot do that sends all
    again, of which the beginning must be what was read before.
    """

    def __init__(
        self, url: str, shown: str, headers: Mapping[str, str] | None = None, patience: Patience = Patience()
    ) -> None:
        """Open `url`, which messages call `shown`. `headers` are sent to its own host alone.

        Raises:
            SourceError: nothing can be read.
        """
        self._url, self._shown, self._patience = clean(url), shown, patience
        self._headers = {**credentials(url), **(headers or {})}
        self._opener = opener()
        self._read, self._state = 0, hashlib.sha256()
        self._etag = self.version = ""
        self.size_bytes: int | None = None
        self._failures, self._failed_at = 0, 0
        self._response: Any = None
        while self._response is None:
            self._try(self._connect)
        self.headers: dict[str, str] = {name.lower(): value for name, value in self._response.headers.items()}

    def read(self, size: int = _BLOCK_BYTES) -> bytes:
        """The next bytes, at most `size`; empty at the end.

        Raises:
            SourceError: the server broke off too often, or has another file meanwhile.
        """
        while True:
            try:
                block = self._try(self._read_on, size)
            except SourceError:
                self.close()
                raise
            if block is not None:
                self._read += len(block)
                self._state.update(block)
                return bytes(block)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()

    def _read_on(self, size: int) -> bytes:
        if self._response is None:
            self._connect()
        block: bytes = self._response.read1(size)
        if not block and self.size_bytes is not None and self._read < self.size_bytes:
            raise http.client.IncompleteRead(b"", self.size_bytes - self._read)
        return block

    def _connect(self) -> None:
        """Ask for the file, or for the rest of it."""
        request = Request(self._url)
        request.add_header("User-Agent", "mobuild")
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)
        resumes = self._read > 0 and self._etag.startswith('"')  # a weak ETag says nothing about bytes
        if resumes:
            request.add_header("Range", f"bytes={self._read}-")
            request.add_header("If-Range", self._etag)
        self._response = response = self._opener.open(request, timeout=self._patience.timeout_seconds)
        if resumes and response.status == 206:
            self._check_range(response)
        elif self._read:
            self._skip(response)
        else:
            self._etag = response.headers.get("ETag", "")
            weak = self._etag[2:] if self._etag.startswith("W/") else self._etag
            self.version = weak.strip('"') or response.headers.get("Last-Modified", "")
            length = response.headers.get("Content-Length", "")
            self.size_bytes = int(length) if length.isdecimal() else None

    def _check_range(self, response: Any) -> None:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {self._read}-"):
            raise SourceError(f"source {self._shown!r}: the server resumed at another place than asked", _AGAIN)

    def _skip(self, response: Any) -> None:
        """Read what was read before, which must be the same."""
        state, left = hashlib.sha256(), self._read
        while left:
            block = response.read1(min(left, _BLOCK_BYTES))
            if not block:
                raise http.client.IncompleteRead(b"", left)
            state.update(block)
            left -= len(block)
        if state.digest() != self._state.digest():
            raise SourceError(f"source {self._shown!r}: was replaced while it was read", _AGAIN)

    def _try(self, action: Any, *arguments: Any) -> Any:
        """What `action` returns, or None after a failure that may pass, having waited.

        Raises:
            SourceError: it will not pass, or did so too often.
        """
        try:
            return action(*arguments)
        except HTTPError as error:
            error.close()
            if error.code not in PASSING:
                raise refused(error, self._shown) from error
            kind, why, wait = SourceError, f"the server answers {error.code} {error.reason}", retry_after(error)
        except (URLError, OSError, ValueError, http.client.HTTPException) as error:
            kind = SourceError if self._response or self._read else Unreachable
            why, wait = reason(error, self._shown, self._patience.timeout_seconds), 0.0
        self.close()
        self._response = None
        self._wait(kind, why, wait)
        return None

    def _wait(self, kind: type[SourceError], why: str, asked_seconds: float) -> None:
        if self._read - self._failed_at >= _BLOCK_BYTES:
            self._failures = 0
        self._failed_at = self._read
        self._failures += 1
        if self._failures >= self._patience.attempts:
            place = f" after {self._read} of {self.size_bytes} bytes" if self._read and self.size_bytes else ""
            raise kind(
                f"source {self._shown!r}: cannot be read{place}: {scrubbed(why)} ({self._failures} attempts)",
                "check the network and proxies (HTTPS_PROXY, NO_PROXY), and run mobuild again",
            )
        seconds = self._patience.first_seconds * 2.0 ** (self._failures - 1) * random.uniform(0.5, 1.0)
        time.sleep(min(max(seconds, asked_seconds), self._patience.longest_seconds))
