"""The `source` kind: a file from outside, named by its content.

A local file or folder is used in place and never built; `sources` gives its digest. A remote file or folder, or one
member of a pinned wheel, is fetched once and must be what was pinned: only its SHA-256 is keyed, because
the same bytes from another place are the same source.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from mobuild import fetch
from mobuild.errors import ConfigError, SourceError, StoreError
from mobuild.node import Built, unkeyed
from mobuild.units import about

_SHA256 = re.compile(rf"({fetch.FOLDER})?[0-9A-Fa-f]{{64}}")


@dataclass(frozen=True)
class Source:
    """One file or folder from outside: `uri`, or `member` of the wheel of `package` (`name==version`)."""

    kind: ClassVar[str] = "source"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False

    uri: str = unkeyed("")  # a path relative to the project's root, or the URI of a file or folder
    package: str = unkeyed("")
    member: str = unkeyed("")
    sha256: str = ""  # of a folder `folder:…`, that of its listing (`fetch.FOLDER`)
    size_bytes: int = unkeyed(0)  # 0: unknown
    version: str = unkeyed("")  # what the file system said when it was pinned

    @property
    def suffix(self) -> str:
        return fetch.suffix_of(self.member or self.uri)

    @property
    def tools(self) -> tuple[str, ...]:
        return ()  # the SHA-256 says all, whoever fetched it

    @property
    def is_local(self) -> bool:
        """Whether the file is used in place; `file://` is not: it stands for any URI and is pinned."""
        return bool(self.uri) and not self.package and not fetch.is_remote(self.uri)

    @property
    def remote_uri(self) -> str:
        """What `pins.pin` reads: the URI, or `name==version/member`; empty for a local source."""
        if self.package:
            return f"{self.package}/{self.member}"
        return self.uri if fetch.is_remote(self.uri) else ""

    @property
    def shown(self) -> str:
        """What people may read: the URI without credentials, or package and member."""
        return fetch.without_credentials(self.remote_uri or self.uri)

    @property
    def needs_network(self) -> bool:
        """Whether something beyond this machine must be asked for it."""
        return bool(self.remote_uri) and (bool(self.package) or not fetch.is_offline_place(self.uri))

    @property
    def said(self) -> str:
        """What people may read of a remote source, with its size where that is known."""
        return f"{self.shown} ({about(self.size_bytes)})" if self.size_bytes else self.shown

    def pinned(self, pins: Mapping[str, Any]) -> Source:
        """This source with what `pins.read` says of it; a SHA-256 in the recipe goes first."""
        found = pins.get(fetch.without_credentials(self.remote_uri))
        if self.sha256 or not found:
            return replace(self, sha256=self.sha256.lower())
        return replace(self, sha256=found.sha256, size_bytes=found.size_bytes, version=found.version)

    def check_pinned(self, name: str, recipe: str) -> None:
        """Refuse what cannot be named by content, before anything runs.

        Raises:
            ConfigError: it names no file, or two, or a package without version or member; or is no URI.
            SourceError: it is remote and has no SHA-256; says the command that pins it.
        """
        self._check_names_one_file(name)
        if self.is_local:
            return
        if not self.package:
            fetch.check(self.uri)
        if not self.sha256:
            raise SourceError(
                f"recipe {recipe!r}, node {name!r}: {self.shown!r} is not pinned",
                f"mobuild lock recipe={recipe}",
            )
        if not _SHA256.fullmatch(self.sha256):
            raise ConfigError(f"node {name!r}: sha256: expected 64 hexadecimal digits, found {self.sha256!r}")

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        assert not self.is_local, "a local source is used in place"
        self._check_room(out)
        if self.package:
            found = fetch.take_member(self.package, self.member, out)
        else:
            found = fetch.take(self.uri, out, self.version)
        self._check(found)
        return Built(measurements={"size_bytes": found.size_bytes, "sha256": found.sha256})

    def _check_names_one_file(self, name: str) -> None:
        if bool(self.uri) == bool(self.package):
            raise ConfigError(f"node {name!r}: needs either 'uri' or 'package' with 'member'")
        if self.package and not ("==" in self.package and self.member):
            raise ConfigError(
                f"node {name!r}: package {self.package!r} needs an exact version and a member",
                'package: "name==1.2.3", member: name/file.pth',
            )

    def _check_room(self, out: Path) -> None:
        free_bytes = shutil.disk_usage(out.parent).free
        if self.size_bytes > free_bytes:
            raise StoreError(
                f"source {self.shown!r}: {about(self.size_bytes)} are to come, and '{out.parent}' has room for "
                f"{about(free_bytes)}",
                "make room there, or choose another place: cache.dir=PATH, or MOBUILD_CACHE",
            )

    def _check(self, found: fetch.Taken) -> None:
        expected_bytes = self.size_bytes or found.size_bytes
        if (self.sha256, expected_bytes) == (found.sha256, found.size_bytes):
            return
        kept = fetch.kept(self.uri, self.version)
        raise SourceError(
            f"source {self.shown!r}: expected SHA-256 {self.sha256}{_size(self.size_bytes)}, "
            f"found {found.sha256}{_size(found.size_bytes)}",
            "not the pinned file; if the new one is wanted, write its sha256 in the recipe, or run `mobuild lock`"
            + (f"\nit came from huggingface_hub's cache: if '{kept}' is damaged, remove it" if kept else ""),
        )


def _size(size_bytes: int) -> str:
    return f" ({size_bytes} bytes)" if size_bytes else ""
