"""`toolchain.image`: nodes run in a container, whose image is known by its digest."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobuild.container import Container
from mobuild.errors import ConfigError
from tests import images
from tests.projects import Project, recipe_project

DIGEST = "sha256:" + "0123456789abcdef" * 4
NODES = """\
  weights: {kind: source, uri: data/w.txt}
  seen:
    kind: command
    needs: {weights: weights, made: made}
    cmd: "python tool.py {in.weights} {in.made} {out}"
    env: {WIDTH: "12"}
    out: .txt
  made: {kind: command, cmd: "python -c 'import sys; open(sys.argv[1], \\"w\\").write(\\"made \\")' {out}", out: .txt}
"""
TOOL = """\
import os, sys
assert "FLAVOUR" not in os.environ and not os.path.exists("/usr/bin/env")
print("python", sys.executable)
weights, made, out = (open(path, mode) for path, mode in zip(sys.argv[1:], "rrw"))
out.write(weights.read() + made.read() + open("data/extra.txt").read() + os.environ["WIDTH"])
try:
    open("tool.py", "a").write("x")
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("image", [DIGEST, f"torch@{DIGEST}", f"ghcr.io/a/b:2@{DIGEST}", f"host:5000/a/b@{DIGEST}"])
def test_an_image_is_known_by_its_digest(image: str) -> None:
    assert Container(image).digest == DIGEST


@pytest.mark.parametrize("image", ["torch", "torch:2.6", "torch@sha256:12", f"torch {DIGEST}", f"torch@{DIGEST}0"])
def test_a_tag_is_refused_with_how_to_pin_it(image: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Container(image)

    assert caught.value.message == f"toolchain.image: expected an image by its digest, name@sha256:…, found {image!r}"
    assert "podman image inspect --format '{{index .RepoDigests 0}}' torch" in caught.value.hint


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"tool.py": TOOL, "data/w.txt": "one ", "data/extra.txt": "two "})


def test_without_podman_and_docker_a_plan_is_made_and_a_build_says_what_to_install(
    project: Project, tmp_path: Path
) -> None:
    word, path = f"toolchain.image=torch@{DIGEST}", {"PATH": str(tmp_path)}

    planned = project.mobuild("plan", "target=made", word, env=path)
    built = project.mobuild("target=made", word, check=False, env=path)

    assert planned.out.startswith("stale")
    assert built.errors == (
        f"node 'made': image 'torch@{DIGEST}': neither podman nor docker is on PATH, and images need one of them\n"
        "  install podman, or let the nodes run under an interpreter here: toolchain.python=./venv/bin/python",
    )


@pytest.fixture(scope="module")
def words() -> Iterator[tuple[str, ...]]:
    """What chooses an image that is here."""
    folder = Path(tempfile.mkdtemp(prefix="mobuild-"))  # podman takes no path of more than 50 characters
    program, image = images.make(folder)
    options = ",".join(f"'{option}'" for option in images.OPTIONS)
    yield (f"toolchain.image={image}", f"toolchain.container='{program}'", f"toolchain.container_options=[{options}]")
    images.remove(folder, program)


def containers(words: tuple[str, ...]) -> str:
    program = words[1].partition("=")[2].strip("'").split()
    done = subprocess.run([*program, "ps", "--all", "--quiet"], capture_output=True, text=True)
    return done.stdout + done.stderr  # it fails on one that is just being removed


@images.needs_podman()
def test_a_node_runs_in_an_image(project: Project, words: tuple[str, ...]) -> None:
    """It reads its inputs and the project, writes the artifact alone, and is watched as anywhere."""
    with_flavour = {"FLAVOUR": "vanilla"}

    artifact = Path(project.mobuild("target=seen", *words, env=with_flavour).out.strip())
    log = project.mobuild("log", "seen", *words).out
    again = project.mobuild("plan", "target=seen", *words)
    project.write("data/extra.txt", "three ")
    edited = project.mobuild("plan", "target=seen", *words)

    assert artifact.read_text() == "one made two 12"
    assert artifact.stat().st_uid == os.geteuid()
    assert "Read-only file system" in log
    assert {line.split()[0] for line in again.out.splitlines()} == {"fresh"}
    assert "file data/extra.txt" in edited.out
    assert containers(words) == ""


@images.needs_podman()
def test_what_fails_in_an_image_can_be_run_again_in_it(project: Project, words: tuple[str, ...]) -> None:
    project.edit("tool.py", "import os, sys", "import os, sys\nassert sys.platform == 'amiga', sys.executable")

    failed = project.mobuild("target=seen", *words, check=False)
    again = subprocess.run(
        [sys.executable, "-m", "mobuild", "shell", "seen", *words],
        cwd=project.root,
        env={**os.environ, "MOBUILD_CACHE": str(project.cache), "SHELL": "/bin/sh"},
        input="./rerun.sh",
        capture_output=True,
        text=True,
    )

    assert "AssertionError: /usr/bin/python3" in failed.err
    assert "AssertionError: /usr/bin/python3" in again.stderr + again.stdout


@images.needs_podman()
@pytest.mark.parametrize("end", ["timeout", "SIGKILL"])
def test_a_container_ends_with_its_node(project: Project, words: tuple[str, ...], end: str) -> None:
    project.write("tool.py", "print('begun', flush=True)\nimport time\ntime.sleep(1000)\n")
    limit = ["nodes.seen.timeout_seconds=3"] if end == "timeout" else []
    command = [sys.executable, "-m", "mobuild", "target=seen", *words, *limit]
    environment = {**os.environ, "MOBUILD_CACHE": str(project.cache)}
    building = subprocess.Popen(command, cwd=project.root, env=environment, stderr=subprocess.PIPE, text=True)
    if end == "SIGKILL":
        while "begun" not in project.mobuild("log", "seen", *words, check=False).out:
            pass
        building.kill()
    said = building.communicate()[1]

    assert end == "SIGKILL" or "still running after timeout_seconds=3, so it was stopped" in said
    while end == "SIGKILL" and containers(words):  # its watchdog is on its way
        pass
    assert containers(words) == ""


@images.needs_podman()
@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("toolchain.python=/opt/no/python", "/opt/no/python: no such file or directory"),
        ("toolchain.python=/bin/sh", "its '/bin/sh' ended with status 2"),
    ],
)
def test_an_image_without_that_python_is_named(
    project: Project, words: tuple[str, ...], word: str, message: str
) -> None:
    done = project.mobuild("target=made", *words, word, check=False)

    assert done.status == 1
    assert "node 'made': image 'localhost/mobuild-test@sha256:" in done.errors[0]
    assert message in done.errors[0]
