"""Ends that nobody planned: Ctrl-C, a kill, a closed terminal; and two command lines that want the same."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.projects import Finished, Project

RECIPE = """\
# @package _global_
nodes:
  first: {kind: command, cmd: "cp recipes/slow.yaml {out}", out: .txt}
  onnx:
    kind: export
    needs: {weights: first}
    model: "slow.py:load"
    exporter: torchscript
    inputs: {x: [batch, 8]}
"""

# Stays in the export until the file `go` is there; what lies in build/ is no condition.
MODULE = """\
import os, subprocess, sys, time

import torch


def load(weights):
    if not os.path.exists("build/go"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
        with open("build/pids.partial", "w") as stream:
            stream.write(f"{os.getpid()} {child.pid}")
        os.rename("build/pids.partial", "build/pids")
    while not os.path.exists("build/go"):
        time.sleep(0.02)
    return torch.nn.Linear(8, 2)
"""


class Running:
    """A command line in a session of its own, as a shell's job is a group of its own."""

    def __init__(self, project: Project, target: str = "onnx") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mobuild", f"target={target}"],
            cwd=project.root,
            env={**os.environ, "MOBUILD_CACHE": str(project.cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # though the tests run under `nohup`
        )

    def end(self) -> Finished:
        out, err = self.process.communicate(timeout=60)
        return Finished(self.process.returncode, out, err)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project", tmp_path / "cache")
    made.write("recipes/slow.yaml", RECIPE)
    made.write("recipes/slow.py", MODULE)
    (made.root / "build").mkdir()
    return made


@pytest.fixture
def start(project: Project) -> Iterator[Callable[[], Running]]:
    """Starts command lines; whatever a failed test leaves of them is killed."""
    started: list[Running] = []

    def begin() -> Running:
        started.append(Running(project))
        return started[-1]

    yield begin
    for each in started:
        with suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.communicate()


def pids(project: Project) -> list[int]:
    """The node's process and its child, once the export is in the user's code."""
    file = project.root / "build/pids"
    wait_for(file.exists)
    return [int(word) for word in file.read_text().split()]


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    """Until `condition()` holds; waits for another process, not for a time."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.02)


def states(project: Project) -> dict[str, str]:
    document = json.loads((project.root / "build/slow/cpu/run.json").read_text())
    return {name: node["state"] for name, node in document["nodes"].items()}


def press_ctrl_c(running: Running) -> None:
    os.killpg(running.process.pid, signal.SIGINT)


def terminate(running: Running) -> None:
    running.process.send_signal(signal.SIGTERM)


def hang_up(running: Running) -> None:
    running.process.send_signal(signal.SIGHUP)


@pytest.mark.parametrize("interrupt", [press_ctrl_c, terminate, hang_up])
def test_an_interrupted_export_leaves_no_process_and_the_next_run_resumes(
    project: Project, start: Callable[[], Running], interrupt: Callable[[Running], None]
) -> None:
    running = start()
    of_the_node = pids(project)

    interrupt(running)
    done = running.end()

    assert (done.status, done.out) == (130, "")
    assert done.err.splitlines()[-1] == ("interrupted; what was finished is kept, and the next run goes on from there")
    wait_for(lambda: not any(is_running(pid) for pid in of_the_node))
    assert list(project.cache.glob("local/*/staging/*")) == []

    (project.root / "build/go").touch()
    project.mobuild("target=onnx")

    assert states(project) == {"first": "fresh", "onnx": "built"}


def test_who_presses_ctrl_c_again_and_again_gets_the_same_end(project: Project, start: Callable[[], Running]) -> None:
    running = start()
    of_the_node = pids(project)

    while running.process.poll() is None:
        press_ctrl_c(running)
        time.sleep(0.003)
    done = running.end()

    assert (done.status, done.out) == (130, "")
    assert done.err.splitlines()[-1] == "interrupted; what was finished is kept, and the next run goes on from there"
    wait_for(lambda: not any(is_running(pid) for pid in of_the_node))


def is_waiting(running: Running, project: Project) -> bool:
    """Whether the command line has the lock file of a key open: it asks for the lock from then on."""
    folder = Path(f"/proc/{running.process.pid}/fd")
    with suppress(OSError):
        return any("/locks/" in str(link.readlink()) for link in folder.iterdir())
    return False


def test_of_two_command_lines_on_a_cold_key_one_builds_and_the_other_takes_the_hit(
    project: Project, start: Callable[[], Running]
) -> None:
    project.mobuild("target=first")
    one = start()
    pids(project)
    other = start()
    wait_for(lambda: is_waiting(other, project))

    (project.root / "build/go").touch()
    ends = [one.end(), other.end()]

    assert [end.status for end in ends] == [0, 0], ends
    assert ends[0].out == ends[1].out == f"{project.root}/build/slow/cpu/onnx.onnx\n"
    assert [len(re.findall(r"^built .* onnx in", end.err, re.MULTILINE)) for end in ends] == [1, 0]


def test_who_waits_for_another_process_can_be_interrupted(project: Project, start: Callable[[], Running]) -> None:
    one = start()
    pids(project)
    other = start()
    wait_for(lambda: is_waiting(other, project))

    press_ctrl_c(other)
    done = other.end()

    assert done.status == 130
    assert one.process.poll() is None


class Terminal:
    """A command line on a terminal of its own."""

    def __init__(self, project: Project, target: str = "onnx") -> None:
        self.pid, self.descriptor = pty.fork()
        if not self.pid:
            os.chdir(project.root)
            os.environ.update(TERM="xterm", COLUMNS="100", MOBUILD_CACHE=str(project.cache))
            os.execv(sys.executable, [sys.executable, "-m", "mobuild", f"target={target}"])
        self.text = ""

    def read_until(self, pattern: str) -> None:
        while not re.search(pattern, self.text):
            self.text += os.read(self.descriptor, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def end(self) -> int:
        with suppress(OSError):  # Linux says so when the last writer is gone
            while block := os.read(self.descriptor, 4096):
                self.text += block.decode()
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor (DEC private mode 25)


def plain_lines(text: str) -> list[str]:
    """The text without escape sequences, by line."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").splitlines()


def test_a_terminal_shows_a_table_that_ends_with_the_results(project: Project) -> None:
    terminal = Terminal(project)
    terminal.read_until(r"building +slow/cpu onnx")
    (project.root / "build/go").touch()

    status = terminal.end()

    lines = plain_lines(terminal.text[terminal.text.rindex(HIDE) :])
    assert status == 0
    assert lines[0].split() == ["state", "node", "seconds", "why"]
    assert [line.split()[:3] for line in lines[-4:-2]] == [["built", "slow/cpu", name] for name in ("first", "onnx")]
    assert lines[-2].startswith("2 built in ")
    assert lines[-1] == f"{project.root}/build/slow/cpu/onnx.onnx"
    assert terminal.text.count(SHOW) == terminal.text.count(HIDE) == 1


def test_ctrl_c_on_a_terminal_leaves_the_cursor_visible(project: Project) -> None:
    terminal = Terminal(project)
    of_the_node = pids(project)
    terminal.type("\x03")

    status = terminal.end()

    assert status == 130
    assert terminal.text.rindex(SHOW) > terminal.text.rindex(HIDE)
    assert plain_lines(terminal.text)[-1].endswith("and the next run goes on from there")
    wait_for(lambda: not any(is_running(pid) for pid in of_the_node))


def test_a_terminal_shows_how_far_a_builder_is(project: Project) -> None:
    """Builders write `[PROGRESS]` lines into their logs; the last one takes the place of the reason."""
    fifo = project.root.parent / "fifo"
    os.mkfifo(fifo)
    tool = f"echo '[PROGRESS] Building: 1 of 6'; echo '[PROGRESS] Building: 2 of 6'; echo more; cat {fifo} > $1"
    project.write("tool.sh", tool)
    project.write(
        "recipes/slow.yaml",
        "# @package _global_\nnodes:\n  tool: {kind: command, cmd: 'sh tool.sh {out}', out: .txt}\n",
    )
    terminal = Terminal(project, "tool")

    terminal.read_until(r"building +slow/cpu tool +[\d.]+ +Building: 2 of 6")
    fifo.write_text("done")

    assert terminal.end() == 0
