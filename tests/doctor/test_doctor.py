"""The command line: statuses, text and JSON. What it finds is tested on recorded machines beside this."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doctor.machines import recording
from tests.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty folder with recordings of machines; doctor needs no recipe."""
    found = Project(tmp_path / "project", tmp_path / "cache")
    for name in ("healthy", "mismatch", "throttled"):
        found.write(f"{name}.json", recording(name))
    return found


def test_a_healthy_machine_is_status_0_and_shown_in_a_few_lines(project: Project) -> None:
    done = project.mobuild("doctor", "healthy.json", "hardware=l4")

    assert done.out.splitlines() == [
        "driver: 570.124.06 (open kernel module), CUDA up to 12.8",
        "GPU 0: NVIDIA L4, 8.9, 23034 MiB, GPU-11111111-2222-3333-4444-555555555555, 00000000:01:00.0, CUDA device 0",
        "machine: 32 of 32 processors, 62.8 GiB of memory",
        "nothing is wrong",
    ]
    assert done.err == ""


def test_an_error_is_status_1_with_what_why_and_how_to_fix(project: Project) -> None:
    done = project.mobuild("doctor", "mismatch.json", check=False)

    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[2].startswith(
        "D01 error: driver: the kernel module (/proc/driver/nvidia/version) is 570.124.06, the user"
    )
    assert [line.split(":")[0] for line in lines[3:5]] == ["    why", "    fix"]
    assert lines[-1] == "1 error"


def test_warnings_alone_are_status_0(project: Project) -> None:
    assert project.mobuild("doctor", "throttled.json").out.endswith("4 warnings\n")


def test_a_diagnosis_is_data_too(project: Project) -> None:
    done = project.mobuild("doctor", "mismatch.json", "format=json", check=False)

    document = json.loads(done.out)
    assert (document["schema"], [one["code"] for one in document["findings"]]) == (1, ["D01"])
    assert document["machine"]["driver"] == "570.124.06"


def test_a_message_is_explained_also_from_a_log(project: Project) -> None:
    message = "pthread_setaffinity_np failed for thread: 140, error code = 22"
    project.write("build.log", f"INFO starting\n{message}\n")

    for words in (message, "build.log"):
        assert "D32 warning: processors: this process may run on" in project.mobuild("doctor", words, check=False).out


def test_a_recording_that_was_edited_is_named(project: Project) -> None:
    project.write("edited.json", recording("mismatch", {"room /dev/shm": [5]}))

    done = project.mobuild("doctor", "edited.json", check=False)

    assert done.err.startswith("error: edited.json: an answer of the recording has another form than expected")


def test_a_control_group_without_a_form_is_passed_over(project: Project) -> None:
    project.write("odd.json", recording("mismatch", {"text /proc/self/cgroup": "sandbox\n"}))

    assert project.mobuild("doctor", "odd.json", check=False).out.endswith("\n1 error\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.log"], "error: doctor: there is no file 'nowhere.log'"),
        (["hardware=l21"], "error: there is no hardware 'l21'. Did you mean 'l20'?"),
        (["-m", "hardware=l4,l20"], "error: doctor: what is '-m'?"),
        (["format=yaml"], "error: doctor: format: expected one of"),
        (["hardwear=l4"], "error: there is no key 'hardwear'. Did you mean 'hardware'?"),
    ],
)
def test_a_request_that_is_not_understood_is_status_2(project: Project, words: list[str], message: str) -> None:
    done = project.mobuild("doctor", *words, check=False)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(message)
