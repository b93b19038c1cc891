"""Wheels of an image: resolved and fetched by pip for the image's Python and platform, unpacked and pruned."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import HeaderParser
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Iterable, Iterator, Sequence
from urllib.parse import unquote, urlsplit

from mobuild.errors import SourceError, ToolchainError
from mobuild.image.debian import PYTHON
from mobuild.image.locked import Package, normalized
from mobuild.image.tree import Tree

SITE = "usr/lib/python3/dist-packages"  # where Debian's Python looks, beside its own library
_GLIBC = 36  # of Debian 12: 2.36
_OLDEST = 17
_LONGEST_LICENCE = 200
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_DROPPED = (
    *("*.pyi", "*.h", "*.hpp", "*.a", "*.lib", "*.pyx", "*.pxd", "*.c", "*.cpp", "*.pyc", "*/py.typed"),
    *("*/tests/*", "*/test/*", "*/testing/tests/*", "*/include/*"),
    *("*.dist-info/RECORD", "*.dist-info/WHEEL", "*.dist-info/entry_points.txt", "*.dist-info/top_level.txt"),
    *("*.dist-info/INSTALLER", "*.dist-info/sboms/*"),
)


def tags(architecture: str) -> list[str]:
    """The platform tags that the image's glibc takes, newest first; pip knows none from another."""
    machine = _MACHINES[architecture]
    return [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, _OLDEST - 1, -1)] + [f"manylinux2014_{machine}"]


def resolve(requirements: Sequence[str], architecture: str) -> list[Package]:
    """The wheels that pip takes for the requirements, without what those depend on; installs nothing.

    Raises:
        ToolchainError: this Python has no pip.
        SourceError: there is no wheel for that platform, or pip reaches no index.
    """
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--target", "unused"]
    said = _pip([*words, *_target(architecture), *requirements])
    if said.returncode:
        raise _refused(said, f"wheels of {', '.join(requirements)} for Python {PYTHON} on {_MACHINES[architecture]}")
    found = []
    for each in json.loads(said.stdout)["install"]:
        told = each["download_info"]
        file = unquote(urlsplit(told["url"]).path.rpartition("/")[2])
        digest = told.get("archive_info", {}).get("hashes", {}).get("sha256", "")
        if not digest or not file.endswith(".whl"):
            raise SourceError(f"wheels: the index tells no SHA-256 of {file!r}", "use an index that does")
        found.append(Package(normalized(each["metadata"]["name"]), each["metadata"]["version"], digest, file))
    return sorted(found, key=lambda package: package.name)


def fetch(wanted: Sequence[Package], architecture: str, folder: Path) -> None:
    """Put the wheels into `folder`; pip compares their digests.

    Raises:
        ToolchainError, SourceError: as `resolve`; or a wheel is not the pinned one.
    """
    listed = folder / "requirements.txt"
    listed.write_text("".join(f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in wanted))
    words = ["download", "--quiet", "--require-hashes", "--dest", str(folder), "--requirement", str(listed)]
    said = _pip([*words, *_target(architecture)])
    listed.unlink()
    if said.returncode:
        raise _refused(said, f"wheels {', '.join(each.file for each in wanted)}")


def unpack(wheels: Iterable[Path], dropped: Sequence[str], tree: Tree) -> None:
    """Add what the wheels install, without `dropped` (patterns of paths in a wheel) and what no image needs.

    Libraries are never stripped: it breaks those that auditwheel has patched.

    Raises:
        SourceError: one is no wheel.
    """
    for wheel in wheels:
        try:
            with zipfile.ZipFile(wheel) as archive:
                for name in _kept(archive, (*_DROPPED, *dropped)):
                    tree.file(f"{SITE}/{_installed(name)}", archive.read(name))
        except zipfile.BadZipFile as error:
            raise SourceError(f"wheel '{wheel.name}': is damaged: {error}") from error


def licence(wheel: Path) -> str:
    """What a wheel's metadata say of its licence, in one line; empty where they say nothing, or a whole text."""
    with zipfile.ZipFile(wheel) as archive:
        name = next((each for each in archive.namelist() if each.endswith(".dist-info/METADATA")), "")
        told = HeaderParser().parsestr(archive.read(name).decode("utf-8", "replace")) if name else Message()
    said = str(told.get("License-Expression") or told.get("License") or "").strip()
    if said and "\n" not in said and len(said) <= _LONGEST_LICENCE:
        return said
    named = [
        str(each).rpartition(" :: ")[2] for each in told.get_all("Classifier", []) if str(each).startswith("License")
    ]
    return ", ".join(named)


def _kept(archive: zipfile.ZipFile, dropped: Sequence[str]) -> Iterator[str]:
    for name in archive.namelist():
        data, inner = _data(name)
        is_script = data and "lib/" not in inner
        if not name.endswith("/") and not is_script and not any(fnmatchcase(name, each) for each in dropped):
            yield name


def _installed(name: str) -> str:
    """Where a member goes: `x.data/purelib/a.py` beside the others."""
    data, inner = _data(name)
    return inner.partition("/")[2] if data else name


def _data(name: str) -> tuple[bool, str]:
    """(whether a member goes elsewhere than beside the others, its name there): only `name-version.data` holds such."""
    first, _, inner = name.partition("/")
    return first.endswith(".data"), inner


def _target(architecture: str) -> list[str]:
    platforms = [word for tag in tags(architecture) for word in ("--platform", tag)]
    python = ["--python-version", PYTHON, "--implementation", "cp"]
    return ["--no-deps", "--only-binary", ":all:", *python, *platforms, "--platform", "any"]


def _pip(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if "No module named pip" in done.stderr:
        raise ToolchainError(f"wheels: {sys.executable!r} has no pip", "python -m ensurepip")
    return done


def _refused(said: subprocess.CompletedProcess[str], what: str) -> SourceError:
    lines = [line for line in said.stderr.splitlines() if line.startswith("ERROR")] or said.stderr.splitlines()
    hint = "check that there is a wheel for that platform, and that pip reaches its index"
    if "DO NOT MATCH THE HASHES" in said.stderr:
        hint = "not the pinned files; if others are wanted, pin them: mobuild lock target=image"
        lines = [line.strip() for line in said.stderr.splitlines() if "Expected sha256" in line or "Got  " in line]
    return SourceError(f"{what}: pip cannot have them", "\n".join([*lines[-3:], hint]))
