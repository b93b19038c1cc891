"""A project with a recipe's folder, and jobs in it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mobuild.executors.local import Job, LocalExecutor, Outcome
from mobuild.node import encode

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))  # for `toys`


class Project:
    """Writes the user's files, and builds one node of theirs."""

    def __init__(self, root: Path, executor: LocalExecutor) -> None:
        self.root, self.executor = root, executor
        self.recipes = root / "recipes"
        self.recipes.mkdir(parents=True)
        self.out, self.log = root / "build/staging/out.txt", root / "build/node.log"
        self.out.parent.mkdir(parents=True)
        # known, as the file of a kind would be
        (self.recipes / "toys.py").write_bytes((TESTS / "toys.py").read_bytes())

    def write(self, name: str, text: str) -> Path:
        path = self.recipes / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def job(self, node: Any, **changes: Any) -> Job:
        made = Job(
            name="toy",
            node=encode(node),
            inputs={},
            out=str(self.out),
            folder=str(self.recipes),
            project=str(self.root),
            log=str(self.log),
            known_files=(str(self.recipes / "toys.py"),),
            ignored_folders=(str(self.root / "build"),),
        )
        return dataclasses.replace(made, **changes)

    def run(self, node: Any, **options: Any) -> Outcome:
        changes = {spec.name: options.pop(spec.name) for spec in dataclasses.fields(Job) if spec.name in options}
        return self.executor.run(self.job(node, **changes), **{"isolated": True, **options})


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor()
    yield made
    made.close()


@pytest.fixture
def project(tmp_path: Path, executor: LocalExecutor) -> Project:
    return Project(tmp_path / "project", executor)


@pytest.fixture
def call(project: Project) -> Callable[..., Outcome]:
    """Build a node that calls `code` of the file `user.py` with the given text."""
    import toys

    def build(text: str, **options: Any) -> Outcome:
        project.write("user.py", text)
        return project.run(toys.Call("user.py:main"), **options)

    return build
