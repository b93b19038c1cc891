"""Code of the user's that fails or misbehaves: the message has the user's lines, the log has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import Finished, Project, recipe_project

CODE = """\
import os
import sys
import time

import torch

BEGUN = os.getcwd()


def fine():
    return torch.nn.Linear(4, 2)


def raises():
    return inner()


def inner():
    raise RuntimeError("\\x1b[31mboom\\x1b[0m")


def talks_for_ever():
    raise RuntimeError("x" * 5000)


def returns_none():
    return None


def returns_the_class():
    return torch.nn.Linear


def leaves():
    sys.exit(0)


def leaves_without_a_word():
    os._exit(0)


def is_killed():
    os.kill(os.getpid(), 9)


def never_ends():
    time.sleep(600)


def calls_itself():
    return calls_itself()


def moves_and_prints():
    os.chdir("/")
    print("into the log")
    os.write(1, b"from native code\\n")
    sys.stdout = sys.stderr = None
    return torch.nn.Linear(4, 2)


def reads():
    open("notes.txt").close()
    return torch.nn.Linear(4, 2)


def reads_both(notes):
    assert notes.name == "notes.txt" and open("notes.txt").read() == notes.read_text()
    return torch.nn.Linear(4, int(os.environ.get("WIDTH", "1")))


def reads_width():
    return torch.nn.Linear(4, int(os.environ.get("WIDTH", "1")))


def reads_a_secret():
    os.environ.get("HUB_TOKEN")
    return torch.nn.Linear(4, 2)


def reads_the_environment():
    for number in range(9):
        os.environ.get(f"SETTING_{number}")
    return torch.nn.Linear(4, 2)
"""
NODES = """\
  onnx: {kind: export, model: "code.py:fine", needs: {}, exporter: torchscript, inputs: {x: [batch, 4]}, outputs: [y]}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = recipe_project(tmp_path_factory.mktemp("code"), NODES, {"recipes/code.py": CODE, "notes.txt": "note"})
    made.write("recipes/missing.py", "import nosuchmodule\n\n\ndef load(): ...\n")
    made.write("recipes/broken.py", "def load()\n")
    return made


def export(project: Project, function: str, *words: str) -> Finished:
    reference = function if ":" in function else f"code.py:{function}"
    return project.mobuild("target=onnx", f"nodes.onnx.model={reference}", *words, check=False)


FAILURES = {
    "raises": (
        "node 'onnx': loader 'code.py:raises' raises at recipes/code.py:19 in inner: "
        '`raise RuntimeError("\\x1b[31mboom\\x1b[0m")`: RuntimeError: boom'
    ),
    "returns_none": (
        "node 'onnx': loader 'code.py:returns_none': expected a torch.nn.Module, found NoneType\n"
        "  return the network itself, with its weights loaded"
    ),
    "returns_the_class": "node 'onnx': loader 'code.py:returns_the_class': expected a torch.nn.Module, found type",
    "leaves": (
        "node 'onnx': its code called sys.exit(0)\n  recipes/code.py:35 in leaves\n"
        "  a function that a node calls has to return"
    ),
    "leaves_without_a_word": (
        "node 'onnx': the process ended with status 0 before it reported a result (its code called os._exit()?)"
    ),
    "is_killed": "node 'onnx': killed by SIGKILL",
    "calls_itself": "node 'onnx': loader 'code.py:calls_itself' raises at recipes/code.py:51 in calls_itself: ",
    "missing.py:load": "node 'onnx': needs the module 'nosuchmodule', which ",
}


@pytest.mark.parametrize(("function", "message"), FAILURES.items(), ids=list(FAILURES))
def test_code_that_fails_is_named_with_the_users_lines(project: Project, function: str, message: str) -> None:
    done = export(project, function)

    assert (done.status, done.out) == (1, "")
    (found,) = done.errors
    assert found.startswith(message)
    assert "site-packages" not in done.err and "Traceback" not in done.err


def test_code_that_is_no_python_fails_before_anything_runs(project: Project) -> None:
    done = export(project, "broken.py:load")

    assert done.status == 2
    assert done.errors[0].startswith(
        f"recipe 'small', node 'onnx': {project.root}/recipes/broken.py:1: not valid Python: expected ':'"
    )
    assert "build  " not in done.err


def test_a_misspelt_function_is_named_with_the_nearest(project: Project) -> None:
    done = export(project, "fien")

    assert done.status == 1
    assert done.errors[0].startswith(
        f"node 'onnx': user code 'code.py:fien': {project.root}/recipes/code.py has no attribute 'fien'. "
        "Did you mean 'fine'?"
    )


