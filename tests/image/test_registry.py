"""Pushing an image to a registry."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobuild.errors import PushFailed
from mobuild.image.layout import Image, open_image
from mobuild.image.references import Reference, parse
from mobuild.image.registry import Patience, push
from tests.image.layouts import layout
from tests.image.registries import Proxy, proxy, registry

BASE, ENGINE = b"base" * 4096, b"engine" * 4096  # layers need not be tars for a registry
AT_ONCE = Patience(attempts=3, first_seconds=0.0, timeout_seconds=20)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
def before(upstream: str) -> Iterator[Proxy]:
    with proxy(upstream) as told:
        yield told


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No credentials of whoever runs the tests, and no proxies."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    return tmp_path / "config.json"


@pytest.fixture
def image(tmp_path: Path) -> Image:
    layout(tmp_path / "oci", [BASE, ENGINE])
    return open_image(tmp_path / "oci")


def named(address: str, request: pytest.FixtureRequest, tag: str = "v1") -> Reference:
    """A repository for this test alone."""
    return parse(f"{address}/team/{request.node.name.split('[')[0]}:{tag}")


def test_a_push_is_read_back_by_skopeo_with_the_same_digest(
    upstream: str, image: Image, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not shutil.which("skopeo"):
        pytest.skip("skopeo is not installed")
    pushed = push(image, named(upstream, request), patience=AT_ONCE)

    command = ["skopeo", "copy", "--src-tls-verify=false", f"docker://{pushed.reference}", f"oci:{tmp_path}/back:v1"]
    subprocess.run(command, check=True, capture_output=True)

    assert open_image(tmp_path / "back").descriptor.digest == image.descriptor.digest == pushed.digest
    assert len(pushed.sent) == 3
    assert str(pushed) == f"{upstream}/{pushed.reference.repository}@{image.descriptor.digest}"


def test_pushing_again_sends_no_blob(before: Proxy, image: Image, request: pytest.FixtureRequest) -> None:
    push(image, named(before.address, request), patience=AT_ONCE)
    before.seen.clear()

    again = push(image, named(before.address, request), patience=AT_ONCE)

    assert (again.sent, again.sent_bytes) == ((), 0)
    assert before.count("POST", "uploads") == 0


def test_a_new_engine_sends_one_layer_and_the_configuration(
    before: Proxy, image: Image, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    push(image, named(before.address, request), patience=AT_ONCE)
    layout(tmp_path / "new", [BASE, b"other engine" * 4096])
    newer = open_image(tmp_path / "new")

    pushed = push(newer, named(before.address, request, "v2"), patience=AT_ONCE)

    assert pushed.sent == (newer.blobs[0], newer.layers[1])


def test_layers_of_another_repository_are_mounted(upstream: str, image: Image, request: pytest.FixtureRequest) -> None:
    push(image, parse(f"{upstream}/team/base:v1"), patience=AT_ONCE)

    pushed = push(image, named(upstream, request), mount_from=["team/absent", "team/base"], patience=AT_ONCE)

    assert (pushed.sent, pushed.mounted) == ((), image.blobs)


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "docker login"), (403, "ask for the right to write to team/"), (404, "make the repository team/")],
)
def test_a_refusal_is_final_and_says_what_to_do(
    before: Proxy, image: Image, request: pytest.FixtureRequest, status: int, hint: str
) -> None:
    before.fault = lambda method, path: status if method == "POST" else None

    with pytest.raises(PushFailed) as failed:
        push(image, named(before.address, request), patience=AT_ONCE)

    assert f"the registry answers {status}" in str(failed.value)
    assert "made up" in str(failed.value)
    assert hint in str(failed.value)
    assert before.count("POST", "uploads") == 1


@pytest.mark.parametrize("fault", [500, 503, "drop"])
@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT"])
def test_a_fault_that_passes_is_survived(
    before: Proxy, tmp_path: Path, request: pytest.FixtureRequest, fault: int | str, method: str
) -> None:
    layout(tmp_path / "oci", [request.node.name.encode() * 4096])
    faults = [fault]
    before.fault = lambda asked, path: faults.pop() if faults and asked == method else None

    pushed = push(open_image(tmp_path / "oci"), named(before.address, request), patience=AT_ONCE)

    assert faults == []
    assert pushed.digest == open_image(tmp_path / "oci").descriptor.digest


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("3600", 60.0), ("soon", 0.5), ("", 0.5)])
def test_a_registry_says_when_to_try_again(
    before: Proxy,
    image: Image,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    waited: float,
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    faults = [429]
    before.retry_after = asked
    before.fault = lambda method, path: faults.pop() if faults else None

    push(image, named(before.address, request))

    assert waits == [waited]


@pytest.mark.parametrize(
    ("fault", "said"),
    [(500, "the registry answers 500 Internal Server Error: made up"), ("drop", "the connection broke")],
)
def test_a_fault_that_stays_ends_the_push(
    before: Proxy, image: Image, request: pytest.FixtureRequest, fault: int | str, said: str
) -> None:
    before.fault = lambda method, path: fault if method == "PUT" and "manifests" in path else None

    with pytest.raises(PushFailed) as failed:
        push(image, named(before.address, request), patience=AT_ONCE)

    assert f"manifest: {said}" in str(failed.value)
    assert "(3 attempts)" in str(failed.value)


def test_a_registry_that_does_not_answer_is_given_up(image: Image) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(PushFailed, match=r"no answer within 0\.2 s \(2 attempts\)"):
            push(image, parse(f"{address}/det:v1"), patience=Patience(2, 0.0, timeout_seconds=0.2))


def test_a_registry_that_is_not_there_is_told(image: Image) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"

    with pytest.raises(PushFailed, match="Connection refused"):
        push(image, parse(f"{address}/det:v1"), patience=AT_ONCE)


def test_another_image_under_the_tag_afterwards_is_a_failure(
    before: Proxy, image: Image, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    layout(tmp_path / "other", [BASE])
    other, reference = open_image(tmp_path / "other"), named(before.address, request)
    rival = []

    def fault(method: str, path: str) -> None:
        if method == "GET" and "manifests" in path and not rival:
            rival.append(True)
            push(other, reference, patience=AT_ONCE)

    before.fault = fault

    with pytest.raises(PushFailed) as failed:
        push(image, reference, patience=AT_ONCE)

    assert f"expected {image.descriptor.digest}, the registry has {other.descriptor.digest}" in str(failed.value)


def test_a_password_is_given_to_who_asks_for_it(
    before: Proxy, image: Image, nobody: Path, request: pytest.FixtureRequest
) -> None:
    secret = b64encode(b"ann:secret").decode()
    nobody.write_text(json.dumps({"auths": {before.address: {"auth": secret}}}))
    before.challenge, before.authorization = 'Basic realm="here"', f"Basic {secret}"

    assert push(image, named(before.address, request), patience=AT_ONCE).digest == image.descriptor.digest


def test_a_wrong_password_is_told_without_being_shown(
    before: Proxy, image: Image, nobody: Path, request: pytest.FixtureRequest
) -> None:
    nobody.write_text(json.dumps({"auths": {before.address: {"auth": b64encode(b"ann:swordfish").decode()}}}))
    before.challenge, before.authorization = 'Basic realm="here"', "Basic other"

    with pytest.raises(PushFailed) as failed:
        push(image, named(before.address, request), patience=AT_ONCE)

    assert "the registry answers 401" in str(failed.value)
    assert f"docker login {before.address}" in str(failed.value)
    assert "swordfish" not in str(failed.value)


@pytest.mark.parametrize("auth", [{"auth": b64encode(b"ann:secret").decode()}, {"identitytoken": "long-lived"}])
def test_a_token_is_fetched_where_the_registry_says(
    before: Proxy, image: Image, nobody: Path, request: pytest.FixtureRequest, auth: dict[str, str]
) -> None:
    nobody.write_text(json.dumps({"auths": {before.address: auth}}))
    place = f'realm="http://{before.address}/token",service="reg",scope="repository:team/x:pull,push"'
    before.challenge, before.authorization = f"Bearer {place}", "Bearer of the service"

    push(image, named(before.address, request), patience=AT_ONCE)

    (given,) = before.credentials
    assert given == f"Basic {auth['auth']}" if "auth" in auth else "refresh_token=long-lived" in given


def test_credentials_are_not_sent_unencrypted_to_another_machine(
    before: Proxy, image: Image, request: pytest.FixtureRequest
) -> None:
    before.challenge, before.authorization = 'Bearer realm="http://tokens.example/get"', "never"

    with pytest.raises(PushFailed, match=r"'http://tokens.example/get', which is not encrypted"):
        push(image, named(before.address, request), patience=AT_ONCE)


def test_another_host_is_told_no_credentials_whatever_it_asks(
    upstream: str, before: Proxy, image: Image, nobody: Path, request: pytest.FixtureRequest
) -> None:
    nobody.write_text(json.dumps({"auths": {before.address: {"auth": b64encode(b"ann:secret").decode()}}}))
    with proxy(upstream) as other:
        other.challenge = f'Bearer realm="http://{other.address}/token",service="other"'
        before.storage = other.address

        with pytest.raises(PushFailed, match="the registry answers 401"):
            push(image, named(before.address, request), patience=AT_ONCE)

    assert other.count("PUT", "uploads") == 1
    assert other.credentials == []


@pytest.mark.parametrize("said", [b"<html>log in</html>", b"[]", b"{}", b'{"token": 1}'])
def test_a_service_without_tokens_is_named(
    before: Proxy, image: Image, request: pytest.FixtureRequest, said: bytes
) -> None:
    place = f"http://{before.address}/token"
    before.challenge, before.token = f'Bearer realm="{place}"', said

    with pytest.raises(PushFailed, match=f"'{place}', which the registry names for tokens, gives none"):
        push(image, named(before.address, request), patience=AT_ONCE)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405])
def test_layers_that_may_not_be_mounted_are_sent(
    before: Proxy, tmp_path: Path, request: pytest.FixtureRequest, status: int
) -> None:
    layout(tmp_path / "oci", [request.node.name.encode() * 4096])
    image = open_image(tmp_path / "oci")
    before.fault = lambda method, path: status if "mount=" in path else None

    pushed = push(image, named(before.address, request), mount_from=["team/secret"], patience=AT_ONCE)

    assert (pushed.sent, pushed.mounted) == (image.blobs, ())
