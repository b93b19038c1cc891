"""The `source` kind: a file from outside, named by its content.

A local file or folder is used in place and never built; `sources` gives its digest. A remote file, or one
member of a pinned wheel, is fetched once and must be what was pinned: only its SHA-256 is keyed, because
the same bytes from another place are the same source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from mobuild import fetch
from mobuild.errors import ConfigError, SourceError
from mobuild.node import Built, unkeyed


@dataclass(frozen=True)
class Source:
    """One file or folder from outside: `uri`, or `member` of the wheel of `package` (`name==version`)."""

    kind: ClassVar[str] = "source"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False

    uri: str = unkeyed("")  # a path relative to the project's root, or an fsspec URI
    package: str = unkeyed("")
    member: str = unkeyed("")
    sha256: str = ""
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

    def pinned(self, pins: Mapping[str, Any]) -> Source:
        """This source with what `pins.read` says of it; a SHA-256 in the recipe goes first."""
        found = pins.get(fetch.without_credentials(self.remote_uri))
        if self.sha256 or not found:
            return self
        return replace(self, sha256=found.sha256, size_bytes=found.size_bytes, version=found.version)

    def check_pinned(self, name: str, recipe: str) -> None:
        """Refuse what cannot be named by content, before anything runs.

        Raises:
            ConfigError: it names no file, or two, or a package without version or member.
            SourceError: it is remote and has no SHA-256; says the command that pins it.
        """
        self._check_names_one_file(name)
        if not self.is_local and not self.sha256:
            raise SourceError(
                f"recipe {recipe!r}, node {name!r}: {self.shown!r} is not pinned",
                f"mobuild lock recipe={recipe}",
            )

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        assert not self.is_local, "a local source is used in place"
        opened = fetch.opened_member(self.package, self.member) if self.package else fetch.opened(self.uri)
        with opened as stream, open(out, "wb") as target:
            sha256, size_bytes = fetch.copy(stream, target)
        self._check("size", f"{self.size_bytes} bytes" if self.size_bytes else "", f"{size_bytes} bytes")
        self._check("SHA-256", self.sha256.lower(), sha256)
        return Built(measurements={"size_bytes": size_bytes, "sha256": sha256})

    def _check_names_one_file(self, name: str) -> None:
        if bool(self.uri) == bool(self.package):
            raise ConfigError(f"node {name!r}: needs either 'uri' or 'package' with 'member'")
        if self.package and not ("==" in self.package and self.member):
            raise ConfigError(
                f"node {name!r}: package {self.package!r} needs an exact version and a member",
                'package: "name==1.2.3", member: name/file.pth',
            )

    def _check(self, what: str, expected: str, found: str) -> None:
        if expected and expected != found:
            raise SourceError(
                f"source {self.shown!r}: expected {what} {expected}, found {found}",
                "not the pinned file; if the new one is wanted, write its sha256 in the recipe, or run `mobuild lock`",
            )
