"""`mobuild shell`: what a failed build left, and running it again by hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.projects import Finished, Project, recipe_project

# Succeeds once there is a file `ready` in the project.
NODES = """\
  text: {kind: command, cmd: "sh -c 'echo one > {out}'", out: .txt}
  copy:
    kind: command
    cmd: "sh -c 'cp {in.text} {out}; echo $GREETING; test -e ready'"
    in: {text: text}
    out: .txt
"""


@pytest.fixture
def failed(tmp_path: Path) -> Project:
    """A project whose node `copy` has failed."""
    project = recipe_project(tmp_path, NODES)
    assert project.mobuild("target=copy", check=False, env={"GREETING": "hello"}).status == 1
    return project


def shell(project: Project, typed: str, *words: str, env: Mapping[str, str] | None = None) -> Finished:
    """`mobuild shell copy` with `typed` on standard input."""
    environment = {**os.environ, "MOBUILD_CACHE": str(project.cache), "SHELL": "/bin/sh", **(env or {})}
    command = [sys.executable, "-m", "mobuild", "shell", "copy", *words]
    done = subprocess.run(command, cwd=project.root, env=environment, input=typed, capture_output=True, text=True)
    return Finished(done.returncode, done.stdout, done.stderr)


def kept(project: Project) -> list[Path]:
    return sorted(path for path in project.cache.glob("local/*/failed/*/*"))


def test_a_failure_says_how_to_look_into_it(tmp_path: Path) -> None:
    words = ["target=copy", "hardware=cpu,l4", "keep_going=false"]

    done = recipe_project(tmp_path, NODES).mobuild("-m", *words, check=False)

    assert "  look into it: mobuild shell copy hardware=cpu recipe=small\n" in done.err


def test_the_shell_has_inputs_output_and_variables_of_the_build(failed: Project) -> None:
    done = shell(
        failed, "ls\ncat in/text.txt out/artifact.txt\necho $GREETING\npython -c 'import sys; print(sys.executable)'\n"
    )

    assert done.status == 0, done.err
    assert done.out.split() == [
        *("bin", "environment.sh", "in", "job.json", "out", "rerun.py", "rerun.sh"),
        *("one", "one", "hello", sys.executable),
    ]
    assert done.err == (
        "note: small/cpu copy: ./rerun.sh runs it again, its inputs are in in/, its output in out/; leave with exit\n"
    )


def test_the_node_runs_again_by_hand_and_nothing_reaches_the_cache(failed: Project) -> None:
    before = sorted(failed.cache.rglob("records/**/*.json"))

    again = shell(failed, "./rerun.sh")
    failed.write("ready", "")
    ready = shell(failed, "GREETING=changed ./rerun.sh && cat out/artifact.txt")

    assert (again.status, again.out) == (1, "hello\n")
    assert "error: node 'copy': " in again.err
    assert (ready.status, ready.out) == (0, "changed\none\n")
    assert sorted(failed.cache.rglob("records/**/*.json")) == before


def test_the_folder_can_be_taken_elsewhere(failed: Project, tmp_path: Path) -> None:
    failed.write("ready", "")
    folder = shutil.copytree(kept(failed)[0], tmp_path / "elsewhere", symlinks=True)

    done = subprocess.run([folder / "rerun.sh"], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert (folder / "out/artifact.txt").read_text() == "one\n"


def test_values_of_secrets_are_not_written(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, NODES)
    secrets = {"API_TOKEN": "s3cr3tvalue", "INDEX": "https://me:s3cr3tvalue@example.org", "AT": "ftp://me:other@host/"}
    secrets |= {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "STORE_CONNECTION_STRING": "AccountKey=abcdef"}

    project.mobuild("target=copy", check=False, env=secrets)

    text = "".join(path.read_text() for path in kept(project)[0].rglob("*") if path.is_file())
    assert "s3cr3tvalue" not in text
    assert "me:other" not in text
    assert "# Left to the caller, since they may hold secrets: API_TOKEN AT AWS_ACCESS_KEY_ID INDEX STORE_" in text
    assert shell(project, "echo $API_TOKEN", env=secrets).out == "s3cr3tvalue\n"


def test_only_the_last_failure_is_kept_and_a_build_removes_it(failed: Project) -> None:
    first = kept(failed)
    (first[0] / "mine").write_text("")

    failed.mobuild("target=copy", check=False)
    second = kept(failed)
    left = list((second[0]).glob("mine"))
    failed.write("ready", "")
    failed.mobuild("target=copy")

    assert (second, left, kept(failed)) == (first, [], [])


def test_variants_that_share_a_step_share_its_failure(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, NODES)
    project.mobuild("-m", "target=copy", "hardware=cpu,l4", check=False)

    assert shell(project, "cat in/text.txt", "hardware=cpu").out == "one\n"
    assert shell(project, "cat in/text.txt", "hardware=l4").out == "one\n"

    project.write("ready", "")
    project.mobuild("-m", "target=copy", "hardware=cpu,l4")
    assert kept(project) == []


def test_without_a_failed_build_the_error_says_so(failed: Project) -> None:
    fresh = failed.mobuild("shell", "text", check=False)
    other = failed.mobuild("shell", "copy", "nodes.copy.out=.md", check=False)
    several = failed.mobuild("shell", "target=[text,copy]", check=False)

    assert (fresh.status, other.status, several.status) == (1, 1, 2)
    assert fresh.errors == ("recipe 'small', variant 'cpu': 'text' is fresh, so there is no failed build to look into",)
    assert other.errors[0].startswith("recipe 'small', variant 'cpu+")
    assert "'copy' has no failed build that is kept\n  build it: mobuild " in other.errors[0]
    assert several.errors == (
        "shell: expected one node, found small/cpu text, small/cpu copy\n  name one node of one variant, without -m",
    )


def test_a_node_below_a_failed_one_points_to_that(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, NODES + "  last: {kind: command, cmd: 'cp {in.copy} {out}', in: {copy: copy}}\n")
    project.mobuild("target=last", check=False)

    done = project.mobuild("shell", "last", check=False)

    assert done.errors[0].endswith("'last' has no failed build that is kept\n  mobuild shell copy recipe=small")
