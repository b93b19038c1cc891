"""A command inside an image, by each tool that may be there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mobuild.image.sandbox import Outcome, Task, run
from tests.image.layouts import layout, program_tree, tar

TOOLS = ("podman", "runc", "bwrap", "chroot")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program_tree(tmp_path_factory.mktemp("sandbox") / "root")


def by(tool: str, task: Task) -> Outcome:
    """The outcome by one tool; skips where it does not work on this machine."""
    outcome = run(task, [tool])
    if not outcome.by:
        pytest.skip(str(outcome))
    return outcome


@pytest.mark.parametrize("tool", TOOLS)
def test_a_command_gets_what_it_may_have_and_no_more(root: Path, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of this machine")
    with socket.create_server(("127.0.0.1", 0)) as server:
        task = Task(root, ["/bin/tell", "all", str(server.getsockname()[1])], {"LANG": "C.UTF-8"}, timeout_seconds=60)
        outcome = by(tool, task)

    lines = outcome.output.splitlines()
    assert outcome.status == 0
    assert {"uid 65532 gid 65532", "env LANG=C.UTF-8", "root is read-only"} <= set(lines)
    assert {"tmp is writable", "proc is there", "network is missing"} <= set(lines)
    assert "SECRET" not in outcome.output
    assert str(outcome) == f"passed in {tool}"
    assert not (root / "x").exists()


@pytest.mark.parametrize("tool", TOOLS)
def test_the_network_is_there_where_it_is_asked_for(root: Path, tool: str) -> None:
    if tool == "podman":
        pytest.skip("podman's own network is not the loopback of this machine")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        outcome = by(tool, Task(root, ["/bin/tell", "all", port], {}, has_network=True, timeout_seconds=60))

    assert "network is there" in outcome.output


@pytest.mark.parametrize("tool", TOOLS)
def test_the_status_of_the_command_is_told(root: Path, tool: str) -> None:
    outcome = by(tool, Task(root, ["/bin/tell", "exit", "3"], {}, timeout_seconds=60))

    assert (outcome.status, str(outcome)) == (3, f"failed in {tool} with status 3")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_command_that_the_image_lacks_is_a_failure_of_the_image(root: Path, tool: str) -> None:
    by(tool, Task(root, ["/bin/tell", "exit", "0"], {}, timeout_seconds=60))  # it works here

    outcome = run(Task(root, ["/no/such"], {}, timeout_seconds=60), [tool])

    assert outcome.by == tool
    assert outcome.status not in (0, None)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_command_that_does_not_end_is_ended(root: Path, tool: str) -> None:
    by(tool, Task(root, ["/bin/tell", "exit", "0"], {}, timeout_seconds=60))

    outcome = run(Task(root, ["/bin/tell", "wait"], {}, timeout_seconds=3), [tool])

    assert (outcome.status, outcome.reason) == (None, "did not end within 3 s")
    assert outcome.output == "waiting\n"


def test_podman_leaves_nothing_however_it_ends(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is killed leaves its store mounted, and conmon starts another podman there when the container ends."""
    by("podman", Task(root, ["/bin/tell", "exit", "0"], {}, timeout_seconds=60))
    places = Path(tempfile.mkdtemp(prefix="a b", dir="/tmp"))  # podman 4.3 refuses longer ones than 50 letters
    monkeypatch.setattr(tempfile, "tempdir", str(places))

    def ended(seconds: float) -> str:
        return run(Task(root, ["/bin/tell", "wait"], {}, timeout_seconds=seconds), ["podman"]).reason

    with ThreadPoolExecutor(6) as pool:  # of 24 without cleaning, one to three were left mounted
        reasons = list(pool.map(ended, [0.2, 0.5, 0.8, 1, 1.2, 1.5] * 3))

    assert {reason.partition(" within ")[0] for reason in reasons} == {"did not end"}
    assert str(places).replace(" ", "\\040") not in Path("/proc/self/mountinfo").read_text()
    places.rmdir()  # there is nothing in it


@pytest.mark.parametrize("name", ["layout", "Caps X/proof-ta1f_kbf_", "of:2"])
def test_podman_runs_the_layout_as_an_engine_would(root: Path, tmp_path: Path, name: str) -> None:
    layout(tmp_path / name, [tar(root)], environment={"OF_THE_IMAGE": "1"})

    task = Task(root, ["/bin/tell"], {"LANG": "C"}, layout=f"{tmp_path}/{name}:latest", timeout_seconds=120)
    outcome = by("podman", task)

    assert {"uid 65532 gid 65532", "env OF_THE_IMAGE=1", "env LANG=C", "root is read-only"} <= set(
        outcome.output.splitlines()
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (125, "Error: no cgroups here"),
        (126, "Error: OCI runtime error: runc: runc create failed: unable to setup user: invalid argument"),
    ],
)
def test_the_next_tool_is_tried_and_the_first_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, said: str
) -> None:
    broken = tmp_path / "podman"
    broken.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {status}\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    outcome = run(Task(root, ["/bin/tell"], {}, timeout_seconds=60), ["podman", "bwrap", "chroot"])

    assert outcome.by in ("bwrap", "chroot") or pytest.skip(str(outcome))
    assert outcome.passed_over[0] == f"podman: {said}"


def test_without_any_tool_it_is_not_run_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(Task(tmp_path, ["/bin/tell"], {}), [])
    assert (outcome.by, outcome.status, outcome.is_done) == ("", None, False)

    monkeypatch.setenv("PATH", "/nowhere")
    outcome = run(Task(tmp_path, ["/bin/tell"], {}), ["podman", "bwrap"])

    assert str(outcome) == "not run: podman is not installed; bwrap is not installed"


def test_no_login_to_a_registry_is_asked_for(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by("podman", Task(root, ["/bin/tell", "exit", "0"], {}, timeout_seconds=60))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "absent"))

    outcome = run(Task(root, ["/bin/tell", "exit", "0"], {}, timeout_seconds=60), ["podman"])

    assert str(outcome) == "passed in podman"


def test_it_is_known_beforehand_that_nothing_works(tmp_path: Path) -> None:
    """As an account without rights and ranges, with tools that are there."""
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    for name in ("podman", "bwrap"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    for path in (tmp_path, *(parent for parent in tmp_path.parents if parent.name.startswith(("pytest-", "popen-")))):
        path.chmod(0o755)
    code = f"import os; from mobuild.image import sandbox; os.environ['PATH'] = {str(tmp_path)!r}; "
    code += "os.setgid(65533); os.setuid(65533); print(sandbox.cannot())"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stderr == ""
    assert "podman: the account has no range of users in /etc/subuid" in done.stdout
    assert "bwrap: No permissions to create a new namespace" in done.stdout
    assert "chroot: needs root" in done.stdout or "chroot is not installed" in done.stdout
