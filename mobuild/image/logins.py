"""Who pushes: the credentials that `docker login` or a credential helper has, for one registry.

Read as Docker does: `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`; `$REGISTRY_AUTH_FILE` (podman, skopeo)
goes before. Nothing of it is kept, logged or shown.
"""

from __future__ import annotations

import binascii
import json
import os
import shutil
import subprocess
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.errors import ConfigError, ToolchainError

_HUB_KEYS = ("https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io")
_IS_TOKEN = "<token>"  # the user name by which a helper says that it gives an identity token
_HELPER_SECONDS = 60.0


@dataclass(frozen=True)
class Login:
    """A user with a password, or an identity token alone. Its text shows neither."""

    user: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"Login({self.user!r})"


def login(registry: str) -> Login | None:
    """The credentials for `registry`; None where there are none.

    Raises:
        ConfigError: a file cannot be understood.
        ToolchainError: the credential helper that it names is missing.
    """
    for path in _files():
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise ConfigError(f"'{path}': cannot be read: {error}", f"docker login {registry} writes it") from error
        try:
            taken = _of(found, registry, path)
        except (AttributeError, TypeError) as error:  # a list or a text where an object belongs
            raise ConfigError(f"'{path}': is no file of logins", f"docker login {registry} writes it") from error
        if taken:
            return taken
    return None


def _files() -> list[Path]:
    own = os.environ.get("REGISTRY_AUTH_FILE")
    folder = os.environ.get("DOCKER_CONFIG")
    docker = (Path(folder) if folder else Path("~/.docker").expanduser()) / "config.json"
    return [Path(own), docker] if own else [docker]


def _of(document: dict[str, Any], registry: str, path: Path) -> Login | None:
    keys = _HUB_KEYS if registry == "docker.io" else (registry, f"https://{registry}", f"https://{registry}/v2/")
    helpers = document.get("credHelpers") or {}
    for key in keys:
        helper = helpers.get(key) or document.get("credsStore")
        if helper and (found := _asked(str(helper), key, path)):
            return found
    for key in keys:
        if entry := (document.get("auths") or {}).get(key):
            return _decoded(entry, key, path)
    return None


def _decoded(entry: dict[str, Any], key: str, path: Path) -> Login | None:
    if token := entry.get("identitytoken"):
        return Login(token=str(token))
    if "username" in entry:
        return Login(str(entry["username"]), str(entry.get("password", "")))
    if not entry.get("auth"):
        return None  # a helper has it
    try:
        user, colon, password = b64decode(entry["auth"], validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, TypeError):
        colon = ""
    if not colon:
        raise ConfigError(f"'{path}': auths: {key}: auth is no user:password in base64", f"docker login {key}")
    return Login(user, password.rstrip("\0"))


def _asked(helper: str, key: str, path: Path) -> Login | None:
    """What a credential helper says (docker-credential-helpers: `get`)."""
    program = shutil.which(f"docker-credential-{helper}")
    if program is None:
        raise ToolchainError(
            f"'{path}' names the credential helper {helper!r}, which is not installed",
            f"put docker-credential-{helper} on PATH, or take it out of that file",
        )
    try:
        said = subprocess.run([program, "get"], input=key, capture_output=True, text=True, timeout=_HELPER_SECONDS)
        found: Any = json.loads(said.stdout) if said.returncode == 0 else {}
        secret, user = found.get("Secret"), found.get("Username", "")
    except (OSError, ValueError, AttributeError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"docker-credential-{helper} get: gives no answer that can be read") from error
    if not secret:
        return None
    return Login(token=secret) if user == _IS_TOKEN else Login(user, secret)
