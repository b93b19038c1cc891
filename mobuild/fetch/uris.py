"""What a URI says: whether it is remote, a folder, well formed, and what of it may be shown or written."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit, urlunsplit

from mobuild.errors import ConfigError, did_you_mean
from mobuild.fetch import hub_names

KNOWN = ("s3", "gs", "az", "https", "http", "hf", "file")
_WEB = ("https", "http")
_WITH_ACCOUNT = ("az", "abfs", "abfss")  # container@account.dfs.core.windows.net: before the '@' is no user
# Half of '://' makes a URI only where a slip of the pen is more likely than a file of that name.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(s3a?|gs|gcs|az|abfss?|https?|hf|file)(?::|//)", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>`]+")
# Parameters of signed URLs (AWS, Google Cloud, Azure, CloudFront) and common names of tokens, in lower case.
_SECRET = ("x-amz-", "x-goog-", "signature", "token", "sig", "key", "password", "secret", "credential", "auth")
_SIGNED = ("awsaccesskeyid", "expires", "policy", "key-pair-id", "sv", "se", "st", "sp", "sr", "spr", "skoid")


def is_remote(uri: str) -> bool:
    """Whether `uri` names a file system by its scheme (`s3://`, `hf:`, also `file://`); bare paths are local."""
    return scheme_of(uri) != ""


def scheme_of(uri: str) -> str:
    """The scheme in lower case; empty for a bare path."""
    found = _SCHEME.match(uri.strip())
    return (found.group(1) or found.group(2)).lower() if found else ""


def is_offline_place(uri: str) -> bool:
    """Whether `uri` is read without a network."""
    return scheme_of(uri) in ("file", "local", "memory", "")


def is_folder(uri: str) -> bool:
    """Whether `uri` means all files below it: it ends with a slash, or is a whole repository of a hub."""
    if scheme_of(uri) == "hf":
        return hub_names.is_folder(uri)
    try:
        path = _path_of(uri)
    except ValueError:
        return False
    return is_remote(uri) and (path.endswith("/") or (not path and uri.endswith("/") and scheme_of(uri) not in _WEB))


def suffix_of(uri: str) -> str:
    """File name ending of the path in a URI or of a bare path: `.pt`; empty for a folder."""
    if is_remote(uri) and is_folder(uri):
        return ""
    if scheme_of(uri) == "hf":
        return PurePosixPath(hub_names.file_of(uri)).suffix
    try:
        return PurePosixPath(_path_of(uri) if is_remote(uri) else uri).suffix
    except ValueError:  # no URL at all, which `check` says
        return ""


def without_credentials(uri: str) -> str:
    """`uri` without user, password and the secret or short-lived parameters of its query."""
    if "://" not in uri:  # a path, a name on a hub, or a slip of the pen
        return uri if scheme_of(uri) in ("", "hf") else re.sub(r"^([^:/]+[:/]+)[^/\s]*@", r"\1", uri)
    try:
        parts = urlsplit(uri)
    except ValueError:  # no URL at all
        return re.sub(r"//[^/\s]*@", "//", uri.partition("?")[0])
    user, at, host = parts.netloc.rpartition("@")
    if scheme_of(uri) in _WITH_ACCOUNT and ":" not in user:
        at, host = "", parts.netloc
    query = "&".join(each for each in parts.query.split("&") if not _is_secret(unquote(each.partition("=")[0])))
    if not at and query == parts.query:
        return uri  # as it was written: names in buckets hold all kinds of letters
    return urlunsplit((parts.scheme, host, parts.path, query, parts.fragment))


def server_of(uri: str) -> str:
    """Which server answers for `uri`: one for all buckets of a store, else its host."""
    scheme = scheme_of(uri)
    if scheme in ("s3", "s3a", "gs", "gcs", "hf"):
        return scheme
    return f"{scheme}://{uri.partition('://')[2].partition('/')[0].rpartition('@')[2]}"


def scrubbed(text: str) -> str:
    """`text` with every URL in it as it may be shown."""
    return _URL.sub(lambda found: without_credentials(found.group()), text)


def check(uri: str) -> None:
    """Refuse what cannot be a remote source, before anything is asked of the network.

    Raises:
        ConfigError: says what is expected.
    """
    scheme = scheme_of(uri)
    _check_spelling(uri, scheme)
    if scheme == "hf":
        hub_names.parse(uri)
    elif scheme in ("file", "local"):
        _check_absolute(uri)
    elif scheme != "memory":
        _check_scheme(scheme, without_credentials(uri))
        _check_place(uri, scheme)


def _check_spelling(uri: str, scheme: str) -> None:
    if uri != uri.strip():
        shown = without_credentials(uri)
        raise ConfigError(f"source {shown!r}: begins or ends with a space", f"write {shown.strip()!r}")
    after = ":" if scheme == "hf" else "://"
    if not uri[len(scheme) :].startswith(after):
        shown = without_credentials(uri)
        rest = shown[len(scheme) :].lstrip(":/")
        raise ConfigError(f"source {shown!r}: expected {after!r} after the scheme", f"write '{scheme}{after}{rest}'")


def _check_absolute(uri: str) -> None:
    if not uri.partition("://")[2].startswith("/"):
        raise ConfigError(
            f"source {uri!r}: is no absolute path",
            "write file:///folder/file, or the path alone: a file of the project is used in place",
        )


def _check_place(uri: str, scheme: str) -> None:
    shown = without_credentials(uri)
    try:
        host, path = urlsplit(uri).netloc.rpartition("@")[2], _path_of(uri)
    except ValueError as error:
        raise ConfigError(f"source {shown!r}: is no URL: {error}") from error
    if not host:
        what = "host" if scheme in _WEB else "bucket"
        raise ConfigError(f"source {shown!r}: names no {what}", f"write {scheme}://{what}/path/file")
    if scheme in _WEB and path.endswith("/"):
        raise ConfigError(
            f"source {shown!r}: is a folder, and a web server lists none",
            "name one file; folders can be read from s3, gs, az and hf",
        )
    if not path and not is_folder(uri):
        raise ConfigError(
            f"source {shown!r}: names no file", f"write {shown}/path/file, or {shown}/ for all that is in it"
        )


def _check_scheme(scheme: str, shown: str) -> None:
    if scheme in KNOWN:
        return
    import fsspec

    others = fsspec.available_protocols()
    if scheme not in others:
        raise ConfigError(
            f"source {shown!r}: there is no scheme {scheme!r}.{did_you_mean(scheme, {*KNOWN, *others})}",
            f"Schemes: {', '.join(KNOWN)}, and others of fsspec",
        )


def _path_of(uri: str) -> str:
    """The path below the host or bucket; in a bucket, '?' and '#' are letters of names like others."""
    if scheme_of(uri) in _WEB:
        return urlsplit(uri).path
    return uri.partition("://")[2].partition("?versionId=")[0].partition("/")[2]


def _is_secret(name: str) -> bool:
    lower = name.lower()
    return lower in _SIGNED or any(part in lower for part in _SECRET)
