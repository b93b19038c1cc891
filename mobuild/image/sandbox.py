"""Runs a command inside an image, by whatever this machine has for it: podman, runc, bwrap or chroot.

In each: a read-only root, uid 65532, a /tmp in memory, no network but where asked for, and no variable but those of
the image. None of them needs a daemon. The first that works is used and named; one that cannot work here (no rights,
no cgroups) is told apart from a command that failed, and the next is tried. Nothing is ever run outside a sandbox.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable, Mapping, Sequence

USER = 65532
_TMPFS_BYTES = 1 << 30
_OUTPUT_BYTES = 1 << 20
_CLEANING_SECONDS = 60.0
_ENDING_SECONDS = 10.0
_OF_REGISTRIES = ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE")  # podman 4.3 fails where they name no file


@dataclass(frozen=True)
class Task:
    """What to run: a command of the image whose files lie at `root`, with all of its variables.

    `layout` is an OCI layout and its reference (`/path/layout:latest`) of the same image, which podman then loads as an
    engine would, in seconds; without one it runs the files, as the others do.
    """

    root: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    layout: str = ""
    has_network: bool = False
    timeout_seconds: float = 300.0


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `status` is None when it was not run, or not to its end: `reason` says why.

    `by` is the tool that ran it, empty when it was not run. `passed_over` says why better tools were not used.
    """

    by: str
    status: int | None
    output: str = ""
    seconds: float = 0.0
    reason: str = ""
    passed_over: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.status == 0

    def __str__(self) -> str:
        if not self.by:
            return f"not run: {self.reason}"
        if self.status is None:
            return f"failed in {self.by}: {self.reason}"
        return f"passed in {self.by}" if self.is_done else f"failed in {self.by} with status {self.status}"


TOOLS = ("podman", "runc", "bwrap", "chroot")


@functools.lru_cache(maxsize=None)
def cannot() -> str:
    """Why none of the tools can run an image here; empty where one can. Asked once a process, in milliseconds."""
    reasons = []
    for name in TOOLS:
        program = _place(name)
        if program is None:
            reasons.append(f"{name} is not installed")
        elif reason := _unable(name, program):
            reasons.append(f"{name}: {reason}")
        else:
            return ""
    return "; ".join(reasons)


def _unable(name: str, program: str) -> str:
    """Why a tool that is there cannot make the namespaces that it needs; empty when it can, or who knows."""
    if name == "bwrap":
        words = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]
    elif name in ("runc", "chroot") and os.geteuid():
        return "needs root"  # without it, runc can be no other user
    elif name == "podman" and os.geteuid() and not _has_users():
        return "the account has no range of users in /etc/subuid"
    else:
        unshare = shutil.which("unshare")
        if unshare is None:
            return "unshare is not installed" if name == "chroot" else ""
        words = [
            unshare,
            *(["--user", "--map-root-user"] if os.geteuid() else []),
            "--mount",
            "--pid",
            "--fork",
            "true",
        ]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    return _last_line(done.stderr) or f"ended with status {done.returncode}" if done.returncode else ""


def _has_users() -> bool:
    names = {str(os.geteuid())}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(os.geteuid()).pw_name)
    with contextlib.suppress(OSError):
        return any(line.partition(":")[0] in names for line in Path("/etc/subuid").read_text().splitlines())
    return False


