"""SIGKILL at random points: the next run resumes, nothing half or wrong is left, nobody lives on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.faults.soak import Soak, living
from tests.faults.steps import Steps, assert_whole, environment
from tests.projects import Project

_KILLS = 15


def test_killed_builds_come_through_with_the_bytes_of_an_undisturbed_one(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=random.SystemRandom().randrange(10**6), log=print)
    print(f"seed {soak.seed}")  # shown when it fails

    soak.run(_KILLS)

    assert soak.kills == _KILLS


@pytest.mark.parametrize("kill", [os.kill, os.killpg], ids=["mobuild alone", "its group"])
def test_a_warm_process_ends_with_mobuild_and_the_next_run_resumes(tmp_path: Path, kill) -> None:
    steps = Steps(Project(tmp_path / "project", tmp_path / "cache"), tmp_path / "runs")
    write_model(steps.project.root / "net.onnx")
    command = [sys.executable, "-m", "mobuild", "target=sanitized", "model=net.onnx"]
    running = subprocess.Popen(command, cwd=steps.project.root, env=environment(steps), start_new_session=True)
    wait_for(lambda: any("loky" in line for line in living(steps)))

    kill(running.pid, signal.SIGKILL)
    running.wait()

    wait_for(lambda: not living(steps))
    assert_whole(steps.project.cache)
    done = steps.project.mobuild("target=sanitized", "model=net.onnx")
    onnx.checker.check_model(done.out.strip())
    assert_whole(steps.project.cache)


def wait_for(condition) -> None:
    """Until `condition()` holds; waits for other processes, not for a time."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.01)


def write_model(path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [value], [out])
    path.parent.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
