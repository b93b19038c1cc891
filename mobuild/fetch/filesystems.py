"""Files and folders of object stores (s3, gs, az) and of all else that fsspec reads."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import IO, Any, Iterator

from mobuild.errors import MobuildError, SourceError, ToolchainError, Unreachable
from mobuild.fetch.taken import Listed
from mobuild.fetch.uris import scheme_of, scrubbed, without_credentials

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
_CREDENTIALS = {
    "s3": "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket FSSPEC_S3_ANON=true",
    "gs": "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS; "
    "for a public bucket FSSPEC_GS_TOKEN=anon",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
}
_VARIABLES = {
    "s3": ("AWS_PROFILE", "AWS_ACCESS_KEY_ID"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "az": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING"),
}
_ENDPOINTS = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "gs": ("STORAGE_EMULATOR_HOST",)}
# Of the standard library, botocore, aiohttp and azure, by name: none of them is imported to fail.
_SILENT = {"ConnectionError", "HTTPClientError", "ClientConnectionError", "ServiceRequestError"}


@contextmanager
def opened(uri: str) -> Iterator[tuple[IO[bytes], str, int]]:
    """The content of a file as a stream, its version (version id, ETag, time) and its size in bytes.

    Raises:
        ToolchainError: the library for the URI's scheme is not installed.
        SourceError: the file is not there, or the transfer failed; Unreachable where no server answers.
    """
    with _explained(uri):
        file_system, path = _resolved(uri)
        facts = file_system.info(path)
        if facts.get("type") == "directory":
            raise SourceError(
                f"source {without_credentials(uri)!r}: is a folder", "end it with '/' to name all that is in it"
            )
        with file_system.open(path, "rb") as stream:
            yield stream, _version(facts), int(facts.get("size") or 0)


def listed(uri: str) -> dict[str, Listed]:
    """The files below a folder by their names in it, with `/` between the parts.

    Raises:
        ToolchainError, SourceError: as `opened`.
    """
    with _explained(uri):
        file_system, path = _resolved(uri)
        root = path.rstrip("/") + "/"
        folder = f"{scheme_of(uri)}://{uri.partition('://')[2].rstrip('/')}/"
        found = file_system.find(path.rstrip("/"), detail=True)
        if not isinstance(found, dict):  # adlfs answers a list for a file
            return {}
        return {
            name[len(root) :]: Listed(folder + name[len(root) :], int(facts.get("size") or 0))
            for name, facts in found.items()
            if name.startswith(root) and not name.endswith("/") and facts.get("type") == "file"
        }


def _resolved(uri: str) -> tuple[Any, str]:
    import fsspec

    options: dict[str, Any] = {"version_aware": True} if "?versionId=" in uri else {}
    file_system, path = fsspec.core.url_to_fs(uri, **options)
    file_system.invalidate_cache()  # instances and their listings are kept for the life of the process
    return file_system, path


@contextmanager
def _explained(uri: str) -> Iterator[None]:
    """Put what a file system raises into words."""
    shown, extra = without_credentials(uri), _EXTRAS.get(scheme_of(uri), "")
    try:
        yield
    except MobuildError:  # of the caller, who writes what is read here
        raise
    except ImportError as error:
        what = f"pip install 'mobuild[{extra}]'" if extra else "install that library beside mobuild"
        raise ToolchainError(
            f"source {shown!r}: {sys.executable} lacks a library for it: {scrubbed(str(error))}", what
        ) from error
    except FileNotFoundError as error:
        if "bucket does not exist" in str(error):
            bucket = shown.partition("://")[2].partition("/")[0]
            raise SourceError(
                f"source {shown!r}: there is no bucket {bucket!r}", f"check its name{_endpoint(extra)}"
            ) from error
        raise SourceError(f"source {shown!r}: there is no such file", "check its name and version") from error
    except PermissionError as error:
        reason = scrubbed(str(error))
        raise SourceError(f"source {shown!r}: is not given to you: {reason}", _rights(extra)) from error
    except Exception as error:
        reason = scrubbed(str(error).replace(uri, shown))
        if _is_silent(error):
            raise Unreachable(
                f"source {shown!r}: its server does not answer: {reason}",
                f"check the network and that it runs{_endpoint(extra)}\n"
                "offline=true asks no server and takes what the cache has",
            ) from error
        raise SourceError(
            f"source {shown!r}: cannot be read: {type(error).__name__}: {reason}", _CREDENTIALS.get(extra, "")
        ) from error


def _is_silent(error: BaseException | None) -> bool:
    """Whether a connection failed, rather than what was asked over it."""
    while error is not None:
        if any(each.__name__ in _SILENT for each in type(error).__mro__):
            return True
        error = error.__cause__
    return False


def _rights(extra: str) -> str:
    """What to do when a store refuses; credentials that are there need not be asked for."""
    found = [name for name in _VARIABLES.get(extra, ()) if os.environ.get(name)]
    if not found:
        return _CREDENTIALS.get(extra, "")
    return f"check the credentials that {' and '.join(found)} give{'s' * (len(found) == 1)}, and their right to read it"


def _endpoint(extra: str) -> str:
    """Where a variable leads, if one does."""
    found = [name for name in _ENDPOINTS.get(extra, ()) if os.environ.get(name)]
    return f"; {found[0]} is {scrubbed(os.environ[found[0]])}" if found else ""


def _version(facts: dict[str, Any]) -> str:
    names = ("VersionId", "version_id", "generation", "ETag", "etag", "LastModified", "mtime", "created")
    return next((_text(facts[name]) for name in names if facts.get(name) not in (None, "", "null")), "")


def _text(fact: Any) -> str:
    if isinstance(fact, float):  # the local file system's mtime, in seconds since the epoch
        from time import gmtime, strftime

        return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(fact))
    return fact.isoformat() if hasattr(fact, "isoformat") else str(fact).strip('"')
