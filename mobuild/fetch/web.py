"""Files of web servers, by the standard library alone: retried, resumed, and never mixed of two versions.

Proxies (HTTPS_PROXY, NO_PROXY), certificates (SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE) and
credentials (in the URL, or of a netrc file) are those that curl and requests take; nobody is asked for any. What
is sent to one host follows no redirect to another.
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import os
import random
import socket
import ssl
import time
from base64 import b64encode
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Mapping
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from mobuild.errors import SourceError
from mobuild.fetch.uris import scrubbed

_BLOCK_BYTES = 1 << 20
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PASSING = (408, 425, 429, 500, 502, 503, 504)  # status codes after which the same request may work
_SAYS = {
    401: "needs credentials",
    403: "is not given to you",
    404: "is not there",
    407: "is behind a proxy that needs credentials",
    410: "is not there any more",
}
_TODO = {
    401: "name user and password in a netrc file, or in the URL by a variable: https://${oc.env:USER_AND_PASSWORD}@host/…",
    403: "check your rights; a signed URL may have expired",
    404: "check its name and version",
    407: "put them into HTTPS_PROXY: http://user:password@host:port",
    410: "name another version",
}


@dataclass(frozen=True)
class Patience:
    """How often to try, and how long to wait: twice as long after each failure without progress in between."""

    attempts: int = 6
    first_seconds: float = 0.5
    longest_seconds: float = 60.0
    timeout_seconds: float = 60.0  # without a byte


class HttpError(SourceError):
    """A server refused; `code` is the status."""

    def __init__(self, code: int, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.code = code


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
            SourceError: nothing can be read; HttpError when a server says so.
        """
        self._url, self._shown, self._patience = _clean(url), shown, patience
        self._headers = {**_credentials(url), **(headers or {})}
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
            self.size_bytes = int(length) if length.isdigit() else None

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
            if error.code not in _PASSING:
                raise _refused(error, self._shown) from error
            reason, wait = f"the server answers {error.code} {error.reason}", _retry_after(error)
        except (URLError, OSError, http.client.HTTPException) as error:
            reason, wait = _reason(error, self._shown, self._patience), 0.0
        self.close()
        self._response = None
        self._wait(reason, wait)
        return None

    def _wait(self, reason: str, asked_seconds: float) -> None:
        if self._read - self._failed_at >= _BLOCK_BYTES:
            self._failures = 0
        self._failed_at = self._read
        self._failures += 1
        if self._failures >= self._patience.attempts:
            place = f" after {self._read} of {self.size_bytes} bytes" if self._read and self.size_bytes else ""
            raise SourceError(
                f"source {self._shown!r}: cannot be read{place}: {scrubbed(reason)} ({self._failures} attempts)",
                "check the network and proxies (HTTPS_PROXY, NO_PROXY), and run mobuild again",
            )
        seconds = self._patience.first_seconds * 2.0 ** (self._failures - 1) * random.uniform(0.5, 1.0)
        time.sleep(min(max(seconds, asked_seconds), self._patience.longest_seconds))


class _Redirects(HTTPRedirectHandler):
    """Follows redirects between web servers; credentials go on to the same host alone."""

    http_error_308 = HTTPRedirectHandler.http_error_302

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        after = super().redirect_request(req, fp, 307 if code == 308 else code, msg, headers, newurl)
        if after is None:
            return None
        if after.type not in ("http", "https"):
            raise HTTPError(req.full_url, code, f"redirects to {after.type}:", headers, fp)
        if _origin(newurl) == _origin(req.full_url):
            for name, value in req.unredirected_hdrs.items():
                if name != "Host":
                    after.add_unredirected_header(name, value)
        return after


def opener() -> OpenerDirector:
    """What opens URLs as the environment says.

    Raises:
        SourceError: a variable names certificates that cannot be read.
    """
    variables = tuple((name, os.environ.get(name, "")) for name in (*_BUNDLES, "SSL_CERT_FILE", "SSL_CERT_DIR"))
    return build_opener(ProxyHandler(), HTTPSHandler(context=_context(variables)), _Redirects())


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


@functools.lru_cache(maxsize=None)  # takes 0.1 s, which many files of a folder would feel
def _context(variables: tuple[tuple[str, str], ...]) -> ssl.SSLContext:
    context = ssl.create_default_context()  # which reads SSL_CERT_FILE and SSL_CERT_DIR
    for name, place in variables:
        if place and name in _BUNDLES:
            try:
                is_folder = Path(place).is_dir()
                context.load_verify_locations(None if is_folder else place, place if is_folder else None)
            except OSError as error:  # ssl.SSLError as well
                raise SourceError(
                    f"{name}={place}: holds no certificates that can be read: {error}", "name a PEM file"
                ) from error
    return context


def _clean(url: str) -> str:
    """`url` as it is sent: no credentials, no fragment, odd letters quoted."""
    parts = urlsplit(url)
    path, query = quote(parts.path, safe="/%:@!$&'()*+,;=~-._"), quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]")
    return urlunsplit((parts.scheme.lower(), parts.netloc.rpartition("@")[2], path, query, ""))


def _credentials(url: str) -> dict[str, str]:
    """The header that tells who asks: by the URL, else by a netrc file."""
    parts = urlsplit(url)
    if parts.username is not None:
        return _basic(unquote(parts.username), unquote(parts.password or ""))
    import netrc

    place = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        found = netrc.netrc(str(place)).authenticators(parts.hostname or "")
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError, RuntimeError):  # as requests and pip do
        return {}
    return _basic(found[0] or "", found[2] or "") if found else {}


def _basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def _refused(error: HTTPError, shown: str) -> HttpError:
    if error.code in (301, 302, 303, 307, 308):
        is_loop = "infinite loop" in str(error.reason)  # of urllib's own words
        what = "the server redirects in a circle" if is_loop else scrubbed(str(error.reason))
        return HttpError(error.code, f"source {shown!r}: {what}", "check the address")
    says = _SAYS.get(error.code, "cannot be read")
    return HttpError(
        error.code,
        f"source {shown!r}: {says}: {error.code} {scrubbed(str(error.reason))}",
        _TODO.get(error.code, "check the address"),
    )


def _reason(error: Exception, shown: str, patience: Patience) -> str:
    """What broke a connection, in words.

    Raises:
        SourceError: it will not pass.
    """
    cause = error.reason if isinstance(error, URLError) and isinstance(error.reason, Exception) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        raise SourceError(
            f"source {shown!r}: the server's certificate is not trusted: {cause.verify_message}",
            "name the certificates of your network in SSL_CERT_FILE or REQUESTS_CA_BUNDLE; there is no way around",
        ) from error
    if isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN:
        raise SourceError(
            f"source {shown!r}: its host is not known: {cause.strerror}", "check its name, and HTTPS_PROXY"
        ) from error
    if isinstance(cause, socket.timeout):
        return f"nothing came for {patience.timeout_seconds:g} s"
    if isinstance(cause, http.client.IncompleteRead):
        return "the connection broke off before the end"
    return f"{type(cause).__name__}: {cause}"


def _retry_after(error: HTTPError) -> float:
    """The seconds that the server asks for: a number, or a date."""
    text = error.headers.get("Retry-After", "") if error.headers else ""
    if text.isdigit():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError, IndexError):
        return 0.0


_AGAIN = "run the command again"
