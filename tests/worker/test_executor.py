"""Fresh and warm processes, other interpreters, and the death of the parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import toys

from mobuild.errors import NodeFailed
from mobuild.executors.endings import killed
from mobuild.executors.memory import Memory, memory
from mobuild.executors.process import BOOTSTRAP
from mobuild.node import Built

PYTHON38 = Path.home() / ".pyenv/versions/3.8.18/bin/python"
needs_python38 = pytest.mark.skipif(not PYTHON38.exists(), reason="no Python 3.8 installed by pyenv")


def test_warm_process_copies_inputs_and_logs(project):
    given = project.root / "given.txt"
    given.write_text("hello")

    outcome = project.run(toys.Plain(), isolated=False, inputs={"model": str(given)})

    assert project.out.read_text() == "hello"
    assert project.log.read_text() == "copying\n"
    assert outcome.observed.distributions == {}
    assert outcome.peak_rss_mib > 1


def test_process_that_ran_first_party_code_is_not_used_again(project):
    first = project.run(toys.Plain(), isolated=False)
    second = project.run(toys.Plain(), isolated=False)

    assert first.measurements["pid"] != second.measurements["pid"]


def test_process_that_ran_our_own_kinds_alone_is_used_again(project):
    ours = Built()  # of this package, and fails at once, since it cannot build

    with pytest.raises(NodeFailed, match="'Built' object has no attribute 'build'"):
        project.run(ours, isolated=False)
    first = workers()
    with pytest.raises(NodeFailed):
        project.run(ours, isolated=False)

    assert len(first) == 1
    assert workers() == first


def test_dead_warm_process_fails_its_node_and_is_replaced(project):
    with pytest.raises(NodeFailed, match=r"^node 'toy': killed by SIGKILL, (not for|likely out of) memory; cgroup"):
        project.run(toys.Plain("die"), isolated=False)

    assert project.run(toys.Plain(), isolated=False).measurements["pid"] != os.getpid()


def test_timeout_ends_a_warm_process(project):
    with pytest.raises(NodeFailed, match="still running after timeout_seconds=2, so it was stopped"):
        project.run(toys.Plain("sleep"), isolated=False, timeout_seconds=2)


@pytest.mark.parametrize("isolated", [True, False])
def test_a_limit_beyond_all_clocks_is_none(project, isolated, capfd):
    project.run(toys.Plain(), isolated=isolated, timeout_seconds=1e12)

    assert "Overflow" not in capfd.readouterr().err


def test_close_cancels_a_warm_process(project, executor):
    failures: list[NodeFailed] = []

    def build() -> None:
        try:
            project.run(toys.Plain("sleep"), isolated=False)
        except NodeFailed as error:
            failures.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    wait_for(lambda: project.log.exists() and "sleeping" in project.log.read_text())
    executor.close()
    thread.join()

    assert [error.message for error in failures] == ["node 'toy': cancelled"]


@needs_python38
def test_node_runs_under_python_38_without_our_packages(project, call):
    outcome = call(
        "import sys\n"
        "def main():\n"
        "    try:\n"
        "        import omegaconf\n"
        "    except ImportError:\n"
        "        return [list(sys.version_info[:2]), open('recipes/toys.py').name]\n",
        python=PYTHON38,
    )

    assert outcome.measurements["answer"] == [[3, 8], "recipes/toys.py"]
    assert outcome.observed.modules == {"user": str(project.recipes / "user.py")}


@needs_python38
def test_what_pathlib_looks_for_is_seen_under_python_38(project, call):
    outcome = call("from pathlib import Path\ndef main(): Path('flag').exists()", python=PYTHON38)

    assert outcome.observed.presence == {str(project.root / "flag"): "-"}


@needs_python38
def test_everything_a_worker_imports_loads_under_python_38():
    root = Path(__file__).parents[2]
    names = ["worker", "usercode", "blame", "distributions", "firstparty", "node", "backend"]
    names += ["observers.files", "observers.modules", "observers.environment", "observers.watch"]

    done = subprocess.run(
        [PYTHON38, "-c", "".join(f"import mobuild.{name}\n" for name in names)], cwd=root, capture_output=True
    )

    assert done.stderr.decode() == ""


def test_worker_imports_only_the_standard_library():
    code = BOOTSTRAP.replace("worker.main(sys.argv[1], int(sys.argv[2]))", "print(list(sys.modules))")

    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True).stdout

    assert not {"numpy", "xxhash", "hydra", "joblib"} & set(eval(said))


def test_orphan_and_what_it_started_die_with_its_parent(project, tmp_path):
    project.write(
        "user.py",
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sh', '-c', 'sleep 60 & echo $!; wait'], stdout=subprocess.PIPE, text=True)\n"
        "open('pids.new', 'w').write(f'{os.getpid()} {child.pid} {child.stdout.readline()}')\n"
        "os.rename('pids.new', 'pids')\n"
        "time.sleep(60)\n",
    )
    job = tmp_path / "job.json"
    job.write_text(json.dumps(project.job(toys.Call("user.py:main")).document()))
    script = (
        "import json, sys\n"
        "from mobuild.executors.local import Job, LocalExecutor\n"
        "LocalExecutor().run(Job(**json.load(open(sys.argv[1]))), isolated=True)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, job], cwd=Path(__file__).parents[2])
    pid_file = project.root / "pids"
    wait_for(pid_file.exists)
    pids = [int(word) for word in pid_file.read_text().split()]

    parent.send_signal(signal.SIGKILL)
    parent.wait()

    assert len(pids) == 3
    wait_for(lambda: not any(map(running, pids)))


def test_kill_is_called_out_of_memory_only_when_the_kernel_counted_it():
    before, after = Memory(1024, 3), Memory(1024, 4)

    counted = killed("engine", 9, 812.4, before, after)
    uncounted = killed("engine", 9, 812.4, before, before)

    assert counted.message == (
        "node 'engine': killed by SIGKILL, out of memory, peak memory 812 MiB; "
        "cgroup memory limit: 1024 MiB; oom_kill: 3 → 4"
    )
    assert "killed by SIGKILL, not for memory, peak" in uncounted.message
    assert "likely out of memory" in killed("engine", 9, 812.4, Memory(1024, -1), Memory(1024, -1)).message


def test_memory_limit_is_the_smallest_on_the_way_up(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/outer/inner\n")
    write(tmp_path, "sys/fs/cgroup/cgroup.controllers", "memory")
    write(tmp_path, "sys/fs/cgroup/outer/memory.max", str(512 * 2**20))
    write(tmp_path, "sys/fs/cgroup/outer/inner/memory.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/outer/inner/memory.events", "low 0\noom 2\noom_kill 7\n")

    assert memory(tmp_path) == Memory(512, 7)


def test_memory_limit_of_version_1(tmp_path):
    write(tmp_path, "proc/self/cgroup", "5:cpu,memory:/docker/abc\n0::/\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", str(256 * 2**20))
    write(tmp_path, "sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\noom_kill 1\n")

    assert memory(tmp_path) == Memory(256, 1)


def test_no_limit_is_said_so(tmp_path):
    assert memory(tmp_path).limit == "no limit"


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def workers() -> set[str]:
    """Process numbers of the warm processes that this one has."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == str(os.getpid()) and b"popen_loky" in (folder / "cmdline").read_bytes():
                found.add(folder.name)
    return found


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
