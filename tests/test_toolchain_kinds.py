"""Which interpreter a node gets: by kind, by name, by the folder of an environment, through a shim of pyenv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mobuild.errors import ToolchainError
from mobuild.interpreters import find
from tests.projects import Project, recipe_project

NODES = """\
  first: {kind: command, cmd: 'python tool.py {out}', out: .txt}
  second: {kind: command, cmd: 'python tool.py {out}', out: .txt, python: ./own}
  third: {kind: sanitize, needs: {model: first}}
"""
TOOL = "import sys\ntry: import marker\nexcept ImportError: pass\nopen(sys.argv[1], 'w').write(sys.prefix)\n"


def environment(folder: Path) -> Path:
    """An environment with a package whose version is the folder's name, or keys would be equal."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "marker.py").write_text("")
    (site / f"marker-{folder.name}.dist-info").mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"tool.py": TOOL})


def prefix(project: Project, target: str, *words: str) -> Path:
    """Where the Python of a node is installed."""
    return Path(Path(project.mobuild(f"target={target}", *words).out.strip()).read_text())


def test_a_kind_has_a_python_of_its_own_and_a_node_comes_first(project: Project) -> None:
    environment(project.root / "own")
    environment(project.root / "commands")
    environment(project.root / "others")
    words = ("toolchain.python=./others/bin/python", "toolchain.command.python=./commands/bin/python")

    assert prefix(project, "first", *words) == project.root / "commands"
    assert prefix(project, "first", words[0]) == project.root / "others"
    assert prefix(project, "second", *words) == project.root / "own"


def test_a_file_of_the_group_says_what_it_serves(project: Project) -> None:
    environment(project.root / "old")
    project.write("conf/toolchain/legacy.yaml", "stay: [command]\npython: /nowhere\ncommand: {python: ./old}\n")

    assert prefix(project, "first", "toolchain=legacy") == project.root / "old"


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("toolchain.comand.python=x", "toolchain: unknown key 'comand'. Did you mean 'command'?\n"),
        ("toolchain.command.pyton=x", "toolchain.command: unknown key 'pyton'. Did you mean 'python'?\n"),
        ("toolchain.command=x", "toolchain.command: expected a mapping, found 'x'\n"),
        ("toolchain.stay=command", "toolchain.stay: expected a list of kinds, found 'command'\n"),
        ("toolchain.python=3.9", "toolchain: python: expected the path of an interpreter, found 3.9\n"),
        ("toolchain.image=torch:2.6", "toolchain.image: expected an image by its digest, name@sha256:…, found 'torch"),
        ("toolchain.requirements=[a]", "toolchain: requirements: expected the path of a locked set, found ['a']\n"),
        ("toolchain.python=python9.9", "recipe 'small', node 'first': python 'python9.9': there is no such program on"),
        ("toolchain.python=recipes", "recipe 'small', node 'first': python '"),
    ],
)
def test_what_cannot_be_meant_is_refused(project: Project, word: str, error: str) -> None:
    done = project.mobuild("target=first", word, check=False)

    assert done.status == (1 if "node 'first'" in error else 2)
    assert done.errors[0].startswith(error)


def test_a_bare_name_is_looked_up_on_path(project: Project, tmp_path: Path) -> None:
    there = environment(tmp_path / "there")
    (there / "bin/python-of-mine").symlink_to("python")
    path = {"PATH": f"{there}/bin:{os.environ['PATH']}"}

    built = project.mobuild("target=first", "toolchain.python=python-of-mine", env=path)

    assert Path(Path(built.out.strip()).read_text()) == there


@pytest.fixture
def pyenv(tmp_path: Path) -> Path:
    """A root of pyenv with two versions, of which the shim starts the one that is asked for."""
    root = tmp_path / "pyenv"
    for version in ("3.9.2", "3.9.18", "3.11.1"):
        (root / "versions" / version / "bin").mkdir(parents=True)
        (root / "versions" / version / "bin/python").symlink_to(sys.executable)
    (root / "versions/3.9.18/bin/python3.9").symlink_to(sys.executable)
    (root / "shims").mkdir()
    for name in ("python", "python3.9"):
        (root / "shims" / name).write_text('#!/bin/sh\nexec pyenv exec "${0##*/}" "$@"\n')
        (root / "shims" / name).chmod(0o755)
    (root / "version").write_text("3.11.1\n")
    return root


