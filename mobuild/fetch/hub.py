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
from mobuild.fetch import web
from mobuild.fetch.hub_names import HubName, parse

_COMMIT = re.compile(r"[0-9a-f]{40}")
_TRUE = ("1", "ON", "YES", "TRUE")
_OFFLINE = "HF_HUB_OFFLINE"
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
    if path := _kept(name, commit):
        with open(path, "rb") as stream:
            yield stream, path.relative_to(_snapshots(name)).parts[0], path.stat().st_size
        return
    _check_online(uri)
    if not commit:
        commit = _commit(uri, name)
    with _said(uri):
        body = web.Body(_address(name, commit), uri, _authorization())
    try:
        yield body, commit or body.headers.get("x-repo-commit", "") or body.version, body.size_bytes or 0
    finally:
        body.close()


def listed(uri: str, version: str = "") -> tuple[str, dict[str, str]]:
    """The commit of a repository, and the files below the folder that `uri` names: name in it → URI at that commit.

    Raises:
        SourceError: the hub does not list it.
    """
    name = parse(uri)
    commit = _commit_in(version, name)
    if is_offline():
        commit, files = _kept_files(uri, name, commit)
    else:
        commit, files = _ask(uri, name, commit)
    revision = commit or name.revision
    return commit, {
        file[len(name.path) :]: f"hf:{name.prefix}{name.repository}/{file}@{revision}"
        for file in sorted(files)
        if file.startswith(name.path)
    }


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE, or its older name, forbids to ask the hub."""
    return any(os.environ.get(name, "").upper() in _TRUE for name in (_OFFLINE, "TRANSFORMERS_OFFLINE"))


def _commit_in(version: str, name: HubName) -> str:
    """The commit that is meant for sure: what was pinned, or a revision that is one."""
    return next((each for each in (version, name.revision) if _COMMIT.fullmatch(each)), "")


def _check_online(uri: str) -> None:
    if is_offline():
        raise SourceError(
            f"source {uri!r}: {_OFFLINE} is set, and the hub's cache does not have it", f"unset {_OFFLINE}, once"
        )


def _commit(uri: str, name: HubName) -> str:
    """The commit that the revision means now; empty when a mirror lists nothing and may have the file all the same."""
    try:
        commit, files = _ask(uri, name, "")
    except web.HttpError as error:
        if error.code == 404:
            return ""
        raise
    if name.path in files:
        return commit
    if any(file.startswith(f"{name.path}/") for file in files):
        raise SourceError(f"source {uri!r}: is a folder", "end it with '/' to name all that is in it")
    raise SourceError(
        f"source {uri!r}: there is no such file in {name.repository}.{did_you_mean(name.path, files)}",
        f"Files: {', '.join(sorted(files)[:20])}{' …' if len(files) > 20 else ''}",
    )


def _ask(uri: str, name: HubName, commit: str) -> tuple[str, tuple[str, ...]]:
    """The commit and the names of all files of a repository at a revision, as the hub lists them."""
    revision = quote(commit or name.revision, safe="")
    with _said(uri):
        body = web.Body(f"{_endpoint()}/api/{name.kind}/{name.repository}/revision/{revision}", uri, _authorization())
    try:
        document = json.loads(b"".join(iter(body.read, b"")))
        files = tuple(str(each["rfilename"]) for each in document["siblings"])
        return str(document.get("sha") or body.headers.get("x-repo-commit") or commit), files
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError(
            f"source {uri!r}: {_endpoint()} does not answer as a hub: {error!r}", "check HF_ENDPOINT"
        ) from error
    finally:
        body.close()


@contextmanager
def _said(uri: str) -> Iterator[None]:
    """Give the hub's refusals hints of their own: it answers 401 for a repository that is not there, too."""
    try:
        yield
    except web.HttpError as error:
        error.hint = _TODO.get(error.code, error.hint)
        raise


def _address(name: HubName, commit: str) -> str:
    revision = quote(commit or name.revision, safe="")
    return f"{_endpoint()}/{name.prefix}{name.repository}/resolve/{revision}/{quote(name.path)}"


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"


def _authorization() -> Mapping[str, str]:
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or _kept_token()
    return {"Authorization": f"Bearer {token.strip()}"} if token.strip() else {}


def _kept_token() -> str:
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in _TRUE:
        return ""
    try:
        return Path(os.environ.get("HF_TOKEN_PATH") or _home() / "token").expanduser().read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _home() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HOME") or default).expanduser()


def _folder(name: HubName) -> Path:
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or _home() / "hub"
    return Path(cache).expanduser() / "--".join((name.kind, *name.repository.split("/")))


def _snapshots(name: HubName) -> Path:
    return _folder(name) / "snapshots"


def _kept(name: HubName, commit: str) -> Path | None:
    """The file in huggingface_hub's cache: of the commit, and offline also of what the revision meant last."""
    commit = commit or _kept_commit(name)
    path = _snapshots(name) / commit / name.path
    return path if commit and path.is_file() else None


def _kept_commit(name: HubName) -> str:
    try:
        return (_folder(name) / "refs" / name.revision).read_text().strip() if is_offline() else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _kept_files(uri: str, name: HubName, commit: str) -> tuple[str, tuple[str, ...]]:
    commit = commit or _kept_commit(name)
    root = _snapshots(name) / commit
    files: Any = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()] if commit else []
    if not files:
        _check_online(uri)
    return commit, tuple(files)
