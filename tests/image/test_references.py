"""Names of images in registries."""

from __future__ import annotations

import pytest

from mobuild.errors import ConfigError
from mobuild.image.references import Reference, name, parse, qualified, repository

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r.io/team/det:v1", Reference("r.io", "team/det", "v1")),
        ("r.io/det", Reference("r.io", "det", "latest")),
        ("127.0.0.1:5000/a/b/c-d_e:V1.2_x", Reference("127.0.0.1:5000", "a/b/c-d_e", "V1.2_x")),
        ("localhost/det:1", Reference("localhost", "det", "1")),
        ("[::1]:5000/det", Reference("[::1]:5000", "det")),
        ("docker.io/det:v1", Reference("docker.io", "library/det", "v1")),
    ],
)
def test_a_reference_is_read(text: str, expected: Reference) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no registry"),
        ("det:v1", "names no registry"),
        ("team/det:v1", "names no registry"),
        ("https://r.io/det", "is a URL"),
        (f"r.io/det@{DIGEST}", "has a digest; a push is to a tag"),
        (f"r.io/det:v1@{DIGEST}", "has a digest; a push is to a tag"),
        ("r.io/Team/det", "has capital letters in 'Team/det'"),
        ("r.io/", "which is no repository"),
        ("r.io/team//det", "which is no repository"),
        ("r.io/team/../det", "which is no repository"),
        ("r.io/det:", "has '', which is no tag"),
        ("r.io/det:v 1", "has 'v 1', which is no tag"),
        ("r.io/det:a:b", "has 'a:b', which is no tag"),
        ("r.io:port/det", "which is no host"),
        (f"r.io/{'a' * 300}", "has a repository of 300 letters"),
    ],
)
def test_what_is_no_reference_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)

    assert why in str(refused.value)
    assert "write it as image.push=registry/team/name:tag" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("r.io:5000/det", "https://r.io:5000/v2/"),
        ("localhost:5000/det", "http://localhost:5000/v2/"),
        ("127.0.0.1.evil.io/det", "https://127.0.0.1.evil.io/v2/"),
        ("docker.io/team/det", "https://registry-1.docker.io/v2/"),
    ],
)
def test_only_this_machine_is_asked_without_encryption(text: str, url: str) -> None:
    assert parse(text).url == url


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("det", "det:latest"),
        ("det:v1", "det:v1"),
        ("team/det:L20_fp16", "team/det:L20_fp16"),
        ("localhost:5000/det", "localhost:5000/det:latest"),
    ],
)
def test_an_image_may_be_named_without_a_registry(text: str, found: str) -> None:
    assert name(text) == found


@pytest.mark.parametrize(
    "text", ["Foo Bar", "UPPER", "det:", "det:+", "det:a:b", "https://r.io/det", "det@sha256:0", "/"]
)
def test_a_name_that_nothing_loads_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        name(text)

    assert "image.name: " in str(refused.value) and "image.name=repository:tag" in str(refused.value)


@pytest.mark.parametrize(
    "text", ["ann:swordfish@r.io/det:v1", "https://ann:sword@fish@r.io/det", "ann:swordfish@r.io", "sword@r.io/det"]
)
def test_a_password_in_a_reference_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError, match=r"image.push: '…@r.io.*' has a user, and a reference has none") as refused:
        parse(text)

    assert "sword" not in str(refused.value)


@pytest.mark.parametrize(
    ("recipe", "found"),
    [
        ("crepe_tiny", "crepe_tiny"),
        ("enc+det", "enc-det"),
        ("Det.V2", "det.v2"),
        ("a--b__c", "a--b__c"),
        ("_x _._ y-", "x-y"),
        ("team/Det", "team/det"),
        ("ä", "model"),
    ],
)
def test_a_recipe_of_any_name_names_an_image_that_loads(recipe: str, found: str) -> None:
    assert repository(recipe) == found
    assert name(f"{repository(recipe)}:latest") == f"{found}:latest"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("det:v1", "docker.io/library/det:v1"),
        ("team/det:v1", "docker.io/team/det:v1"),
        ("docker.io/det:v1", "docker.io/library/det:v1"),
        ("r.io/det:v1", "r.io/det:v1"),
        ("localhost:5000/det:v1", "localhost:5000/det:v1"),
    ],
)
def test_a_name_has_a_registry_in_the_end(text: str, found: str) -> None:
    assert qualified(text) == found
