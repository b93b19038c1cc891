"""What web servers and networks refuse, in words: for good, or so that the same request may work in a while."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from email.utils import parsedate_to_datetime
from urllib.error import HTTPError, URLError

from mobuild.errors import SourceError
from mobuild.fetch.uris import scrubbed

PASSING = (408, 425, 429, 500, 502, 503, 504)  # status codes after which the same request may work
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


def refused(error: HTTPError, shown: str) -> SourceError:
    """What a server's answer means to people."""
    code, text = error.code, scrubbed(str(error.reason))
    if code in (301, 302, 303, 307, 308):
        says = "the server redirects in a circle" if "infinite loop" in text else text  # of urllib's own words
    else:
        says = f"{_SAYS.get(code, 'cannot be read')}: {code} {text}"
    return SourceError(f"source {shown!r}: {says}", _TODO.get(code, "check the address"))


def code_of(error: SourceError) -> int:
    """The status with which a server refused; 0 for other failures."""
    return error.__cause__.code if isinstance(error.__cause__, HTTPError) else 0


def reason(error: Exception, shown: str, timeout_seconds: float) -> str:
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
    if isinstance(cause, (http.client.InvalidURL, ValueError)):  # UnicodeError: a host that no name server knows
        raise SourceError(
            f"source {shown!r}: leads to an address that cannot be asked: {scrubbed(str(cause))}", "check the address"
        ) from error
    if isinstance(cause, socket.timeout):
        return f"nothing came for {timeout_seconds:g} s"
    if isinstance(cause, http.client.IncompleteRead):
        return "the connection broke off before the end"
    return f"{type(cause).__name__}: {cause}"


def retry_after(error: HTTPError) -> float:
    """The seconds that the server asks for: a number, or a date."""
    text = error.headers.get("Retry-After", "") if error.headers else ""
    if text.isdecimal():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError, IndexError):
        return 0.0