def _place(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def run(task: Task, tools: Sequence[str] = TOOLS) -> Outcome:
    """Run the task by the first of `tools` that works here."""
    passed_over: list[str] = []
    for name in tools:
        program = _place(name)
        if program is None:
            passed_over.append(f"{name} is not installed")
            continue
        with tempfile.TemporaryDirectory(prefix="mobuild-sandbox-") as scratch:
            outcome = _TOOLS[name](task, program, Path(scratch))
        if outcome.by:
            return Outcome(name, outcome.status, outcome.output, outcome.seconds, outcome.reason, tuple(passed_over))
        passed_over.append(f"{name}: {outcome.reason}")
    return Outcome("", None, reason="; ".join(passed_over), passed_over=tuple(passed_over))


def _podman(task: Task, program: str, scratch: Path) -> Outcome:
    name = f"mobuild-{uuid.uuid4().hex}"
    runtime = ["--runtime", "runc"] if shutil.which("runc") or Path("/usr/sbin/runc").exists() else []
    store = [program, "--root", f"{scratch}/s", "--runroot", f"{scratch}/r", *runtime]
    # ulimits: podman's own are above the hard limits of a container, within which it cannot raise them (4.3.1)
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    network = [] if task.has_network else ["--network", "none"]
    first, *others = task.command
    if task.layout:
        # podman makes a repository's name of the path as it is written, and refuses capitals, spaces, a last `_`
        folder, _, reference = task.layout.rpartition(":")
        (scratch / "layout").symlink_to(Path(folder).resolve())
        started = ["--entrypoint", json.dumps([first]), f"oci:layout:{reference}", *others]
    else:
        # SELinux lets containers read what podman has labelled, and these files are not.
        started = ["--unsetenv-all", "--security-opt", "label=disable"]
        started += ["--rootfs", str(task.root.resolve()), *task.command]
    words = [
        *store,
        "run",
        "--quiet",
        "--rm",
        "--name",
        name,
        *network,
        "--read-only",
        "--read-only-tmpfs=false",
        *limits,
    ]
    words += ["--tmpfs", f"/tmp:size={_TMPFS_BYTES},mode=1777", "--user", f"{USER}:{USER}", "--cap-drop", "all"]
    words += ["--security-opt", "no-new-privileges", "--http-proxy=false", *_pairs("--env", task.environment)]
    remove = [*store, "rm", "--force", "--time", "0", name]
    try:
        return _ended(task, [*words, *started], _is_podman, scratch, functools.partial(_quietly, remove))
    finally:
        _quietly(remove)
        _quietly([*store, "rmi", "--all", "--force"])
        _wait_for_cleaners(scratch)
        for mount in reversed(_mounts_below(scratch)):  # a killed podman leaves its store mounted on itself
            _quietly(["umount", "--lazy", mount])
        _quietly([*store, "unshare", "rm", "-rf", f"{scratch}/s"] if os.geteuid() else ["rm", "-rf", f"{scratch}/s"])


def _wait_for_cleaners(scratch: Path) -> None:
    """conmon starts a `podman container cleanup` of its own when a container ends: it mounts the store again."""
    deadline = time.monotonic() + _CLEANING_SECONDS
    while time.monotonic() < deadline and any(map(functools.partial(_is_about, scratch), Path("/proc").glob("[0-9]*"))):
        time.sleep(0.02)


def _is_about(scratch: Path, process: Path) -> bool:
    try:
        return os.fsencode(scratch) + b"/" in (process / "cmdline").read_bytes()
    except OSError:  # it has ended, or is another user's
        return False


def _mounts_below(scratch: Path) -> list[str]:
    """Where file systems are mounted below the folder, outer ones first (proc_pid_mountinfo(5))."""
    lines = os.fsdecode(Path("/proc/self/mountinfo").read_bytes()).splitlines()
    places = (re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split(" ")[4]) for line in lines)
    return [place for place in places if place.startswith(f"{scratch}/")]


def _is_podman(status: int, output: str) -> bool:
    """126 is also what comes of a user that the account may not become (no range in /etc/subuid)."""
    is_refused = status == 126 and "Error: OCI runtime error" in output and "process: exec:" not in output
    return status == 125 or is_refused


