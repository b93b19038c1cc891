"""How a registry is told who asks: Basic, or a token of the service that its 401 names (Docker's tokens)."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import OpenerDirector, Request

from mobuild.errors import PushFailed
from mobuild.image.logins import Login

_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_CLIENT = "mobuild"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Authorization:
    """The header for the registry at `url`; learns from each 401 of its own which one is wanted.

    Another host, where an upload or a redirect may lead, gets none, and cannot say where credentials are sent.
    """

    def __init__(self, url: str, asker: OpenerDirector, login: Login | None, timeout_seconds: float) -> None:
        self._url, self._opener, self._login, self._timeout_seconds = url, asker, login, timeout_seconds
        self._header = ""

    def headers(self, url: str) -> dict[str, str]:
        return {"Authorization": self._header} if self._header and self._is_own(url) else {}

    def answer(self, error: HTTPError) -> bool:
        """Get what the 401 asks for; whether it is worth asking again."""
        if not self._is_own(error.url):
            return False
        challenge = error.headers.get("WWW-Authenticate") or ""
        kind, _, rest = challenge.partition(" ")
        before = self._header
        if kind.lower() == "basic" and self._login and not self._login.token:
            self._header = self._basic()
        elif kind.lower() == "bearer":
            self._header = f"Bearer {self._token(dict(_PARAMETER.findall(rest)))}"
        return bool(self._header) and self._header != before

    def _is_own(self, url: str) -> bool:
        return _origin(url) == _origin(self._url)

    def _basic(self) -> str:
        assert self._login
        return "Basic " + b64encode(f"{self._login.user}:{self._login.password}".encode()).decode()

    def _token(self, challenge: dict[str, str]) -> str:
        realm = challenge.get("realm", "")
        place = urlsplit(realm)
        if place.scheme != "https" and not (place.scheme == "http" and place.hostname in _LOOPBACK):
            raise PushFailed(f"the registry wants credentials sent to {realm!r}, which is not encrypted")
        asked = {name: value for name, value in challenge.items() if name in ("service", "scope")}
        if self._login and self._login.token:
            form = {**asked, "grant_type": "refresh_token", "refresh_token": self._login.token, "client_id": _CLIENT}
            request = Request(realm, data=urlencode(form).encode(), method="POST")
        else:
            request = Request(f"{realm}{'&' if place.query else '?'}{urlencode(asked)}")
            if self._login:
                request.add_unredirected_header("Authorization", self._basic())
        with self._opener.open(request, timeout=self._timeout_seconds) as answer:
            return _taken(answer.read(), realm)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    host = parts.netloc.lower()
    return parts.scheme, host[: -len(usual)] if usual and host.endswith(usual) else host


def _taken(said: bytes, realm: str) -> str:
    """The token in what the service said, which is not shown."""
    try:
        found: Any = json.loads(said)
        token = found.get("token") or found.get("access_token")
    except (ValueError, AttributeError):
        token = None
    if not isinstance(token, str):
        raise PushFailed(f"{realm!r}, which the registry names for tokens, gives none", "check the network and proxies")
    return token
