"""`debug=true`: stale nodes in mobuild's own process, for a debugger; what they make is not kept."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.projects import Finished, Project, code_project, recipe_project

KINDS = '''\
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from mobuild.node import Built


@dataclass(frozen=True)
class Say:
    """Writes its inputs and a word; stops in the debugger on the way, and leaves the folder."""

    kind: ClassVar[str] = "say"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = True
    word: str = ""
    suffix = ".txt"
    tools = ()

    def build(self, inputs, out):
        text = "".join(path.read_text() for path in inputs.values()) + self.word
        os.chdir("/")
        breakpoint()
        print(text)
        if self.word == "bad":
            raise ValueError("bad word")
        if self.word == "stop":
            raise KeyboardInterrupt
        out.write_text(text)
        return Built()
'''
NODES = """\
  first: {kind: say, word: one}
  last: {kind: say, word: two, needs: {before: first}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(
        tmp_path, NODES, {"kinds.py": KINDS, "conf/node/say.yaml": "_target_: kinds.Say\nneeds: {}\n"}
    )


def debug(project: Project, typed: str, *words: str) -> Finished:
    """Run with `debug=true` and `typed` on standard input."""
    environment = {**os.environ, "MOBUILD_CACHE": str(project.cache), "PYTHONPATH": str(project.root)}
    command = [sys.executable, "-m", "mobuild", "debug=true", *words]
    done = subprocess.run(command, cwd=project.root, env=environment, input=typed, capture_output=True, text=True)
    return Finished(done.returncode, done.stdout, done.stderr)


def records(project: Project) -> list[Path]:
    return list(project.cache.rglob("records/**/*.json"))


def test_the_debugger_has_the_terminal_and_later_nodes_use_the_result(project: Project) -> None:
    done = debug(project, "p 'text is', text\nc\np os.getcwd()\nc\n", "target=last")

    assert done.status == 0, done.err
    assert "('text is', 'one')" in done.out
    assert "onetwo" in done.out
    assert "2 built in " in done.err


def test_nothing_is_kept(project: Project) -> None:
    done = debug(project, "c\nc\n", "target=last")

    note = "note: debug=true: 2 of the nodes ran in this process; no result of them is kept, and build/ is as it was\n"
    assert note in done.err
    assert not (project.root / "build").exists()
    assert records(project) == []
    plan = project.mobuild("plan", "target=last", env={"PYTHONPATH": str(project.root)}).out
    assert [line.split()[0] for line in plan.splitlines()] == ["stale", "waiting"]


def test_a_node_that_fails_is_told_as_ever(project: Project) -> None:
    done = debug(project, "c\nc\n", "target=last", "nodes.first.word=bad")

    assert done.status == 1
    assert "ValueError: bad word" in done.errors[0]
    assert "1 blocked, 1 failed in " in done.err
    assert "look into it: mobuild shell first nodes.first.word=bad recipe=small" in done.err


def test_an_interrupt_ends_the_run(project: Project) -> None:
    done = debug(project, "c\nc\n", "target=last", "nodes.first.word=stop")

    assert done.status == 130
    assert "interrupted; " in done.err


def test_a_node_with_another_python_cannot_run_so(project: Project, tmp_path: Path) -> None:
    venv.create(tmp_path / "other", symlinks=True)
    python = tmp_path / "other/bin/python"

    done = debug(project, "", "target=first", f"nodes.first.python={python}")

    assert done.status == 1
    assert done.errors[0].endswith(
        f"node 'first': runs under '{python}', and debug=true runs nodes in mobuild's own process\n"
        "  in the folder that `mobuild shell` opens, debug it under its own: python -m pdb rerun.py"
    )


def test_what_a_node_declares_is_not_set_for_the_next(tmp_path: Path) -> None:
    nodes = """\
  first: {kind: command, cmd: "sh -c 'echo is $WORD > $0' {out}", env: {WORD: one}, out: .txt}
  last: {kind: command, cmd: "sh -c 'cat $0; echo is $WORD > $1; cat $1' {in.m} {out}", needs: {m: first}, out: .txt}
"""

    done = recipe_project(tmp_path, nodes).mobuild("debug=true", "target=last")

    assert "is one\nis\n" in done.out + done.err


def test_a_script_has_its_handler_of_interrupts_again(tmp_path: Path) -> None:
    done = code_project(tmp_path, "def load():\n    return 'x'\n").python(
        "import mobuild, signal\n"
        "def own(number, frame): pass\n"
        "signal.signal(signal.SIGINT, own)\n"
        "mobuild.build('n', debug=True)\n"
        "print(signal.getsignal(signal.SIGINT) is own)\n"
    )

    assert done.out.strip() == "True"
