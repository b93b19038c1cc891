"""How bytes come from outside: through fsspec, or as one member of a wheel that pip downloads.

Also the rules for what may be shown or written of a URI. Nothing here decides what is right: the `source`
kind compares with the pin, and `pins` makes one. fsspec is imported in functions, and the file keeps
Python 3.8 syntax, because the worker fetches.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mobuild.errors import MobuildError, SourceError, StoreError, ToolchainError, did_you_mean

_CHUNK = 1 << 20
# Parameters of signed URLs (AWS, Google Cloud, Azure, CloudFront) and common names of tokens, in lower case.
_SECRET = (
    "x-amz-",
    "x-goog-",
    "signature",
    "token",
    "sig",
    "key",
    "password",
    "secret",
    "credential",
    "auth",
)
_SIGNED = ("awsaccesskeyid", "expires", "policy", "key-pair-id", "sv", "se", "st", "sp", "sr", "spr", "skoid")


def is_remote(uri: str) -> bool:
    """Whether `uri` names a file system by its scheme (`s3://`, also `file://`); bare paths are local."""
    return "://" in uri


def suffix_of(uri: str) -> str:
    """File name ending of the path in a URI or of a bare path: `.pt`."""
    return PurePosixPath(urlsplit(uri).path if is_remote(uri) else uri).suffix


def without_credentials(uri: str) -> str:
    """`uri` without user, password and the secret or short-lived parameters of its query."""
    if not is_remote(uri):
        return uri
    parts = urlsplit(uri)
    query = [(name, value) for name, value in parse_qsl(parts.query, True) if not _is_secret(name)]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, urlencode(query), parts.fragment))


@contextmanager
def opened(uri: str) -> Iterator[IO[bytes]]:
    """The content of a remote file as a stream.

    Raises:
        ToolchainError: the library for the URI's scheme is not installed.
        SourceError: the file is not there, or the transfer failed.
    """
    import fsspec

    shown = without_credentials(uri)
    try:
        with fsspec.open(uri, "rb") as stream:
            yield stream
    except MobuildError:  # of the caller, who writes what is read here
        raise
    except ImportError as error:
        raise ToolchainError(f"source {shown!r}: {error}", "install that library beside mobuild") from error
    except FileNotFoundError as error:
        raise SourceError(f"source {shown!r}: there is no such file", "check its name and version") from error
    except Exception as error:  # every file system of fsspec raises classes of its own library
        reason = str(error).replace(uri, shown)
        raise SourceError(f"source {shown!r}: cannot be read: {type(error).__name__}: {reason}") from error


@contextmanager
def opened_member(package: str, member: str) -> Iterator[IO[bytes]]:
    """One file of the wheel of `package` (`name==version`) as a stream; pip finds and checks the wheel.

    Nothing is installed, no dependency is fetched and no code of the package runs.

    Raises:
        ToolchainError: this Python has no pip.
        SourceError: the package, its wheel or the member does not exist, or pip cannot reach it.
    """
    with tempfile.TemporaryDirectory(prefix="mobuild-wheel-") as folder:
        wheel = _download(package, Path(folder))
        try:
            with zipfile.ZipFile(wheel) as archive:
                if member not in archive.namelist():
                    known = did_you_mean(member, archive.namelist())
                    raise SourceError(f"source {package!r}: has no member {member!r}.{known}")
                with archive.open(member) as stream:
                    yield stream
        except zipfile.BadZipFile as error:
            raise SourceError(f"source {package!r}: {wheel.name!r} is damaged: {error}") from error


def copy(stream: IO[bytes], out: IO[bytes]) -> tuple[str, int]:
    """Copy `stream` to `out`; SHA-256 and size in bytes of what went through."""
    import hashlib

    state, size_bytes = hashlib.sha256(), 0
    for block in iter(lambda: stream.read(_CHUNK), b""):
        state.update(block)
        _write(block, out)
        size_bytes += len(block)
    return state.hexdigest(), size_bytes


def _write(block: bytes, out: IO[bytes]) -> None:
    try:
        out.write(block)
    except OSError as error:
        raise StoreError(f"'{out.name}': cannot be written: {error.strerror}", "make room there") from error


def version_of(uri: str) -> str:
    """What the file system says that tells versions apart (version id, ETag, time), or an empty string.

    Called while the file is `opened`, which puts what a file system raises into words.
    """
    import fsspec

    file_system, path = fsspec.core.url_to_fs(uri)
    facts = file_system.info(path)
    names = ("VersionId", "version_id", "generation", "ETag", "etag", "LastModified", "mtime", "created")
    return next((_text(facts[name]) for name in names if facts.get(name)), "")


def _download(package: str, folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "download",
        "--quiet",
    ]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels: list[Path] = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise ToolchainError(f"source {package!r}: {sys.executable!r} has no pip", "python -m ensurepip")
    said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
    raise SourceError(
        f"source {package!r}: pip cannot download its wheel",
        "\n".join([*said[-2:], "check its name and version, and that pip reaches its index"]),
    )


def _is_secret(name: str) -> bool:
    lower = name.lower()
    return lower in _SIGNED or any(part in lower for part in _SECRET)


def _text(fact: Any) -> str:
    if isinstance(fact, float):  # the local file system's mtime, in seconds since the epoch
        from time import gmtime, strftime

        return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(fact))
    return fact.isoformat() if hasattr(fact, "isoformat") else str(fact).strip('"')