def test_a_very_long_message_is_cut_and_whole_in_the_log(project: Project) -> None:
    done = export(project, "talks_for_ever")
    log = project.mobuild("log", "onnx", "nodes.onnx.model=code.py:talks_for_ever").out

    (found,) = done.errors
    assert len(found) < 1100
    assert "x" * 5000 in log


def test_the_log_has_the_whole_traceback(project: Project) -> None:
    export(project, "raises")

    log = project.mobuild("log", "onnx", "nodes.onnx.model=code.py:raises").out

    assert "Traceback (most recent call last):" in log
    assert "loading.py" in log and "in raises\n" in log
    assert "\x1b" not in log


def test_a_node_that_runs_over_time_is_stopped(project: Project) -> None:
    done = export(project, "never_ends", "nodes.onnx.timeout_seconds=1")

    assert done.status == 1
    assert done.errors == (
        "node 'onnx': still running after timeout_seconds=1, so it was stopped\n"
        "  raise timeout_seconds, or look at the log for what it waits for",
    )


def test_code_that_moves_and_prints_builds_and_leaves_standard_output_alone(project: Project) -> None:
    done = export(project, "moves_and_prints")
    log = project.mobuild("log", "onnx", "nodes.onnx.model=code.py:moves_and_prints").out

    assert done.status == 0, done.err
    assert Path(done.out.strip()).is_file() and done.out.count("\n") == 1
    assert log.startswith("into the log\nfrom native code\n")


def test_an_undeclared_input_is_an_error_when_strict_and_a_warning_otherwise(project: Project) -> None:
    strict = export(project, "reads", "cache.strict=true")
    loose = export(project, "reads")

    assert (strict.status, loose.status) == (1, 0)
    assert strict.errors == (
        "node 'onnx': the code read file notes.txt, which is declared nowhere\n"
        "  declare the file: nodes: {notes: {kind: source, uri: notes.txt}}, and in 'onnx' needs: {notes: notes}\n"
        "  or set cache.strict=false",
    )
    assert (
        "onnx: the code read file notes.txt, which is declared nowhere; from now on it counts as an input "
        "(declare files by `needs` and variables by `env`)\n" in loose.err
    )


DECLARED = """\
  notes: {kind: source, uri: notes.txt}
  onnx:
    kind: export
    model: "code.py:reads_both"
    needs: {notes: notes, weights: null}
    env: {WIDTH: "${oc.env:WIDTH,null}"}
    exporter: torchscript
    inputs: {x: [batch, 4]}
    outputs: [y]
"""


def test_a_strict_build_says_how_to_declare_a_variable(project: Project) -> None:
    done = export(project, "reads_width", "cache.strict=true")

    assert done.status == 1
    assert done.errors == (
        "node 'onnx': the code read environment WIDTH, which is declared nowhere\n"
        "  declare the variable: in 'onnx' env: {WIDTH: \"${oc.env:WIDTH,null}\"}\n"
        "  or set cache.strict=false",
    )


def test_declared_files_and_variables_are_keyed_by_content_and_pass_a_strict_build(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, DECLARED, {"recipes/code.py": CODE, "notes.txt": "note"})
    words = ("target=onnx", "cache.strict=true")

    first = project.mobuild(*words, env={"WIDTH": "2"})
    runs = {
        "nothing changed": project.mobuild(*words, env={"WIDTH": "2"}),
        "another value": project.mobuild(*words, env={"WIDTH": "3"}),
        "the first value again": project.mobuild(*words, env={"WIDTH": "2"}),
        "not set at all": project.mobuild(*words),
    }
    project.write("notes.txt", "other")
    runs["another file"] = project.mobuild(*words, env={"WIDTH": "2"})

    assert "warning" not in first.err
    assert {name: "built   small/cpu onnx" in run.err for name, run in runs.items()} == {
        "nothing changed": False,
        "another value": True,
        "the first value again": False,
        "not set at all": True,
        "another file": True,
    }


def test_a_secret_needs_no_declaration_and_may_not_be_written_down(project: Project) -> None:
    strict = export(project, "reads_a_secret", "cache.strict=true")
    written = export(project, "reads_a_secret", "nodes.onnx.env={HUB_TOKEN: abc}")

    assert strict.status == 0, strict.err
    assert written.status == 2
    assert written.errors == (
        "recipe 'small', node 'onnx': env: 'HUB_TOKEN' is a secret by its name, and the values of env are written down"
        "\n  leave it out: secrets are passed on as they are, and never enter a key",
    )


def test_a_long_list_of_undeclared_inputs_is_cut(project: Project) -> None:
    done = export(project, "reads_the_environment")

    (warning,) = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert " and 3 more (all of them in the artifact's .json), which is declared nowhere" in warning
    assert warning.count("environment ") == 6
