"""Whatever ends a node badly is said in words that help, with the path of the log."""

from __future__ import annotations

import sys
import threading
import time

import pytest
import toys

from mobuild.errors import ConfigError, NodeFailed, ToolchainError
from mobuild.executors.memory import memory


def test_exception_of_user_code_names_the_users_frames_alone(project, call):
    project.write("helper.py", "import json\n\n\ndef parse():\n    json.loads('{')\n")

    with pytest.raises(NodeFailed) as caught:
        call("import helper\n\n\ndef main():\n    helper.parse()\n")

    kind = (project.recipes / "toys.py").read_text().splitlines()
    calling = next(i for i, line in enumerate(kind, 1) if "usercode.resolve(" in line)
    assert caught.value.message == (
        "node 'toy': JSONDecodeError: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"
        f"  recipes/toys.py:{calling} in build\n"
        "  recipes/user.py:5 in main\n"
        "  recipes/helper.py:5 in parse"
    )
    assert caught.value.log == str(project.log)
    assert "json/decoder.py" in project.log.read_text()


def test_missing_package_says_which_interpreter_and_how_to_install(call):
    with pytest.raises(ToolchainError) as caught:
        call("def main():\n    import cv2_is_not_here\n")

    first, *_ = caught.value.message.splitlines()
    assert first == f"node 'toy': needs the module 'cv2_is_not_here', which {sys.executable} does not have"
    assert caught.value.hint == (
        f"install it: {sys.executable} -m pip install cv2_is_not_here\n"
        "or run the node where it is installed: python: ./venv/bin/python at the node (or toolchain.call.python=);\n"
        "toolchain.python alone holds for exports, commands and kinds of your own"
    )


def test_unknown_attribute_suggests_the_near_one(project, call):
    project.write("other.py", "def load(): pass\n")

    with pytest.raises(NodeFailed) as caught:
        project.run(toys.Call("other.py:laod"))

    path = project.recipes / "other.py"
    assert caught.value.message == (
        f"node 'toy': user code 'other.py:laod': {path} has no attribute 'laod'. Did you mean 'load'?"
    )


def test_missing_file_names_the_path_that_was_tried(project):
    project.write("model.py", "")

    with pytest.raises(ConfigError) as caught:
        project.run(toys.Call("modle.py:load"))

    path = str(project.recipes / "modle.py")
    assert caught.value.message == (
        f"node 'toy': user code 'modle.py:load': there is no file {path!r}. Did you mean 'model.py'?"
    )


def test_sys_exit_is_a_failure(call):
    with pytest.raises(NodeFailed, match=r"^node 'toy': its code called sys\.exit\(0\)"):
        call("import sys\ndef main(): sys.exit(0)")


def test_end_without_a_result_is_a_failure(call):
    with pytest.raises(NodeFailed) as caught:
        call("import os\ndef main(): os._exit(0)")

    assert caught.value.message == (
        "node 'toy': the process ended with status 0 before it reported a result (its code called os._exit()?)"
    )


def test_native_crash_is_named_by_its_signal(project, call):
    with pytest.raises(NodeFailed, match=r"^node 'toy': killed by SIGSEGV, peak memory \d+ MiB"):
        call("import ctypes\ndef main(): ctypes.string_at(0)")

    assert "in main" in project.log.read_text()


def test_sigkill_tells_memory_and_its_limit(call):
    with pytest.raises(NodeFailed) as caught:
        call("import os\ndef main(): os.kill(os.getpid(), 9)")

    assert caught.value.message.startswith("node 'toy': killed by SIGKILL, ")
    assert f"cgroup memory limit: {memory().limit}; oom_kill: " in caught.value.message


def test_timeout_kills_the_group_and_names_the_limit(project, call):
    with pytest.raises(NodeFailed) as caught:
        call(
            "import subprocess, time\n"
            "from pathlib import Path\n"
            "def main():\n"
            "    child = subprocess.Popen(['sleep', '60'])\n"
            "    Path('child').write_text(str(child.pid))\n"
            "    time.sleep(60)\n",
            timeout_seconds=1,
        )

    assert caught.value.message == ("node 'toy': still running after timeout_seconds=1, so it was stopped")
    assert_gone(int((project.root / "child").read_text()))


def test_processes_left_behind_end_with_the_node(project, call):
    outcome = call("import subprocess\ndef main(): return subprocess.Popen(['sleep', '60']).pid")

    assert_gone(outcome.measurements["answer"])


def test_node_without_an_artifact_fails(project):
    project.write("user.py", "def main(): return 1")

    with pytest.raises(NodeFailed) as nothing:
        project.run(toys.Call("user.py:main", mode="nothing"))
    with pytest.raises(NodeFailed) as empty:
        project.run(toys.Call("user.py:main", mode="empty"))

    expected = f"node 'toy': did not write its artifact: expected a file or a folder at {str(project.out)!r}"
    assert nothing.value.message == f"{expected}, found nothing"
    assert empty.value.message == f"{expected}, found an empty folder"


def test_interpreter_that_cannot_start_is_a_toolchain_error(project, tmp_path):
    with pytest.raises(ToolchainError, match=r"cannot be started: No such file or directory"):
        project.run(toys.Call("user.py:main"), python=tmp_path / "no/python")


def test_log_holds_native_output_without_escapes_and_secrets(project, call, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "hunter2hunter2")

    call(
        "import os, subprocess\n"
        "def main():\n"
        "    print('\\x1b[31mred\\x1b[0m', os.environ['HUB_TOKEN'])\n"
        "    subprocess.run(['echo', 'from a child'])\n"
    )

    assert project.log.read_text() == "red <HUB_TOKEN>\nfrom a child\n"


def test_close_cancels_what_runs(project, call, executor):
    failures: list[NodeFailed] = []

    def build() -> None:
        try:
            call("import time\nopen('started', 'w').close()\ndef main(): time.sleep(60)")
        except NodeFailed as error:
            failures.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    wait_for(lambda: (project.root / "started").exists())
    executor.close()
    thread.join()

    assert [error.message for error in failures] == ["node 'toy': cancelled"]


def assert_gone(pid: int) -> None:
    """A killed process may be a zombie until its new parent reaps it."""
    wait_for(lambda: not running(pid))


def running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def wait_for(condition) -> None:
    """Until `condition()` holds; waits for the kernel, not for a time."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.02)
