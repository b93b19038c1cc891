"""Names of images in registries: `registry/team/name:tag`, as Docker reads them, and stricter where it guesses."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mobuild.errors import ConfigError

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?")
_HUB, _HUB_HOST = "docker.io", "registry-1.docker.io"
_LONGEST = 255
_SHAPE = "image.push=registry/team/name:tag"


@dataclass(frozen=True)
class Reference:
    """Where an image goes: `registry` is a host with its port, `repository` a path there."""

    registry: str
    repository: str
    tag: str = "latest"

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}"

    @property
    def url(self) -> str:
        """The registry's API. Plain HTTP on this machine's loopback alone."""
        scheme = "http" if is_loopback(self.registry) else "https"
        return f"{scheme}://{_HUB_HOST if self.registry == _HUB else self.registry}/v2/"


def parse(text: str) -> Reference:
    """The reference that `text` means.

    Raises:
        ConfigError: it is none, names no registry, or has a digest, which only a finished push can know.
    """
    _, at, rest = text.rpartition("@")
    if at and not re.match(r"sha\d+:", rest):
        shown = f"…@{rest}"  # what stands before it may be a secret
        raise ConfigError(f"image.push: {shown!r} has a user, and a reference has none", "docker login keeps that")
    if "://" in text:
        raise _refused(text, "is a URL, and a reference has no scheme")
    if at:
        raise _refused(text, "has a digest; a push is to a tag, and tells the digest")
    registry, rest = _parts(text)
    if not registry:
        raise _refused(text, f"names no registry; Docker Hub is {_HUB}")
    repository, tag = _checked(text, registry, rest, _refused)
    if registry == _HUB and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(registry, repository, tag)


def name(text: str) -> str:
    """`repository:tag` of an image that is loaded, with a registry or without; the tag is `latest` where there is none.

    Raises:
        ConfigError: nothing can load an image of that name.
    """
    if "://" in text or "@" in text:
        raise _misnamed(text, "is a URL or has a digest")
    registry, rest = _parts(text)
    repository, tag = _checked(text, registry, rest, _misnamed)
    return f"{registry}/{repository}:{tag}" if registry else f"{repository}:{tag}"


def repository(recipe: str) -> str:
    """A repository's name after a recipe's, which may have capitals, a `+` and what else no repository takes."""
    parts = (re.sub(r"[^a-z0-9]+", _joined, part).strip("-._") for part in recipe.lower().split("/"))
    return "/".join(part for part in parts if part) or "model"


def qualified(name: str) -> str:
    """The name with its registry, which is Docker Hub's where it has none."""
    registry, rest = _parts(name)
    if registry not in ("", _HUB):
        return name
    return f"{_HUB}/{rest}" if "/" in rest else f"{_HUB}/library/{rest}"


def is_loopback(registry: str) -> bool:
    """Whether a registry, a host with its port, is on this machine, and so is spoken to without encryption."""
    return bool(_LOOPBACK.fullmatch(registry))


def _joined(found: re.Match[str]) -> str:
    return found[0] if re.fullmatch(r"\.|__?|-+", found[0]) else "-"


def _parts(text: str) -> tuple[str, str]:
    """(the registry or nothing, the rest)."""
    first, slash, rest = text.partition("/")
    is_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return (first, rest) if is_registry else ("", text)


def _checked(text: str, registry: str, rest: str, refused: Callable[[str, str], ConfigError]) -> tuple[str, str]:
    """(repository, tag) of what stands behind the registry."""
    if registry and not _HOST.fullmatch(registry):
        raise refused(text, f"has the registry {registry!r}, which is no host with an optional port")
    repository, colon, tag = rest.partition(":")
    if repository != repository.lower():
        raise refused(text, f"has capital letters in {repository!r}, which registries do not take")
    if not _REPOSITORY.fullmatch(repository):
        raise refused(
            text, f"has {repository!r}, which is no repository: small letters and digits, with . _ - within a part"
        )
    if len(repository) > _LONGEST:
        raise refused(text, f"has a repository of {len(repository)} letters, and at most {_LONGEST} are allowed")
    if colon and not _TAG.fullmatch(tag):
        raise refused(text, f"has {tag!r}, which is no tag: up to 128 letters, digits and . _ -")
    return repository, tag or "latest"


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f"image.push: {text!r} {why}", f"write it as {_SHAPE}")


def _misnamed(text: str, why: str) -> ConfigError:
    return ConfigError(f"image.name: {text!r} {why}", "write it as image.name=repository:tag, such as det:v1")
