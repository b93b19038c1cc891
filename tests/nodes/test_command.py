"""Kind `command`: any program as a node, held to its promise."""

from __future__ import annotations

import json
import os
import signal
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


@pytest.mark.parametrize(
    ("cmd", "operator"),
    [
        ("ls nowhere > {out}", ">"),
        ("python make.py {out} && echo 'hi there'", "&&"),
        ("ls {out} 2>&1", "2>&1"),
        ("ls | wc", "|"),
    ],
)
def test_operator_of_a_shell_without_one_is_refused(cmd: str, operator: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Command(cmd)

    assert caught.value.message == f"cmd: {operator!r} would reach the program as a word, since no shell reads cmd"
    assert caught.value.hint == f"write shell: true;\nas a word for the program it is quoted: '{operator}'"


def test_a_module_that_is_missing_is_traced_to_the_python_that_ran(project: Path) -> None:
    script(project, "import no_such_module")

    with pytest.raises(NodeFailed) as caught:
        Command("python tool.py {out}").build({}, project / "out")

    assert caught.value.hint.startswith(
        f"{PYTHON} has no module 'no_such_module': install it there, or run the node where it is installed: "
        "python: ./venv/bin/python at the node\nTraceback "
    )


def test_quoted_operator_of_a_shell_is_a_word(project: Path) -> None:
    script(project, "import sys; open(sys.argv[1], 'w').write(' '.join(sys.argv[2:]))")

    Command(f"{PYTHON} tool.py {{out}} '>' \\; \"a && b\" <b>").build({}, project / "out")

    assert (project / "out").read_text() == "> ; a && b <b>"


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

    assert caught.value.message == "'no-such-program' cannot be started: there is no such program on PATH"
    assert caught.value.hint.startswith("PATH: /")
    assert f":{os.environ['PATH']}" in caught.value.hint


def executable(project: Path, text: bytes, mode: int = 0o755) -> None:
    (project / "tool").write_bytes(text)
    (project / "tool").chmod(mode)


@pytest.mark.parametrize(
    ("text", "mode", "reason", "hint"),
    [
        (
            b"#!/bin/sh\n",
            0o644,
            "it may not be executed",
            "chmod +x ./tool, or name what runs it: cmd: python ./tool …",
        ),
        (
            b"#!/opt/no/python3\nprint()\n",
            0o755,
            "its first line asks for '/opt/no/python3', which is not there",
            "name the program that runs it in cmd",
        ),
        (
            b"#!/bin/sh\r\necho\r\n",
            0o755,
            "its first line asks for '/bin/sh\\r', which is not there",
            "its lines end in CR LF, as on Windows: sed -i 's/\\r$//' ./tool",
        ),
        (
            b"echo hello\n",
            0o755,
            "it is no program for this machine (Exec format error)",
            "a script begins with a line such as #!/bin/sh, or is named after what runs it: cmd: sh ./tool …",
        ),
    ],
    ids=["not executable", "no such interpreter", "CR LF", "no first line"],
)
def test_program_that_does_not_start_says_why(project: Path, text: bytes, mode: int, reason: str, hint: str) -> None:
    executable(project, text, mode)

    with pytest.raises(NodeFailed) as caught:
        Command("./tool {out}").build({}, project / "o")

    assert caught.value.message == f"'./tool' cannot be started: {reason}"
    assert caught.value.hint == hint


def test_program_and_folder_that_are_not_there_are_named(project: Path) -> None:
    with pytest.raises(NodeFailed) as no_program:
        Command("./tool {out}").build({}, project / "o")
    with pytest.raises(NodeFailed) as no_folder:
        Command("cp x {out}", cwd="nowhere").build({}, project / "o")

    assert no_program.value.message == f"'./tool' cannot be started: there is no file '{project}/tool'"
    assert no_folder.value.message == f"'cp' cannot be started: there is no folder '{project}/nowhere' to run it in"


def test_python_is_the_one_that_runs_the_node(project: Path) -> None:
    script(project, "import sys; open(sys.argv[1], 'w').write(sys.executable)")

    for cmd, shell in (("python tool.py {out}", False), ("exec python tool.py {out}", True)):
        Command(cmd, shell=shell).build({}, project / "out")
        assert (project / "out").read_text() == PYTHON


def test_braces_that_are_no_placeholder_are_text(project: Path) -> None:
    Command("""printf '%s\\n' '{"a": {"b": 1}}' '{{out}}' '{}' {project} > {out}""", shell=True).build(
        {}, project / "o"
    )

    assert (project / "o").read_text().splitlines() == ['{"a": {"b": 1}}', "{out}", "{}", str(project)]


def test_words_are_split_as_a_shell_does(project: Path) -> None:
    script(project, "import json, sys; open(sys.argv[1], 'w').write(json.dumps(sys.argv[2:]))")

    Command("""python tool.py {out} 'a b' "c 'd'" e\\ f '' $HOME '*' --x='y z'""").build({}, project / "o")

    assert json.loads((project / "o").read_text()) == ["a b", "c 'd'", "e f", "", "$HOME", "*", "--x=y z"]


def test_program_may_run_in_the_folder_that_it_makes(project: Path) -> None:
    script(project, "from pathlib import Path; Path('report.txt').write_text(Path.cwd().name)")

    command = Command("python {project}/tool.py", out="folder", cwd="{out}")
    command.build({}, project / "out")

    assert (project / "out/report.txt").read_text() == "out"
    assert command.files(project) == (project / "tool.py",)


@pytest.mark.parametrize(
    ("cmd", "out", "left"),
    [
        ("mkdir {out}; touch {out}/a", ".bin", "a folder"),
        ("rmdir {out}; echo hello > {out}", "folder", "a file"),
        ("rmdir {out}", "folder", "nothing"),
        ("true", "folder", "an empty folder"),
        ("true", "", "nothing"),
        ("touch {out}", ".onnx", "an empty file"),
        ("mkfifo {out}", "", "neither a file nor a folder"),
        ("ln -s nowhere {out}", "", "a link to 'nowhere'"),
    ],
)
def test_what_is_not_the_promised_output_is_a_failure(project: Path, cmd: str, out: str, left: str) -> None:
    with pytest.raises(NodeFailed) as caught:
        Command(cmd, out=out, shell=True).build({}, project / "o")

    assert caught.value.message.endswith(f"ended with status 0, but left {left} where its output {{out}} should be")


def test_empty_file_is_a_warning(project: Path) -> None:
    built = Command("touch {out}", out=".txt").build({}, project / "o.txt")

    assert built.warnings == ("command 'touch {out}' left an empty file",)


def test_copy_of_a_link_to_an_input_is_the_input(project: Path) -> None:
    (project / "object").write_text("data")
    (project / "input").symlink_to(project / "object")

    Command("cp -r {in.x} {out}").build({"x": project / "input"}, project / "o")

    assert not (project / "o").is_symlink()
    assert (project / "o").read_text() == "data"


def test_input_is_closed(project: Path) -> None:
    Command("cat > {out}; echo end >> {out}", shell=True).build({}, project / "o")

    assert (project / "o").read_text() == "end\n"


def test_signal_behind_a_shell_is_named(project: Path) -> None:
    with pytest.raises(NodeFailed, match="ended with status 137: what the shell ran was killed by SIGKILL"):
        Command("sh -c 'kill -9 $$'; exit $?", shell=True).build({}, project / "o")


def test_signal_without_a_name_is_told_by_its_number(project: Path) -> None:
    with pytest.raises(NodeFailed, match="was killed by signal 40"):
        Command("kill -40 $$", shell=True).build({}, project / "o")


def test_output_that_is_no_text_is_not_shown(project: Path) -> None:
    with pytest.raises(NodeFailed) as caught:
        Command("head -c 300 /dev/zero; echo; printf 'bad \\377 byte\\n'; exit 1", shell=True).build({}, project / "o")

    assert caught.value.hint.splitlines() == ["(300 bytes that are no text)", "bad \ufffd byte"]


def test_output_without_end_keeps_its_beginning_and_its_end(project: Path, capfdbinary: pytest.CaptureFixture) -> None:
    Command("yes | head -c 60000000; echo last; touch {out}", shell=True).build({}, project / "o")

    log = capfdbinary.readouterr().out
    assert log.startswith(b"y\ny\n")
    assert log.endswith(b"y\nlast\n")
    assert len(log) < 36 << 20
    assert b"bytes are left out" in log


def test_program_that_leaves_a_child_ends_all_the_same(project: Path) -> None:
    Command("sleep 1000 & echo $! > {out}", shell=True).build({}, project / "o")

    os.kill(int((project / "o").read_text()), signal.SIGKILL)


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

    (project / "sub" / "export.py").write_text("")

    found = Command("/bin/sh tool.py sub/data.json missing.py {in.w} {out}").files(project)
    in_options = Command("tool --config=sub/data.json -o={out}").files(project)
    in_a_shell = Command("cat<sub/data.json>{out};python tool.py", shell=True).files(project)
    as_a_module = Command("python -m sub.export {out}").files(project)

    assert found == (project / "sub" / "data.json", project / "tool.py")
    assert in_options == (project / "sub" / "data.json",)
    assert in_a_shell == (project / "sub" / "data.json", project / "tool.py")
    assert as_a_module == (project / "sub" / "export.py",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cmd": " "}, "cmd: expected a command, found none"),
        ({"cmd": "echo 'a"}, 'cmd: "echo \'a" cannot be split into words: No closing quotation'),
        (
            {"cmd": "true", "out": "onnx"},
            "out: expected a file name ending such as '.onnx', or 'folder', found 'onnx'",
        ),
        (
            {"cmd": "true", "out": ".onnx", "cwd": "{out}"},
            "cwd: {out} is the folder that the node makes, and out is '.onnx'",
        ),
    ],
)
def test_wrong_field_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Command(**fields)

    assert caught.value.message == message
