"""What a run makes and removes itself is no condition; what was there, or is looked for elsewhere, is one."""

from __future__ import annotations

import hashlib

import pytest

from mobuild.observers.files import folder_digest


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_that_is_not_there_is_reported_among_temporary_files_too(project, call, tmp_path):
    absent = tmp_path / "override.json"  # beside the project, below the folder for temporary files

    outcome = call(
        "import os, tempfile\n"
        "def main():\n"
        "    with tempfile.NamedTemporaryFile() as scratch:\n"
        "        open(scratch.name).read()\n"
        "    try:\n"
        f"        return open({str(absent)!r}).read()\n"
        "    except FileNotFoundError:\n"
        "        return ''\n"
    )

    assert outcome.observed.files == {str(absent): "-"}


@pytest.mark.parametrize("look", ["os.path.exists(path)", "try_to_open(path)"])
def test_what_is_absent_from_a_folder_that_is_temporary_is_no_condition(call, look):
    outcome = call(
        "import os, tempfile\n"
        "def try_to_open(path):\n"
        "    try:\n"
        "        open(path)\n"
        "    except FileNotFoundError:\n"
        "        return\n"
        "def main():\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        path = folder + '/weights.data'\n"
        f"        {look}\n"
    )

    assert (outcome.observed.presence, outcome.observed.files) == ({}, {})


@pytest.mark.parametrize("look", ["os.path.exists(path)", "open(path).read()"])
def test_what_came_and_went_while_the_node_ran_is_no_condition(call, tmp_path, monkeypatch, look):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))  # beside it, nothing is known to be temporary

    outcome = call(
        "import os, subprocess\n"
        "def main():\n"
        f"    path = {str(tmp_path / 'made')!r}\n"
        "    subprocess.run(['touch', path], check=True)\n"
        f"    {look}\n"
        "    os.unlink(path)\n"
    )

    assert (outcome.observed.presence, outcome.observed.files) == ({}, {})


@pytest.mark.parametrize("folder", ["tempfile.mkdtemp()", "'recipes'"])
def test_a_folder_that_a_program_makes_and_the_code_lists_and_removes_is_no_condition(call, folder):
    outcome = call(
        "import os, shutil, subprocess, tempfile\n"
        "def main():\n"
        f"    path = {folder} + '/made'\n"
        "    subprocess.run(['mkdir', path], check=True)\n"
        "    os.listdir(path)\n"
        "    shutil.rmtree(path)\n"
    )

    assert outcome.observed.folders == {}


def test_a_folder_that_is_listed_and_added_to_is_an_input(call, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    listing = folder_digest(str(there))

    outcome = call(
        f"import os\ndef main():\n    os.listdir({str(there)!r})\n    open({str(there / 'new')!r}, 'w').close()\n"
    )

    assert outcome.observed.folders == {str(there): listing}


def test_what_was_there_and_is_removed_is_an_input(call, tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    flag = tmp_path / "flag"
    flag.touch()

    outcome = call(f"import os\ndef main():\n    if os.path.exists({str(flag)!r}):\n        os.unlink({str(flag)!r})\n")

    assert outcome.observed.presence == {str(flag): "present"}


def test_what_the_code_itself_looks_for_outside_of_the_project_is_reported(project, call, tmp_path):
    flag, there = tmp_path / "flag", tmp_path / "there"
    there.touch()

    outcome = call(
        "import os, shutil, tempfile\n"
        "from pathlib import Path\n"
        "import fsspec\n"
        "def main():\n"
        "    folder = tempfile.mkdtemp()\n"
        "    os.system(f'touch {folder}/made')\n"
        "    os.path.exists(f'{folder}/made')\n"
        "    shutil.rmtree(folder)\n"
        f"    fsspec.filesystem('file').exists({str(tmp_path / 'of-a-library')!r})\n"
        f"    return [os.path.exists({str(flag)!r}), Path({str(there)!r}).is_file()]\n"
    )

    assert outcome.observed.presence == {str(flag): "-", str(there): "present"}
