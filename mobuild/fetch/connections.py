"""How web servers are asked, as the environment says: proxies, certificates, credentials.

Proxies (HTTPS_PROXY, NO_PROXY), certificates (SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE) and
credentials (in the URL, or of a netrc file) are those that curl and requests take; nobody is asked for any. What
is sent to one host follows no redirect to another.
"""

from __future__ import annotations

import functools
import os
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from mobuild.errors import SourceError
from mobuild.paths import expanded

_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


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


def clean(url: str) -> str:
    """`url` as it is sent: no credentials, no fragment, odd letters quoted."""
    parts = urlsplit(url)
    path, query = quote(parts.path, safe="/%:@!$&'()*+,;=~-._"), quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]")
    return urlunsplit((parts.scheme.lower(), parts.netloc.rpartition("@")[2], path, query, ""))


def credentials(url: str) -> dict[str, str]:
    """The header that tells who asks: by the URL, else by a netrc file."""
    parts = urlsplit(url)
    if parts.username is not None:
        return _basic(unquote(parts.username), unquote(parts.password or ""))
    import netrc

    place = expanded(os.environ.get("NETRC") or "~/.netrc")
    try:
        found = netrc.netrc(str(place)).authenticators(parts.hostname or "")
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):  # as requests and pip do
        return {}
    return _basic(found[0] or "", found[2] or "") if found else {}


def _basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}
