"""The lock file beside a recipe: which bytes its remote sources are.

`<recipe>.lock` is JSON, sorted, one source after another, made for reading in a review. It holds what is
needed to notice another file under the same name, and no credentials. The `lock` verb decides which
sources to pin and when; `fetch` moves the bytes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from mobuild import fetch
from mobuild.errors import SourceError

_SCHEMA = 1
_SHA256 = re.compile(f"({fetch.FOLDER})?[0-9a-f]{{64}}")
_DAMAGED = "take it from version control again, or remove it and pin anew with `mobuild lock`"


@dataclass(frozen=True)
class Pin:
    """One remote file or folder as it was when it was pinned."""

    sha256: str
    size_bytes: int
    version: str = ""  # commit, version id, ETag or time, where the server tells one
    place: str = ""  # of a package of an image: its file, and where that lies on a mirror


def name_of(uri: str) -> str:
    """The name of a source in a lock file: its URI without credentials."""
    return fetch.without_credentials(uri)


def pin(uri: str) -> Pin:
    """Read a remote file or folder, or one member of a wheel (`name==version/member`), once and pin what came.

    Raises:
        ConfigError: it is no URI.
        SourceError, ToolchainError: it cannot be read.
    """
    package, _, member = uri.partition("/")
    found = fetch.take(uri, None) if fetch.is_remote(uri) else fetch.take_member(package, member, None)
    return Pin(found.sha256, found.size_bytes, found.version)


def read(path: Path) -> dict[str, Pin]:
    """The pins in a lock file by name; none when there is no file.

    Raises:
        SourceError: it is damaged (a merge conflict, an edit by hand).
    """
    try:
        document = json.loads(path.read_bytes())
        if document["schema"] != _SCHEMA:
            raise SourceError(
                f"lock file '{path}': expected schema {_SCHEMA}, found {document['schema']}", "update mobuild"
            )
        return {name: _pin(name, found) for name, found in document["sources"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SourceError(f"lock file '{path}': cannot be read: {error}", _DAMAGED) from error


def write(path: Path, pins: Mapping[str, Pin]) -> None:
    """Write a lock file; equal pins give equal bytes."""
    sources = {fetch.without_credentials(name): _told(found) for name, found in pins.items()}
    text = json.dumps({"schema": _SCHEMA, "sources": sources}, indent=2, sort_keys=True, ensure_ascii=False)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes((text + "\n").encode("utf-8", "backslashreplace"))  # in JSON's own escapes
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SourceError(f"lock file '{path}': cannot be written: {error.strerror}") from error


def _told(pin: Pin) -> dict[str, Any]:
    return {name: value for name, value in asdict(pin).items() if value or name != "place"}


def _pin(name: str, found: Mapping[str, Any]) -> Pin:
    known = [each.name for each in fields(Pin)]
    if not set(found) <= set(known):
        raise ValueError(f"{name!r} has {', '.join(found)}; expected are {', '.join(known)}")
    pin = Pin(**found)
    if not isinstance(pin.sha256, str) or not _SHA256.fullmatch(pin.sha256.lower()):
        raise ValueError(f"{name!r}: sha256: expected 64 hexadecimal digits, found {pin.sha256!r}")
    if (
        type(pin.size_bytes) is not int
        or pin.size_bytes < 0
        or not isinstance(pin.version, str)
        or not isinstance(pin.place, str)
    ):
        raise ValueError(f"{name!r}: expected a number as size_bytes and a text as version, found {found}")
    return replace(pin, sha256=pin.sha256.lower())
