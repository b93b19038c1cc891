"""`image.push=registry/team/name:tag`: what happens with an image after its build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mobuild.image.layout import open_image
from tests.image.layouts import layout
from tests.image.registries import registry
from tests.projects import Project, recipe_project

KINDS = '''\
import shutil
from dataclasses import dataclass
from typing import ClassVar

from mobuild.node import Built


@dataclass(frozen=True)
class Copy:
    """An image that was made elsewhere."""

    kind: ClassVar[str] = "copy"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False
    verdict: str = "passed"
    suffix = ""
    tools = ()

    def build(self, inputs, out):
        shutil.copytree(inputs["layout"], out)
        return Built({"verdict": self.verdict})

    def push(self, artifact, reference):
        from mobuild.image.pushing import push_artifact

        return str(push_artifact(artifact, reference))
'''
NODES = """\
  oci: {kind: source, uri: oci}
  image: {kind: copy, needs: {layout: oci}}
  text: {kind: source, uri: kinds.py}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "project"))
    files = {"kinds.py": KINDS, "conf/node/copy.yaml": "_target_: kinds.Copy\n"}
    project = recipe_project(tmp_path, NODES, files)
    layout(project.root / "oci", [b"layer" * 100])
    return project


def test_the_image_is_pushed_after_the_build_and_each_time_that_it_is_asked_for(project: Project, address: str) -> None:
    words = ("target=image", "recipe=small", f"image.push={address}/team/small:v1")

    first, second = project.mobuild(*words), project.mobuild(*words)

    digest = open_image(project.root / "oci").descriptor.digest
    for done in (first, second):
        assert f"pushed  {address}/team/small@{digest}" in done.err
    assert (project.root / "build/small/cpu/image/index.json").is_file()  # no variant of its own


def test_an_image_that_was_judged_by_proxy_stays_here_unless_asked(project: Project, address: str) -> None:
    words = ("target=image", "recipe=small", "nodes.image.verdict=proxy", f"image.push={address}/team/proxy:v1")

    refused = project.mobuild(*words, check=False)
    pushed = project.mobuild(*words, "image.push_unproven=true")

    assert refused.status == 1
    assert "image.push: the engine was judged by proxy, and not on its device; nothing was pushed" in refused.err
    assert "pushed  " not in refused.err
    assert f"pushed  {address}/team/proxy@sha256:" in pushed.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("target=image", "image.push=small:v1"), "'small:v1' names no registry"),
        (("target=text", "image.push=127.0.0.1:1/small"), "expected one image, and none of the targets is one"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_before_the_build(
    project: Project, words: tuple[str, ...], why: str
) -> None:
    done = project.mobuild("recipe=small", *words, check=False)

    assert done.status == 2
    assert why in done.err
    assert not (project.root / "build/small").exists()


def test_a_registry_that_is_not_there_is_a_failure_of_the_run(project: Project) -> None:
    done = project.mobuild("target=image", "recipe=small", "image.push=127.0.0.1:1/team/small:v1", check=False)

    assert done.status == 1
    assert "push to 127.0.0.1:1/team/small:v1" in done.err
    assert (project.root / "build/small/cpu/image").is_dir()
