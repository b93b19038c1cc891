"""Makes the environment of a locked requirement set, once a machine.

It lies in the cache's folder of this machine, under the digest of the set and of the interpreter that it is made with.
A mark is put into it last: what has none was left by a process that died, and is made anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from mobuild.distributions import installed
from mobuild.errors import NodeFailed, ToolchainError
from mobuild.executors.process import watchdog
from mobuild.locked import Locked
from mobuild.store import locks
from mobuild.toolchain import Environment

_MARK = "mobuild.json"
_ASK_SECONDS = 0.2
_SHOWN_LINES = 4
_OFFLINE = ("NewConnectionError", "Name or service not known", "name resolution", "Connection refused", "timed out")


def ensure(wanted: Locked, base: Environment, folder: Path, log: Path, called_off: threading.Event) -> Path:
    """The interpreter of the environment in `folder`, which is made when it is not there yet.

    Raises:
        ToolchainError: it cannot be made: no network, no such version, a set that is not complete.
        NodeFailed: it was called off.
    """
    place = folder / wanted.digest(base)
    mark, python = place / _MARK, place / "bin/python"
    with locks.held(place.with_suffix(".lock"), called_off, lambda: None):
        if not mark.is_file():
            shutil.rmtree(place, ignore_errors=True)
            _make(wanted, base, place, log, called_off)
            mark.write_text(json.dumps({"made_of": str(wanted.file), "pins": dict(wanted.pins)}))
        os.utime(place)  # gc takes what was not used for long
    return python


def _make(wanted: Locked, base: Environment, place: Path, log: Path, called_off: threading.Event) -> None:
    what = f"the environment of '{wanted.file}' cannot be made"
    log.parent.mkdir(parents=True, exist_ok=True)
    pip = _pip(base, place)
    without = ["--without-pip"] if "--python" in pip else []
    _run([str(base.python), "-m", "venv", *without, str(place)], what, log, called_off)
    hashes = ["--require-hashes"] if wanted.has_hashes else []
    # Without dependencies: what the set does not name would come in a version that nothing pins.
    _run([*pip, "install", "--no-deps", *hashes, "-r", str(wanted.file)], what, log, called_off)
    _run([*pip, "check"], f"'{wanted.file}' is not complete", log, called_off)
    found = installed([str(path) for path in place.glob("lib/python*/site-packages")])
    other = [f"{name}=={found.get(name, '-')}" for name, version in wanted.pins.items() if found.get(name) != version]
    if other:
        raise ToolchainError(
            f"'{wanted.file}': versions are called otherwise once they are installed: {', '.join(other)}",
            "write them so: keys and conditions compare them as text",
        )


def _pip(base: Environment, place: Path) -> list[str]:
    """mobuild's own pip works for another environment of the same Python; to install one into it takes far longer."""
    is_ours = find_spec("pip") is not None and base.version == ".".join(map(str, sys.version_info[:3]))
    python = str(place / "bin/python")
    words = [sys.executable, "-m", "pip", "--python", python] if is_ours else [python, "-m", "pip"]
    return [*words, "--disable-pip-version-check", "--no-input"]


def _run(command: list[str], what: str, log: Path, called_off: threading.Event) -> None:
    with log.open("ab") as stream:
        begin = stream.tell()
        process = subprocess.Popen(
            command,
            cwd="/" if "venv" in command else log.parent,
            env=_variables(),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    guard = watchdog(process.pid)
    try:
        while process.poll() is None:
            if called_off.wait(_ASK_SECONDS):
                os.killpg(process.pid, 9)
                process.wait()
                raise NodeFailed(f"{what}: cancelled")
    finally:
        guard.kill()
        guard.communicate()
    if process.returncode:
        said = log.read_bytes()[begin:].decode(errors="replace")
        lines = [line for line in said.splitlines() if line.strip() and not line.startswith("[notice]")]
        offline = any(word in said for word in _OFFLINE)
        raise ToolchainError(
            f"{what}{': the package index cannot be reached' * offline}",
            "\n".join(
                [*(["name another by PIP_INDEX_URL, or wheels by PIP_FIND_LINKS"] * offline), *lines[-_SHOWN_LINES:]]
            ),
            str(log),
        )


def _variables() -> Mapping[str, str]:
    """Without what would let packages of elsewhere in."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIREMENT", "PIP_CONSTRAINT")
    return {name: value for name, value in os.environ.items() if name not in left_out}
