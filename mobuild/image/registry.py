"""Pushes an image of a layout to a registry (OCI distribution specification 1.1: push).

What the registry has is not sent again, so that a new engine costs one layer and two small documents. A client of our
own on the standard library, since skopeo is no Python package and is missing where most users build. The layers go
first and the manifest last: a push that breaks off leaves no image that lacks something.
"""

from __future__ import annotations

import hashlib
import http.client
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urljoin
from urllib.request import Request

from mobuild.errors import PushFailed
from mobuild.fetch.connections import opener
from mobuild.fetch.refusals import retry_after
from mobuild.image.authorization import Authorization
from mobuild.image.layout import MANIFEST, Descriptor, Image
from mobuild.image.logins import login
from mobuild.image.references import Reference

_PASSING = (408, 429, 500, 502, 503, 504)
_SHOWN_BYTES = 300
_HINTS = {
    401: "docker login {registry}",
    403: "the account may not push there: ask for the right to write to {repository}",
    404: "make the repository {repository} in the registry, or name another",
    405: "the registry takes no pushes: is it a mirror?",
    413: "the registry, or a proxy before it, does not take a layer of this size",
    429: "the registry limits requests: push again later",
}


@dataclass(frozen=True)
class Patience:
    """How often to try what may pass, how long to wait before the next time, and how long for an answer. A registry
    may ask for a longer wait (`Retry-After`), up to the longest."""

    attempts: int = 4
    first_seconds: float = 0.5
    longest_seconds: float = 60.0
    timeout_seconds: float = 120.0


@dataclass(frozen=True)
class Pushed:
    """An image that the registry has: its manifest's digest, and which blobs were sent, or mounted, for it."""

    reference: Reference
    digest: str
    sent: tuple[Descriptor, ...] = ()
    mounted: tuple[Descriptor, ...] = ()
    kept: int = 0
    """How many blobs were there already, or were mounted."""

    @property
    def sent_bytes(self) -> int:
        return sum(blob.size_bytes for blob in self.sent)

    def __str__(self) -> str:
        return f"{self.reference.registry}/{self.reference.repository}@{self.digest}"


def push(image: Image, reference: Reference, mount_from: Sequence[str] = (), patience: Patience = Patience()) -> Pushed:
    """Push `image`. `mount_from` names repositories of the same registry that may have its layers.

    Raises:
        PushFailed: the registry refuses, cannot be reached, or has another image afterwards.
    """
    return _Push(image, reference, patience).run(mount_from)


