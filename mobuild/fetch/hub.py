"""Files of Hugging Face's hub and its mirrors, by its plain HTTP interface.

HF_ENDPOINT, HF_TOKEN (and the file that `hf auth login` writes), HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE mean what
they mean to huggingface_hub. That library refuses mirrors whose answers lack the header `X-Repo-Commit`; here the
commit comes from the listing, from that header, or stays unknown: what counts is the SHA-256 that is pinned.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Iterator, Mapping
from urllib.parse import quote

from mobuild.errors import SourceError, did_you_mean
from mobuild.fetch import hub_cache, web
from mobuild.fetch.hub_names import HubName, parse
from mobuild.fetch.refusals import code_of
from mobuild.fetch.taken import Listed, Taken
from mobuild.fetch.uris import without_credentials
from mobuild.paths import expanded

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TODO = {
    401: "check the name; a private or gated repository needs HF_TOKEN, and its licence accepted on the hub",
    403: "accept the licence of the repository on the hub, and set HF_TOKEN of that account",
    404: "check repository, revision and file",
}


@contextmanager
def opened(uri: str, version: str = "") -> Iterator[tuple[IO[bytes] | web.Body, str, int]]:
    """The content of a file as a stream, its commit (or what else tells versions apart), its size (0: unknown).

    `version` is the commit that was pinned. What huggingface_hub has of it already is not fetched again.

    Raises:
        SourceError: it is not there, or cannot be read.
    """
    name = parse(uri)
    commit = _commit_in(version, name)
    if path := kept(uri, version):
        with open(path, "rb") as stream:
            yield stream, path.relative_to(hub_cache.snapshots(name)).parts[0], path.stat().st_size
        return
    _check_online(uri, "and the hub's cache does not have it")
    if not commit:
        commit, _ = _found(uri, name, "")
    with _said(uri):
        body = web.Body(_address(name, commit), uri, _authorization())
    try:
        yield body, commit or body.headers.get("x-repo-commit", "") or body.version, body.size_bytes or 0
    finally:
        body.close()


def kept(uri: str, version: str) -> Path | None:
    """The file in huggingface_hub's cache, where it is there."""
    name = parse(uri)
    return hub_cache.file(name, _commit_in(version, name))


def told(uri: str, version: str = "") -> Taken | None:
    """What the hub itself says of a file's content, which it does of large ones; None when it must be read.

    Raises:
        SourceError: the hub has no such file.
    """
    name = parse(uri)
    if hub_cache.is_offline() or kept(uri, version):
        return None
    commit, files = _found(uri, name, _commit_in(version, name))
    file = files.get(name.path)
    return Taken(file.sha256, file.size_bytes, commit) if file and file.sha256 else None


def listed(uri: str, version: str = "") -> tuple[str, dict[str, Listed]]:
    """The commit of a repository, and the files below the folder that `uri` names, by their names in it.

    Raises:
        SourceError: the hub does not list it.
    """
    name = parse(uri)
    commit = _commit_in(version, name)
    _check_online(uri, "and which files a folder has is not known to the hub's cache")
    commit, files = _ask(uri, name, commit)
    return commit, {path[len(name.path) :]: file for path, file in sorted(files.items()) if path.startswith(name.path)}


def _commit_in(version: str, name: HubName) -> str:
    """The commit that is meant for sure: what was pinned, or a revision that is one."""
    return next((each for each in (version, name.revision) if _COMMIT.fullmatch(each)), "")


def _check_online(uri: str, why: str) -> None:
    if hub_cache.is_offline():
        raise SourceError(f"source {uri!r}: HF_HUB_OFFLINE is set, {why}", "unset HF_HUB_OFFLINE, once")


def _found(uri: str, name: HubName, commit: str) -> tuple[str, dict[str, Listed]]:
    """The commit that the revision means now, and all files, of which the one that is meant is there.

    Both are empty when a mirror lists nothing, and may have the file all the same.
    """
    try:
        commit, files = _ask(uri, name, commit)
    except SourceError as error:
        if code_of(error) == 404:
            return "", {}
        raise
    if name.path in files:
        return commit, files
    if any(path.startswith(f"{name.path}/") for path in files):
        raise SourceError(f"source {uri!r}: is a folder", "end it with '/' to name all that is in it")
    raise SourceError(
        f"source {uri!r}: there is no such file in {name.repository}.{did_you_mean(name.path, files)}",
        f"Files: {', '.join(sorted(files)[:20])}{' …' if len(files) > 20 else ''}",
    )


def _ask(uri: str, name: HubName, commit: str) -> tuple[str, dict[str, Listed]]:
    """The commit and all files of a repository at a revision, as the hub lists them."""
    revision = quote(commit or name.revision, safe="")
    address = f"{_endpoint()}/api/{name.kind}/{name.repository}/revision/{revision}?blobs=true"
    with _said(uri):
        body = web.Body(address, uri, _authorization())
    try:
        document = json.loads(b"".join(iter(body.read, b"")))
        commit = str(document.get("sha") or body.headers.get("x-repo-commit") or commit)
        return commit, {str(each["rfilename"]): _listed(name, each, commit) for each in document["siblings"]}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError(
            f"source {uri!r}: {without_credentials(_endpoint())} does not answer as a hub: {error!r}",
            "check HF_ENDPOINT",
        ) from error
    finally:
        body.close()


def _listed(name: HubName, told: Mapping[str, Any], commit: str) -> Listed:
    """One file of a listing. Large files (Git LFS, Xet) have their SHA-256 there."""
    uri = f"hf:{name.prefix}{name.repository}/{told['rfilename']}@{commit or name.revision}"
    large = told.get("lfs") or {}
    sha256 = str(large.get("sha256") or large.get("oid") or "").lower()
    is_told = commit and _SHA256.fullmatch(sha256)  # without a commit, nobody knows what it is told of
    return Listed(uri, int(told.get("size") or large.get("size") or 0), sha256 if is_told else "")


@contextmanager
def _said(uri: str) -> Iterator[None]:
    """Give the hub's refusals hints of their own: it answers 401 for a repository that is not there, too."""
    try:
        yield
    except SourceError as error:
        error.hint = _TODO.get(code_of(error), error.hint)
        raise


def _address(name: HubName, commit: str) -> str:
    revision = quote(commit or name.revision, safe="")
    return f"{_endpoint()}/{name.prefix}{name.repository}/resolve/{revision}/{quote(name.path)}"


def _endpoint() -> str:
    found = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    if not found.startswith(("https://", "http://")):
        raise SourceError(f"HF_ENDPOINT={found}: is no address of a web server", "write https://host")
    return found


def _authorization() -> Mapping[str, str]:
    token = (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or _kept_token()).strip()
    if not (token.isascii() and token.isprintable()):  # http.client would show it in its refusal
        raise SourceError("the token for the hub has letters that no token has", "set HF_TOKEN anew, or log in again")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _kept_token() -> str:
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in hub_cache.TRUE:
        return ""
    try:
        return expanded(os.environ.get("HF_TOKEN_PATH") or hub_cache.home() / "token").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
