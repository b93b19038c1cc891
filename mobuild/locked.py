"""A locked requirement set, as `pip freeze`, `pip-compile` and `uv export` write it: every version pinned.

Read without any environment at hand, so that a plan can tell the versions which nodes will see; `environments`
makes the environment when something has to run in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mobuild.blame import PACKAGES
from mobuild.distributions import normalized
from mobuild.errors import ConfigError, SourceError
from mobuild.fingerprint import canonical, digest_bytes
from mobuild.toolchain import Environment

_WHERE = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--trusted-host")
_HOW = (*_WHERE, "--prefer-binary", "--only-binary", "--no-binary", "--require-hashes", "--pre")
_ENCODING = "utf-8-sig"  # editors of Windows begin a file with a mark, which pip reads over as well
_HINT = "pin every package, as name==version: pip freeze, pip-compile --generate-hashes, uv export"


@dataclass(frozen=True)
class Locked:
    """A set as it applies to one Python."""

    file: Path
    pins: Mapping[str, str]  # normalised name → version
    has_hashes: bool

    def digest(self, base: Environment) -> str:
        """What an environment of this set, made of the interpreter `base`, is known by."""
        text = self.file.read_text(_ENCODING)
        return digest_bytes(canonical([sorted(_lines(text)), str(base.python.resolve()), base.version]))

    def environment(self, base: Environment) -> Environment:
        """The environment as nodes see it; its folders are not there before it is made."""
        modules = {name.replace("-", "_"): name for name in self.pins}
        modules |= {module: normalized(name) for module, name in PACKAGES.items() if normalized(name) in self.pins}
        files = (*base.files, str(base.python), str(self.file))
        return Environment(base.python, base.version, (), dict(self.pins), modules, files, base.variables)


def read(file: Path, version: str) -> Locked:
    """The set in `file`, for a Python of that version.

    Raises:
        SourceError: there is no such file.
        ConfigError: it is no requirement set, or a package in it is not pinned.
    """
    try:
        text = file.read_text(_ENCODING)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise SourceError(f"toolchain.requirements: '{file}': {reason}", _HINT) from error
    pins: dict[str, str] = {}
    lines = list(_lines(text))
    for line in lines:
        if line.startswith("-"):
            _check_option(file, line)
        elif pin := _pin(file, re.split(r"\s--hash", line)[0].strip(), version):
            name, pinned = pin
            if pins.setdefault(name, pinned) != pinned:
                raise ConfigError(f"'{file}': {name} is pinned twice, to {pins[name]} and to {pinned}", _HINT)
    if not pins:
        raise ConfigError(f"'{file}': pins no package for Python {version}", _HINT)
    return Locked(file, pins, any("--hash" in line for line in lines))


def _lines(text: str) -> Iterator[str]:
    """The requirements and options, one a line, without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        if stripped := re.sub(r"(^|\s)#.*", "", line).strip():
            yield " ".join(stripped.split())


def _pin(file: Path, line: str, version: str) -> tuple[str, str] | None:
    """Name and version of a requirement; None for one that is meant for other Pythons."""
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        found = Requirement(line)
    except InvalidRequirement as error:
        raise ConfigError(f"'{file}': {line!r} is no requirement: {str(error).splitlines()[0]}", _HINT) from error
    python = {"python_version": ".".join(version.split(".")[:2]), "python_full_version": version}
    try:
        if found.marker and not found.marker.evaluate(python):
            return None
    except (UndefinedComparison, UndefinedEnvironmentName) as error:
        raise ConfigError(f"'{file}': {line!r}: its marker cannot be told: {error}", _HINT) from error
    specifiers = list(found.specifier)
    if found.url or len(specifiers) != 1 or specifiers[0].operator not in ("==", "===") or "*" in str(specifiers[0]):
        raise ConfigError(f"'{file}': {line!r} pins no version", _HINT)
    return normalized(found.name), specifiers[0].version


def _check_option(file: Path, line: str) -> None:
    option = re.split(r"[=\s]", line)[0]
    if option not in _HOW:
        raise ConfigError(
            f"'{file}': {line!r}: a locked set is one file with pinned packages, so there is no {option!r}",
            f"options: {', '.join(_HOW)}",
        )
