"""Kind `command`: any program as a node, held to its promise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mobuild.errors import ConfigError, NodeFailed
from mobuild.nodes.command import Command

PYTHON = sys.executable


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def script(project: Path, text: str) -> None:
    (project / "tool.py").write_text(text)


def test_paths_with_spaces_are_one_word(project: Path) -> None:
    script(project, "import shutil, sys; shutil.copyfile(*sys.argv[1:])")
    (project / "in.txt").write_text("data")

    Command(f"{PYTHON} tool.py {{in.source}} {{out}}").build({"source": project / "in.txt"}, project / "out.txt")

    assert (project / "out.txt").read_text() == "data"


def test_shell_only_when_asked(project: Path) -> None:
    Command("echo $((1 + 1)) > {out}", shell=True).build({}, project / "out put")

    assert (project / "out put").read_text() == "2\n"


def test_cwd_is_relative_to_the_project(project: Path) -> None:
    (project / "sub").mkdir()

    Command("pwd > {out}", shell=True, cwd="sub").build({}, project / "out")

    assert (project / "out").read_text().strip() == str(project / "sub")


def test_folder_exists_when_the_program_starts(project: Path) -> None:
    Command("touch {out}/a", out="folder", shell=True).build({}, project / "out")

    assert (project / "out" / "a").exists()


def test_failure_shows_status_and_last_lines(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script(project, "import sys\nfor i in range(20): print('line', i)\nsys.exit(3)")

    with pytest.raises(NodeFailed) as caught:
        Command(f"{PYTHON} tool.py {{out}}").build({}, project / "o")

    assert caught.value.message == f"\"{PYTHON} tool.py '{project}/o'\" ended with status 3"
    assert caught.value.hint.splitlines() == [f"line {i}" for i in range(10, 20)]
    assert "line 0\n" in capfd.readouterr().out


def test_killed_program_is_named(project: Path) -> None:
    with pytest.raises(NodeFailed, match="was killed by SIGKILL"):
        Command("kill -9 $$", shell=True).build({}, project / "o")


def test_missing_program_is_named(project: Path) -> None:
    with pytest.raises(NodeFailed) as caught:
        Command("no-such-program {out}").build({}, project / "o")

    assert caught.value.message == ("'no-such-program' cannot be started: No such file or directory (no-such-program)")


def test_status_0_without_output_is_a_failure(project: Path) -> None:
    with pytest.raises(NodeFailed) as caught:
        Command("true", out=".onnx").build({}, project / "o.onnx")

    assert caught.value.message == (
        "command 'true' ended with status 0, but left nothing where its output {out} should be"
    )


def test_onnx_output_is_summarised(project: Path) -> None:
    code = (
        "import onnx, sys; from onnx import helper as h; v = h.make_tensor_value_info\n"
        "g = h.make_graph([h.make_node('Relu', ['x'], ['y'])], 'g', [v('x', 1, ['n'])], [v('y', 1, ['n'])])\n"
        "onnx.save(h.make_model(g), sys.argv[1])\n"
    )
    script(project, code)

    built = Command(f"{PYTHON} tool.py {{out}}", out=".onnx").build({}, project / "o.onnx")

    assert built.onnx["operators"] == {"Relu": 1}


def test_onnx_output_that_is_none_is_a_failure(project: Path) -> None:
    with pytest.raises(NodeFailed, match="expected an ONNX model"):
        Command("echo hello > {out}", out=".onnx", shell=True).build({}, project / "o.onnx")


def test_unknown_role_is_refused(project: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Command("cp {in.wieghts} {out}").build({"weights": project / "w"}, project / "o")

    assert caught.value.message == ("cmd: {in.wieghts} is no input of this node. Did you mean 'in.weights'?")


def test_files_of_the_project_enter_the_key(project: Path) -> None:
    script(project, "")
    (project / "sub").mkdir()
    (project / "sub" / "data.json").write_text("{}")

    found = Command("/bin/sh tool.py sub/data.json missing.py {in.w} {out}").files(project)

    assert found == (project / "sub" / "data.json", project / "tool.py")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cmd": " "}, "cmd: expected a command, found none"),
        ({"cmd": "echo 'a"}, 'cmd: "echo \'a" cannot be split into words: No closing quotation'),
        (
            {"cmd": "true", "out": "onnx"},
            "out: expected a file name ending such as '.onnx', or 'folder', found 'onnx'",
        ),
    ],
)
def test_wrong_field_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Command(**fields)

    assert caught.value.message == message
