"""The first minutes in a folder: no recipe yet, then one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import Project


@pytest.fixture
def empty(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project", tmp_path / "cache")


def test_without_a_recipe_the_example_is_named(empty: Project) -> None:
    done = empty.mobuild("plan")

    assert done.err == (
        f"note: there is no recipe in {empty.root}, so this is about the shipped example 'crepe_tiny'; "
        "mobuild init NAME starts your own\n"
    )
    assert "crepe_tiny/cpu engine" in done.out


@pytest.mark.parametrize("words", [["recipe=crepe_tiny"], ["model=det.onnx"], ["recipe=minilm", "hardware=l20"]])
def test_who_names_a_recipe_hears_nothing_of_the_example(empty: Project, words: list[str]) -> None:
    empty.write("det.onnx", "")

    assert "the shipped example" not in empty.mobuild("plan", *words, check=False).err


def test_who_has_a_recipe_hears_nothing_of_the_example(empty: Project) -> None:
    empty.mobuild("init", "mine")

    assert empty.mobuild("plan").err == ""


IGNORED = {
    "none yet": (None, "/cache/\n/build/\n"),
    "of other things": ("*.pt\r\n# build", "*.pt\r\n# build\n/cache/\n/build/\n"),
    "of one of them": ("build\n", "build\n/cache/\n"),
    "of both": ("/cache/*\n!/cache/README.md\nbuild/", "/cache/*\n!/cache/README.md\nbuild/"),
    "in another encoding": ("ä\n".encode("latin-1"), "ä\n/cache/\n/build/\n".encode("latin-1")),
}


@pytest.mark.parametrize(("before", "after"), IGNORED.values(), ids=IGNORED)
def test_init_lets_git_ignore_what_is_made_and_keeps_what_is_written(
    empty: Project, before: str | bytes | None, after: str | bytes
) -> None:
    path = empty.root / ".gitignore"
    if before is not None:
        path.write_bytes(before if isinstance(before, bytes) else before.encode())

    empty.mobuild("init", "one")
    empty.mobuild("init", "two")

    assert path.read_bytes() == (after if isinstance(after, bytes) else after.encode())


def test_init_writes_recipes_where_the_ignored_files_cannot_be_written(empty: Project) -> None:
    (empty.root / ".gitignore").mkdir()

    done = empty.mobuild("init", "one")

    assert f"note: {empty.root}/.gitignore: cannot be written: Is a directory" in done.err
    assert (empty.root / "recipes/one.yaml").is_file()


LOOKING = [
    ["plan"],
    ["plan", "toolchain.python=/usr/bin/env"],
    ["why"],
    ["why", "latest", "latest"],
    ["check"],
    ["graph"],
    ["list"],
    ["path", "onnx"],
    ["log", "onnx"],
    ["shell", "onnx"],
    ["command", "engine"],
    ["inspect", "recipes/mine.py"],
    ["verify"],
    ["verify", "target=onnx"],
    ["pin"],
    ["doctor"],
    ["lock"],
    ["clean"],
    ["--cfg", "job"],
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_who_only_looks_finds_the_folder_as_it_was(empty: Project, words: list[str]) -> None:
    empty.mobuild("init", "mine")
    here = Project(empty.root, empty.root / "cache")
    before = sorted(empty.root.rglob("*"))

    here.mobuild(*words, check=False)

    assert sorted(path for path in empty.root.rglob("*") if path.name != "__pycache__") == before