def _runc(task: Task, program: str, scratch: Path) -> Outcome:
    name = f"mobuild-{uuid.uuid4().hex}"
    rootless = ["--rootless"] if os.geteuid() else []
    made = subprocess.run([program, "spec", *rootless, "-b", str(scratch)], capture_output=True, text=True)
    if made.returncode:
        return Outcome("", None, reason=_last_line(made.stderr))
    config = scratch / "config.json"
    spec = json.loads(config.read_text())
    spec["root"] = {"path": str(task.root.resolve()), "readonly": True}
    spec["process"].update(
        terminal=False,
        user={"uid": USER, "gid": USER},
        args=list(task.command),
        env=[f"{key}={value}" for key, value in task.environment.items()],
        cwd="/",
        noNewPrivileges=True,
        capabilities={},
        rlimits=[],
    )
    spec["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
    if task.has_network:
        spec["linux"]["namespaces"] = [each for each in spec["linux"]["namespaces"] if each["type"] != "network"]
    config.write_text(json.dumps(spec))
    try:
        return _ended(task, [program, "run", "-b", str(scratch), name], _is_runc)
    finally:
        _quietly([program, "delete", "--force", name])


def _is_runc(status: int, output: str) -> bool:
    is_said = "runc run failed" in output or "level=error" in output
    return status != 0 and is_said and "unable to start container process: exec:" not in output


def _bwrap(task: Task, program: str, scratch: Path) -> Outcome:
    words = [program, "--unshare-all", *(["--share-net"] if task.has_network else []), "--die-with-parent"]
    words += ["--new-session", "--ro-bind", str(task.root.resolve()), "/", "--proc", "/proc", "--dev", "/dev"]
    words += ["--tmpfs", "/tmp", "--uid", str(USER), "--gid", str(USER), "--chdir", "/", "--clearenv"]
    for key, value in task.environment.items():
        words += ["--setenv", key, value]
    return _ended(task, [*words, *task.command], _is_bwrap)


def _is_bwrap(status: int, output: str) -> bool:
    return status != 0 and output.startswith("bwrap: ") and not output.startswith("bwrap: execvp ")


def _chroot(task: Task, program: str, scratch: Path) -> Outcome:
    if os.geteuid():
        return Outcome("", None, reason="needs root")
    unshare = shutil.which("unshare")
    if unshare is None:
        return Outcome("", None, reason="unshare is not installed")
    # Without /proc, ONNX Runtime does not know the CPU, and takes slow kernels.
    steps = 'set -e; cd "$1"; mount --bind . "$1"; cd "$1"; mount -o remount,bind,ro .; mount -t proc proc proc; '
    steps += 'mount -t tmpfs -o mode=1777 tmpfs tmp; chroot=$2; root=$1; shift 2; exec env -i "$@"'
    spaces = ["--mount", "--pid", "--fork", "--kill-child", *([] if task.has_network else ["--net"])]
    variables = [f"{key}={value}" for key, value in task.environment.items()]
    inner = [*variables, program, f"--userspec={USER}:{USER}", ".", *task.command]
    words = [unshare, *spaces, "sh", "-c", steps, "sh", str(task.root.resolve()), program, *inner]
    prefixes = ("unshare: ", "mount: ", "chroot: ", "sh: ")
    return _ended(task, words, lambda status, output: status != 0 and output.startswith(prefixes))


_TOOLS: Mapping[str, Callable[[Task, str, Path], Outcome]] = {
    "podman": _podman,
    "runc": _runc,
    "bwrap": _bwrap,
    "chroot": _chroot,
}


def _ended(
    task: Task,
    words: Sequence[str],
    is_own: Callable[[int, str], bool],
    folder: Path | None = None,
    end: Callable[[], None] | None = None,
) -> Outcome:
    """Run the words, in `folder` where one is given; `is_own` says of a status and the output that the tool failed, and
    not the command. A tool killed while it starts a container would lose it: `end` ends the container, and so the tool.
    """
    begin = time.monotonic()
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in _OF_REGISTRIES},
        )
        try:
            status: int | None = process.wait(task.timeout_seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            deadline = time.monotonic() + _ENDING_SECONDS
            while end is not None and process.poll() is None and time.monotonic() < deadline:
                end()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _OUTPUT_BYTES))
        output = file.read().decode("utf-8", "replace")
    seconds = time.monotonic() - begin
    if status is None:
        return Outcome("it", None, output, seconds, f"did not end within {task.timeout_seconds:g} s")
    if is_own(status, output):
        return Outcome("", None, reason=_last_line(output) or f"ended with status {status}")
    return Outcome("it", status, output, seconds)


def _pairs(option: str, environment: Mapping[str, str]) -> Iterable[str]:
    for key, value in environment.items():
        yield from (option, f"{key}={value}")


def _quietly(words: Sequence[str]) -> None:
    """Clean up after a tool; what is not there is clean."""
    subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CLEANING_SECONDS, check=False)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
