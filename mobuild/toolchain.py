"""Which Python builds, and which distributions it has: what the toolchain part of a key is made of.

Looks from outside: no package of the environment is imported, neither here nor in the other
interpreter, which is asked only for its version and its module search path.
"""

from __future__ import annotations

import json
import os
import signal
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.distributions import Providers, editable_trees, installed, normalized, provider_of
from mobuild.errors import ToolchainError
from mobuild.fingerprint import digest_bytes
from mobuild.firstparty import is_installed
from mobuild.interpreters import ABSENT, REMEDY
from mobuild.signals import signal_name

OLDEST = (3, 8)

# Runs under whatever was named, so it is written for Python 2.7 as well: an old one has to get as far
# as saying what it is.
_PROBE = """
import json, site, sys
version, paths = "%d.%d.%d" % sys.version_info[:3], [p for p in sys.path if p]
mine = site.getusersitepackages() if getattr(site, "ENABLE_USER_SITE", None) else ""
print("\\n" + json.dumps({"version": version, "paths": paths, "mine": mine}))
"""
_PROBE_SECONDS = 60


@dataclass(frozen=True)
class Environment:
    """One interpreter and what is installed for it."""

    python: Path
    version: str  # "3.11.7"
    paths: tuple[str, ...]  # its module search path, without the working directory
    distributions: Mapping[str, str]  # normalised name → version
    modules: Mapping[str, str]  # top-level module → normalised name of its distribution
    files: tuple[str, ...] = ()  # what decided, beyond those above, that this one is meant
    variables: tuple[str, ...] = ()


def host() -> Environment:
    """The environment that mobuild itself runs in, as a worker under this interpreter sees it."""
    mine = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    return _environment(Path(sys.executable), ".".join(map(str, sys.version_info[:3])), _host_paths(), mine)


def probe(python: Path, cache: Path, oldest: tuple[int, ...] = OLDEST, seconds: float = _PROBE_SECONDS) -> Environment:
    """The environment of another interpreter; its answer is kept in the folder `cache` until the
    interpreter, its `pyvenv.cfg` or one of its package folders changes.

    Raises:
        ToolchainError: there is no such interpreter, it fails, or it is older than `oldest`.
    """
    # not resolved: a virtual environment's python is a link
    python = Path(os.path.abspath(python))  # noqa: PTH100
    if not python.is_file():
        raise ToolchainError(f"python {str(python)!r}: there is no such file", ABSENT)
    kept = cache / f"{digest_bytes(os.fsencode(python))}.json"
    document: Any = _remembered(kept, python)
    if document is None:
        document = _ask(python, seconds)
        document["tokens"] = _tokens(python, document)
        _keep(kept, document)
    _check_version(python, document["version"], oldest)
    return _environment(python, document["version"], tuple(document["paths"]), document["mine"])


def versions(environment: Environment, tools: Sequence[str]) -> dict[str, str]:
    """Version of each distribution in `tools`, `-` where it is not installed; `python` is the
    interpreter's own. What another one stands in for has its name as well: `onnxruntime-gpu 1.32.0`."""
    known = {**environment.distributions, "python": environment.version}
    return {tool: _version(normalized(tool), known) for tool in tools}


def _version(tool: str, known: Mapping[str, str]) -> str:
    found = provider_of(tool, known)
    return known[found] if found == tool else f"{found} {known[found]}" if found else "-"


def _environment(python: Path, version: str, paths: tuple[str, ...], mine: str) -> Environment:
    """`mine` is the user's own folder of packages, which the first `pip install --user` makes; empty without one."""
    everywhere = (*paths, *editable_trees(paths))
    return Environment(python, version, everywhere, installed(paths), Providers(paths), (mine,) if mine else ())


def _host_paths() -> tuple[str, ...]:
    """`sys.path` without what the command line put first: the script's folder or the working one."""
    asked = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    script = str(Path(sys.argv[0]).absolute().parent) if sys.argv and sys.argv[0] else ""
    extra = {"", script, str(Path.cwd())} - set(asked)
    first = [entry for entry in sys.path[:1] if entry not in extra]
    return tuple(entry for entry in [*first, *sys.path[1:]] if entry)


def _ask(python: Path, seconds: float) -> dict[str, object]:
    status, text, complaint = _answer(python, seconds)
    if status:
        said = complaint.strip().splitlines()[-1:]
        raise ToolchainError(
            f"python {str(python)!r}: asked for its version, it {_ended(status)}"
            + "".join(f": {line}" for line in said),
            REMEDY,
        )
    return _parsed(python, text)


def _ended(status: int) -> str:
    return f"ended with status {status}" if status > 0 else f"was killed by {signal_name(-status)}"


def _answer(python: Path, seconds: float) -> tuple[int, str, str]:
    """Status, output and errors of the probe; on a timeout all that it started ends with it, wrappers' children too."""
    try:
        asked = subprocess.Popen(
            [str(python), "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise ToolchainError(f"python {str(python)!r} cannot be started: {error.strerror}", REMEDY) from error
    with asked:
        try:
            out, err = asked.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            os.killpg(asked.pid, signal.SIGKILL)
            raise ToolchainError(f"python {str(python)!r}: no answer in {seconds:g} s", REMEDY) from error
    return asked.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def _parsed(python: Path, text: str) -> dict[str, object]:
    try:
        found = json.loads(text.strip().splitlines()[-1])  # a sitecustomize may print before
        return {"version": found["version"], "paths": found["paths"], "mine": found.get("mine", "")}
    except (ValueError, IndexError, TypeError, KeyError) as error:
        raise ToolchainError(
            f"{str(python)!r} is no Python: expected its version, found {text.strip()[-60:]!r}", REMEDY
        ) from error


def _check_version(python: Path, version: object, oldest: tuple[int, ...]) -> None:
    if tuple(map(int, str(version).split(".")[:2])) < oldest:
        raise ToolchainError(
            f"python {str(python)!r}: expected Python {OLDEST[0]}.{OLDEST[1]} or newer, found {version}",
            "make an environment with a newer Python for the model; a command can name an older one in cmd",
        )


def _remembered(kept: Path, python: Path) -> dict[str, object] | None:
    try:
        document = json.loads(kept.read_bytes())
        fresh = document["tokens"] == _tokens(python, document)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # not asked yet, or a damaged file: ask again
    return dict(document) if fresh else None


def _keep(kept: Path, document: Mapping[str, object]) -> None:
    if not kept.parent.is_dir():  # who only looks leaves no cache behind
        return
    partial = kept.with_name(f"{kept.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(document))
    partial.replace(kept)


def _tokens(python: Path, answer: Mapping[str, Any]) -> dict[str, str]:
    """What decides the answer: the interpreter, its configuration (conda writes to `conda-meta` whatever it changes),
    package folders, the user's own before it is there, their `.pth` files, and the variable that adds to the path."""
    mine = [answer["mine"]] if answer["mine"] else []
    folders = [Path(path) for path in dict.fromkeys([*answer["paths"], *mine]) if is_installed(path)]
    links = [link for folder in folders if folder.is_dir() for link in sorted(folder.glob("*.pth"))]
    prefix = python.parent.parent
    files = [python, prefix / "pyvenv.cfg", prefix / "conda-meta", *folders, *links]
    return {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **{str(file): _token(file) for file in files}}


def _token(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "-"
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
