"""Many processes on the same cold target: each node runs once in all, and nobody fails."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.faults.steps import NODES, Steps, assert_whole, environment, steps_project

_EIGHT = 8


def all_at_once(projects: Sequence[Steps]) -> None:
    """One process for each of `projects`; all succeed."""
    command = [sys.executable, "-m", "mobuild", "target=[last,pair]"]
    running = [
        subprocess.Popen(
            command,
            cwd=steps.project.root,
            env=environment(steps),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for steps in projects
    ]
    for steps, process in zip(projects, running, strict=True):
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert out == f"{steps.build_folder}/last\n{steps.build_folder}/pair\n"


def test_eight_processes_run_each_node_once_cold_and_after_a_change(tmp_path: Path) -> None:
    steps = steps_project(tmp_path)

    all_at_once([steps] * _EIGHT)
    first, cold = steps.artifacts(), steps.ran()
    steps.project.write("data/a.txt", "another text\n")
    all_at_once([steps] * _EIGHT)

    assert cold == Counter(NODES)
    assert steps.ran() == Counter([*NODES, *NODES])
    assert steps.artifacts().keys() == first.keys()
    assert all(content != first[name] for name, content in steps.artifacts().items())
    assert sorted(path.name for path in steps.build_folder.iterdir()) == [
        "last",
        "last.json",
        "pair",
        "pair.json",
        "run.json",
    ]
    assert_whole(steps.project.cache)


def test_two_clones_that_share_a_cache_run_each_node_once_in_all(tmp_path: Path) -> None:
    one = steps_project(tmp_path / "one", tmp_path / "cache", tmp_path / "runs")
    other = steps_project(tmp_path / "other", tmp_path / "cache", tmp_path / "runs")

    all_at_once([one, other] * 4)

    assert one.ran() == Counter(NODES)
    assert one.artifacts() == other.artifacts() and len(one.artifacts()) == 3
    assert_whole(tmp_path / "cache")
