"""Standard output that cannot be written: one line that says why, status 1, and the work is done all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
"""
VERBS = {
    "version": ["--version"],
    "help": ["--help"],
    "list": ["list"],
    "build": ["target=copy"],
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = recipe_project(tmp_path_factory.mktemp("small"), NODES, {"text.txt": "one\n"})
    project.mobuild("target=copy")
    return project


def into(project: Project, redirection: str, words: Sequence[str], unbuffered: str = "") -> tuple[int, str]:
    """Status and standard error of a command line whose standard output goes where the shell is told."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "mobuild", *words],
        cwd=project.root,
        env={**os.environ, "MOBUILD_CACHE": str(project.cache), "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_a_full_standard_output_is_one_line_and_status_1(small: Project, words: list[str], unbuffered: str) -> None:
    status, err = into(small, ">/dev/full", words, unbuffered)

    assert status == 1
    assert err.endswith("error: standard output cannot be written: No space left on device\n")
    assert err.count("error: ") == 1 and "Traceback" not in err and "Exception ignored" not in err


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_a_closed_standard_output_is_one_line_and_status_1(small: Project, words: list[str]) -> None:
    status, err = into(small, ">&-", words)

    assert status == 1
    assert err.endswith("error: standard output cannot be written: it is closed\n")
    assert err.count("error: ") == 1 and "Traceback" not in err


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_a_reader_that_has_left_hears_nothing(small: Project, words: list[str], unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "mobuild", *words],
            cwd=small.root,
            env={**os.environ, "MOBUILD_CACHE": str(small.cache), "PYTHONUNBUFFERED": unbuffered},
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
        )

    assert done.returncode == 1
    assert "error" not in done.stderr and "Exception ignored" not in done.stderr


def test_a_repeated_answer_is_lost_like_a_first_one(small: Project, tmp_path: Path) -> None:
    project = small.copy(tmp_path)
    for _ in range(20):
        project.mobuild("target=copy")
        if list((project.root / "build/.answers").glob("*")):
            break

    status, err = into(project, ">/dev/full", ["target=copy"])

    assert status == 1
    assert err.splitlines()[-1] == "error: standard output cannot be written: No space left on device"


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "2>&- <&-"])
def test_a_standard_error_that_cannot_be_written_leaves_the_work_and_its_results(
    small: Project, tmp_path: Path, redirection: str
) -> None:
    project = small.copy(tmp_path)
    project.write("text.txt", "two\n")

    status, _ = into(project, f">paths {redirection}", ["target=copy"])

    assert status == 0
    assert (project.root / "paths").read_text() == f"{project.root}/build/small/cpu/copy.txt\n"
    assert (project.root / "build/small/cpu/copy.txt").read_text() == "two\n"


def test_what_a_terminal_cannot_show_is_written_as_a_number(small: Project) -> None:
    done = small.mobuild("--help", env={"PYTHONIOENCODING": "ascii"})

    assert "old \\u2192 new" in done.out
