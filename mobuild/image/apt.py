"""Packages of Debian: apt says which there are, and apt or a mirror has the files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any, Sequence
from urllib.parse import quote, unquote, urlsplit

from mobuild.errors import SourceError, ToolchainError
from mobuild.fetch import web
from mobuild.fetch.uris import scrubbed
from mobuild.image.locked import Package

_LINE = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")


def resolve(names: Sequence[str], architecture: str) -> list[Package]:
    """The newest versions that this machine's apt knows; downloads nothing.

    Raises:
        ToolchainError: there is no apt-get.
        SourceError: apt does not know a package, or tells no SHA-256.
    """
    said = _apt("download", "--print-uris", *(f"{name}:{architecture}" for name in names))
    if said.returncode:
        raise SourceError(
            f"Debian packages: apt-get: {_error(said)}",
            "the base 'distroless' is of Debian 12: lock it where apt has its packages, after `apt-get update`",
        )
    found = {package.name: package for package in map(_package, _LINE.finditer(said.stdout))}
    if missing := [name for name in names if name not in found]:
        raise SourceError(f"Debian packages: apt-get tells no SHA-256 of {', '.join(missing)}", "apt-get update")
    return [found[name] for name in names]


def fetch(wanted: Sequence[Package], architecture: str, folder: Path, mirror: str) -> None:
    """Put the files of the packages into `folder`, from `mirror` where one is given; who calls checks them.

    Raises:
        ToolchainError: there is no apt-get.
        SourceError: one cannot be had any more.
    """
    if mirror:
        for each in wanted:
            _take(f"{mirror.rstrip('/')}/{quote(each.place)}", folder / each.file)
        return
    said = _apt("download", *(f"{each.name}:{architecture}={each.version}" for each in wanted), cwd=folder)
    if said.returncode:
        raise SourceError(
            f"Debian packages: apt-get cannot download what is pinned: {_error(said)}",
            "pin what there is now: mobuild lock target=image\n"
            "or take the pinned ones where they are kept: image.mirror=https://snapshot.debian.org/archive/…",
        )
    for each in wanted:
        (folder / _name_of_apt(each, architecture)).rename(folder / each.file)


def _name_of_apt(package: Package, architecture: str) -> str:
    """What `apt-get download` calls the file: with the epoch of the version, which the pool leaves away."""
    ending = "all" if package.file.endswith("_all.deb") else architecture
    return f"{package.name}_{package.version.replace(':', '%3a')}_{ending}.deb"


def _package(line: re.Match[str]) -> Package:
    name, version, _ = unquote(line["file"]).split("_")
    place = unquote(urlsplit(line["uri"]).path).lstrip("/")
    return Package(name, version, line["sha256"], place, int(line["size"]))


def _apt(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    if not shutil.which("apt-get"):
        raise ToolchainError(
            "Debian packages: there is no apt-get here",
            "run it once on Debian 12 (a container will do) and share the cache, or give image.mirror=URL",
        )
    command = ["apt-get", "-q", *words]
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def _error(said: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in said.stderr.splitlines() if line.startswith("E:")]
    return "; ".join(line[2:].strip() for line in lines) or said.stderr.strip()


def _take(url: str, path: Path) -> None:
    """Write what is at `url`, which may have credentials: they are sent to its host, and never shown."""
    shown = scrubbed(url)
    try:
        with closing(_opened(url, shown)) as stream, open(path, "wb") as out:
            shutil.copyfileobj(stream, out)
    except (OSError, ValueError) as error:  # URLError is an OSError
        raise SourceError(f"Debian packages: '{shown}' cannot be read: {error}", "check image.mirror=") from error


def _opened(url: str, shown: str) -> Any:
    return web.Body(url, shown) if url.startswith(("http://", "https://")) else urllib.request.urlopen(url)
