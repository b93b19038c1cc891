"""The credentials of a Docker configuration."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from mobuild.errors import ConfigError, ToolchainError
from mobuild.image.logins import Login, login


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    return tmp_path


def write(folder: Path, document: Any) -> None:
    (folder / "config.json").write_text(json.dumps(document))


def helper(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_a_file_there_is_nobody(folder: Path) -> None:
    assert login("r.io") is None


def test_auths_are_read_by_host(folder: Path) -> None:
    write(folder, {"auths": {"r.io": {"auth": b64encode(b"ann:pass:word").decode()}}})

    assert login("r.io") == Login("ann", "pass:word")
    assert login("other.io") is None


def test_docker_hub_has_a_name_of_its_own(folder: Path) -> None:
    write(folder, {"auths": {"https://index.docker.io/v1/": {"username": "ann", "password": "x"}}})

    assert login("docker.io") == Login("ann", "x")


def test_an_identity_token_goes_before_a_password(folder: Path) -> None:
    write(folder, {"auths": {"r.io": {"auth": b64encode(b"ann:").decode(), "identitytoken": "t"}}})

    assert login("r.io") == Login(token="t")


def test_a_helper_of_the_registry_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, {"credHelpers": {"r.io": "own"}, "auths": {"r.io": {}}})
    answer = '{"Username": "%s", "Secret": "s"}'
    helper(folder, "own", f"test $1 = get && host=$(cat) && printf '{answer}' $host", monkeypatch)

    assert login("r.io") == Login("r.io", "s")


def test_a_helper_that_knows_nothing_leaves_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, {"credsStore": "own", "auths": {"r.io": {"auth": b64encode(b"ann:x").decode()}}})
    helper(folder, "own", "echo 'credentials not found'; exit 1", monkeypatch)

    assert login("r.io") == Login("ann", "x")


def test_a_missing_helper_is_named(folder: Path) -> None:
    write(folder, {"credHelpers": {"r.io": "absent"}})

    with pytest.raises(ToolchainError, match="names the credential helper 'absent', which is not installed"):
        login("r.io")


@pytest.mark.parametrize("said", ["no JSON", "[]"])
def test_a_helper_that_gives_no_login_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    helper(folder, "odd", f"echo '{said}'", monkeypatch)
    write(folder, {"credHelpers": {"r.io": "odd"}})

    with pytest.raises(ToolchainError, match="docker-credential-odd get: gives no answer that can be read"):
        login("r.io")


@pytest.mark.parametrize("auth", ["%%%", b64encode(b"no colon").decode()])
def test_what_cannot_be_read_is_named_without_being_shown(folder: Path, auth: str) -> None:
    write(folder, {"auths": {"r.io": {"auth": auth}}})

    with pytest.raises(ConfigError) as refused:
        login("r.io")

    assert "auths: r.io: auth is no user:password in base64" in str(refused.value)
    assert auth not in str(refused.value)


@pytest.mark.parametrize("document", [[], {"auths": ["r.io"]}, {"auths": {"r.io": "secret"}}, {"credHelpers": "r.io"}])
def test_what_is_no_file_of_logins_is_named(folder: Path, document: Any) -> None:
    write(folder, document)

    with pytest.raises(ConfigError, match="is no file of logins"):
        login("r.io")


def test_a_login_does_not_show_its_secrets() -> None:
    assert "x" not in repr(Login("ann", "x", "x"))