class _Push:
    def __init__(self, image: Image, reference: Reference, patience: Patience) -> None:
        self._image, self._reference, self._patience = image, reference, patience
        self._opener = opener()
        self._authorization = Authorization(
            reference.url, self._opener, login(reference.registry), patience.timeout_seconds
        )
        self._base = f"{reference.url}{reference.repository}/"

    def run(self, mount_from: Sequence[str]) -> Pushed:
        sent: list[Descriptor] = []
        mounted: list[Descriptor] = []
        for blob in self._image.blobs:
            if not self._has(blob):
                is_mounted = self._try(f"blob {blob.digest}", lambda blob=blob: self._send(blob, mount_from))
                (mounted if is_mounted else sent).append(blob)
        self._try("manifest", self._put_manifest)
        digest = self._try("manifest", self._digest)
        if digest != self._image.descriptor.digest:
            raise PushFailed(
                f"push to {self._reference}: expected {self._image.descriptor.digest}, the registry has {digest}",
                "someone else pushed the same tag meanwhile, or a proxy changes what passes",
            )
        kept = len(self._image.blobs) - len(sent)
        return Pushed(self._reference, digest, tuple(sent), tuple(mounted), kept)

    def _has(self, blob: Descriptor) -> bool:
        return bool(self._try(f"blob {blob.digest}", lambda: self._is_there(f"blobs/{blob.digest}")))

    def _is_there(self, path: str) -> bool:
        try:
            self._ask("HEAD", self._base + path).close()
        except HTTPError as error:
            if error.code == 404:
                error.close()
                return False
            raise
        return True

    def _send(self, blob: Descriptor, mount_from: Sequence[str]) -> bool:
        """Send the blob, or have it mounted; whether it was mounted."""
        place = ""
        for repository in mount_from:
            is_mounted, place = self._mount(blob, repository)
            if is_mounted:
                return True
        if not place:
            with self._ask("POST", f"{self._base}blobs/uploads/", b"") as answer:
                place = _place(answer)
        place += ("&" if "?" in place else "?") + urlencode({"digest": blob.digest})
        self._ask("PUT", place, self._image.path(blob), {"Content-Type": "application/octet-stream"}).close()
        return False

    def _mount(self, blob: Descriptor, repository: str) -> tuple[bool, str]:
        """(whether the registry takes the blob from its other repository, or else where to send it).

        Nowhere where it refuses, as for who may not read that repository.
        """
        query = urlencode({"mount": blob.digest, "from": repository})
        try:
            with self._ask("POST", f"{self._base}blobs/uploads/?{query}", b"") as answer:
                return answer.status == 201, _place(answer)
        except HTTPError as error:
            if error.code in _PASSING:
                raise
            error.close()
            return False, ""

    def _put_manifest(self) -> None:
        path = self._image.path(self._image.descriptor)
        self._ask("PUT", f"{self._base}manifests/{self._reference.tag}", path, {"Content-Type": MANIFEST}).close()

    def _digest(self) -> str:
        """The digest of what the registry gives for the tag."""
        with self._ask("GET", f"{self._base}manifests/{self._reference.tag}", None, {"Accept": MANIFEST}) as answer:
            return f"sha256:{hashlib.sha256(answer.read()).hexdigest()}"

    def _ask(
        self, method: str, url: str, content: bytes | Path | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """The answer; asked a second time with a token when the registry wants one."""
        try:
            return self._ask_once(method, url, content, headers or {})
        except HTTPError as error:
            if error.code != 401 or not self._authorization.answer(error):
                raise
            error.close()
        return self._ask_once(method, url, content, headers or {})

    def _ask_once(self, method: str, url: str, content: bytes | Path | None, headers: Mapping[str, str]) -> Any:
        request = Request(url, method=method, headers={"User-Agent": "mobuild", **headers})
        for name, value in self._authorization.headers(url).items():
            request.add_unredirected_header(name, value)
        if isinstance(content, Path):
            with open(content, "rb") as file:
                request.data = file  # sent block by block; a layer does not fit in memory
                request.add_header("Content-Length", str(content.stat().st_size))
                return self._opener.open(request, timeout=self._patience.timeout_seconds)
        request.data = content
        return self._opener.open(request, timeout=self._patience.timeout_seconds)

    def _try(self, what: str, action: Any) -> Any:
        """What `action` returns; tried again after what may pass."""
        for attempt in range(1, self._patience.attempts + 1):
            asked_seconds = 0.0
            try:
                return action()
            except HTTPError as error:
                why, is_passing, hint = _told(error), error.code in _PASSING, _HINTS.get(error.code, "")
                asked_seconds = retry_after(error)
                error.close()
            except (URLError, OSError, http.client.HTTPException) as error:
                why, is_passing, hint = _broken(error, self._patience), True, "check the network and proxies"
            if not is_passing or attempt == self._patience.attempts:
                tries = f" ({attempt} attempts)" if attempt > 1 else ""
                raise PushFailed(
                    f"push to {self._reference}: {what}: {why}{tries}",
                    hint.format(registry=self._reference.registry, repository=self._reference.repository),
                )
            seconds = max(self._patience.first_seconds * 2.0 ** (attempt - 1), asked_seconds)
            time.sleep(min(seconds, self._patience.longest_seconds))
        raise AssertionError("no attempts")


def _place(answer: Any) -> str:
    """Where an upload is to be sent."""
    return urljoin(str(answer.url), str(answer.headers["Location"] or ""))


def _told(error: HTTPError) -> str:
    """Status and the message of the registry's JSON errors (distribution specification: error codes)."""
    import json

    try:
        raw = error.read(1 << 16)
        told = "; ".join(str(each.get("message") or each.get("code")) for each in json.loads(raw)["errors"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        told = ""
    return f"the registry answers {error.code} {error.reason}" + (f": {told[:_SHOWN_BYTES]}" if told else "")


def _broken(error: Exception, patience: Patience) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {patience.timeout_seconds:g} s"
    if isinstance(cause, (ConnectionError, http.client.HTTPException)):
        return f"the connection broke: {cause or type(cause).__name__}"
    return f"cannot be reached: {cause}"
