"""A container image that nodes run in, known by its digest: a tag can move, and no key could tell."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mobuild.errors import ConfigError

_DIGEST = re.compile(r"(?:[^\s@]+@)?(sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class Container:
    """An image, the Python in it, and how it is run here, which enters no key."""

    image: str  # name@sha256:…, or the id of a local image, sha256:…
    python: str = "python3"  # in the image
    program: tuple[str, ...] = ()  # podman or docker with options of its own; none: the first on PATH
    options: tuple[str, ...] = ()  # for its `run`

    def __post_init__(self) -> None:
        if _DIGEST.fullmatch(self.image):
            return
        name = self.image.partition("@")[0]
        raise ConfigError(
            f"toolchain.image: expected an image by its digest, name@sha256:…, found {self.image!r}",
            f"a tag can move; pin what it is now: podman pull {name} && "
            f"podman image inspect --format '{{{{index .RepoDigests 0}}}}' {name}  (or docker)",
        )

    @property
    def digest(self) -> str:
        found = _DIGEST.fullmatch(self.image)
        assert found
        return found.group(1)
