"""build/ that cannot be written, wholly or in part: what was built is kept, and everything is said."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

GOOD = "  good: {kind: command, cmd: 'touch {out}', out: .txt}\n"


def test_a_folder_that_refuses_leaves_the_other_jobs_and_the_summary(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, GOOD, {"build/small/cpu": "a file"})

    done = project.mobuild("-m", "target=good", "hardware=cpu,l4,l20", check=False)
    project.root.joinpath("build/small/cpu").unlink()
    again = project.mobuild("-m", "target=good", "hardware=cpu,l4,l20")

    assert done.status == 1
    assert done.out.splitlines() == [f"{project.root}/build/small/{name}/good.txt" for name in ("l4", "l20")]
    assert done.errors == (
        f"'{project.root}/build/small/cpu': cannot be written: File exists\n  make room for {project.root}/build; "
        "what was built is in the cache, and the next run only copies it",
    )
    assert done.err.splitlines()[-1].startswith("1 built in ")
    assert "1 fresh in " in again.err


def test_a_target_that_cannot_be_placed_is_an_error_of_the_python_api(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, GOOD, {"build/small/cpu": "a file"})

    done = project.python(
        "import mobuild\ntry:\n    mobuild.build('good')\nexcept mobuild.errors.StoreError as error:\n    print(error)"
    )

    assert done.out.startswith(f"'{project.root}/build/small/cpu': cannot be written: ")


def test_a_read_only_folder_says_what_to_do_about_it(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, GOOD)
    folder = project.root / "build"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")

    done = project.mobuild("target=good", check=False)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    again = project.mobuild("target=good")

    assert done.status == 1
    assert done.errors == (
        f"'{folder}/small/cpu': cannot be written: Read-only file system\n"
        f"  make writable, or put a link to a folder that is in place of, {folder}; what was built is in the cache, "
        "and the next run only copies it",
    )
    assert "1 fresh in " in again.err


BLOCKED: dict[str, Callable[[Path], object]] = {
    "a file in place of the folder": lambda folder: folder.write_text(""),
    "a folder in place of an answer": lambda folder: [path.mkdir(parents=True) for path in _names(folder)],
}


def _names(folder: Path) -> list[Path]:
    return [folder / path.name for path in sorted((folder.parent / "answers").iterdir())]


@pytest.mark.parametrize("blocked", BLOCKED)
def test_an_answer_that_cannot_be_kept_is_no_failure(tmp_path: Path, blocked: str) -> None:
    project = _with_answer(tmp_path)
    answers = project.root / "build" / ".answers"
    answers.rename(answers.with_name("answers"))
    BLOCKED[blocked](answers)

    done = project.mobuild("target=good")

    assert done.out == f"{project.root}/build/small/cpu/good.txt\n"
    assert [line for line in done.err.splitlines() if not line.startswith("1 fresh in ")] == []


def _with_answer(root: Path) -> Project:
    project = recipe_project(root, GOOD)
    project.mobuild("target=good")
    for _ in range(2):  # the first one may follow too soon after the build to be trusted
        project.mobuild("target=good")
    assert json.loads((project.root / "build/small/cpu/run.json").read_text())
    assert list((project.root / "build" / ".answers").iterdir())
    return project