def test_a_shim_is_the_version_that_pyenv_would_start(
    pyenv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYENV_VERSION", raising=False)
    project, shim = tmp_path / "project", pyenv / "shims/python"
    project.mkdir()

    of_all = find(shim, project)
    (project / ".python-version").write_text("# ours\n3.9\n")
    of_the_project = find(shim, project)
    monkeypatch.setenv("PYENV_VERSION", "3.9.2")
    of_the_shell = find(shim, project)

    assert of_all.path == pyenv / "versions/3.11.1/bin/python"
    assert str(project / ".python-version") in of_all.files
    assert of_the_project.path == pyenv / "versions/3.9.18/bin/python"
    assert of_the_shell.path == pyenv / "versions/3.9.2/bin/python"


def test_a_shim_of_a_version_without_the_program_names_those_that_have_it(
    pyenv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYENV_VERSION", raising=False)

    with pytest.raises(ToolchainError) as caught:
        find(pyenv / "shims/python3.9", tmp_path)

    assert str(caught.value) == (
        f"python '{pyenv}/shims/python3.9': pyenv's version here is 3.11.1, which has no 'python3.9'\n"
        f"  versions that have it: 3.9.18; name one by its path: {pyenv}/versions/…/bin/python3.9"
    )


def test_an_environment_whose_base_is_gone_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to("/opt/gone/bin/python3.9")

    with pytest.raises(ToolchainError, match=r"leads to '/opt/gone/bin/python3.9', which is gone"):
        find(tmp_path / "venv/bin/python", tmp_path)


def test_another_version_of_the_shim_is_seen_where_there_was_nothing_to_do(project: Project, tmp_path: Path) -> None:
    """The answer that is repeated without a plan has looked at what decides the version."""
    shim = Path.home() / ".pyenv/shims/python3.9"
    versions = shim.parent.parent / "versions"
    others = [path for path in (versions / "3.9.18", versions / "3.12.1") if path.is_dir()]
    if not shim.is_file() or len(others) < 2:
        pytest.skip("no pyenv with Python 3.9 and 3.12")
    word = f"toolchain.python={shim.with_name('python3')}"
    seen = []
    for version in ("3.9.18", "3.9.18", "3.12.1"):
        project.write(".python-version", f"{version}\n")
        project.mobuild("target=first", word)  # twice, so that there is an answer
        seen.append(prefix(project, "first", word).name)

    assert seen == ["3.9.18", "3.9.18", "3.12.1"]


def test_the_python_of_a_script_is_in_its_key(project: Project) -> None:
    version = ".".join(map(str, sys.version_info[:2]))

    planned = project.mobuild("target=first").out.strip()

    assert f'"python": "{version}"' in Path(f"{planned}.json").read_text()


OLD = [Path.home() / f".pyenv/versions/{version}/bin/python" for version in ("2.7.18", "3.7.16")]


@pytest.mark.parametrize("python", OLD, ids=["2.7", "3.7"])
def test_a_python_that_is_too_old_may_still_run_a_script(project: Project, python: Path) -> None:
    if not python.is_file():
        pytest.skip(f"no interpreter {python}")
    project.write("old.py", "import sys\nprint(len('%s' % sys.version))\nopen(sys.argv[1], 'w').write('old')\n")
    project.write(
        "recipes/old.yaml", f"# @package _global_\nnodes: {{note: {{kind: command, cmd: '{python} old.py {{out}}'}}}}\n"
    )

    refused = project.mobuild("recipe=small", "target=first", f"toolchain.python={python}", check=False)
    ran = project.mobuild("recipe=old", "target=note")

    assert f"expected Python 3.8 or newer, found {python.parts[-3]}" in refused.err
    assert Path(ran.out.strip()).read_text() == "old"
    shutil.rmtree(project.root / "build")
