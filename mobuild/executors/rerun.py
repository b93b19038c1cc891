"""A failed job as files that a person can run again: `rerun.sh`, beside the inputs and what the node wrote.

Paths below the folder are written relative to it. Values of secrets are written nowhere: the caller's
environment has them, or has not; URLs lose their credentials.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mobuild.container import Container
from mobuild.executors import container
from mobuild.executors.job import Job
from mobuild.executors.process import LOADER
from mobuild.fetch.uris import scrubbed
from mobuild.observers.environment import is_secret, secret_values

_RERUN_SH = """\
#!/bin/sh
# Runs node {node} again: its inputs are in in/, and what it writes goes to out/, never to the cache.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit
[ -n "$MOBUILD_SHELL" ] || . "$here/environment.sh"
exec "$here/bin/python" -u -X faulthandler "$here/rerun.py"
"""
_RERUN_PY = """\
# Runs the node of job.json again in this process: ./rerun.sh, or python -m pdb rerun.py
import os, sys
from pathlib import Path

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
"""
_BESIDE = '#!/bin/sh\nexec {} "$@"\n'
_OF_A_SHELL = ("_", "PWD", "OLDPWD", "SHLVL", "LINES", "COLUMNS", "TERM", "SHELL")
_READ_ONLY = ("UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS")
_CREDENTIALS = re.compile(r"://[^/\s]*@")


def write(folder: Path, job: Job, python: Path, environ: Mapping[str, str], image: Container | None = None) -> None:
    """Put the files that run `job` again under `python` into `folder`, where its inputs and output lie."""
    (folder / "bin").mkdir()
    (folder / "job.json").write_text(scrubbed(json.dumps(_relative(job.document(), folder), indent=1)))
    (folder / "environment.sh").write_text(_environment(environ, job.secrets), "utf-8", "surrogateescape")
    (folder / "rerun.py").write_text(
        f"{_RERUN_PY}{LOADER}from mobuild import worker\nsys.exit(worker.again(Path(here)))\n"
    )
    _write_program(folder / "rerun.sh", _RERUN_SH.format(node=ascii(job.name)))
    # A script and no link: a virtual environment is found by the path of its interpreter.
    _write_program(
        folder / "bin" / "python", _inside(image, job) if image else _BESIDE.format(shlex.quote(str(python)))
    )


def _inside(image: Container, job: Job) -> str:
    """A script that is the Python of the image, with the folder above it mounted."""
    parts = [word.split(container.HERE) for word in container.again(image, job)]
    words = " ".join('"$here"'.join(map(shlex.quote, each)) for each in parts)
    return f"""#!/bin/sh\nhere=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit\nexec {words} "$@"\n"""


def _relative(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    def inside(path: str) -> str:
        return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path

    inputs = {role: inside(path) for role, path in document["inputs"].items()}
    known = [inside(path) for path in document["known_files"]]
    return {**document, "inputs": inputs, "out": inside(document["out"]), "known_files": known}


def _environment(environ: Mapping[str, str], more: tuple[str, ...]) -> str:
    """A script for sh that sets the variables of the build; whoever reads it has the folder in `$here`."""
    secrets = secret_values(environ, more)
    lines, left = [], []
    for name, value in sorted(environ.items()):
        if name in _OF_A_SHELL + _READ_ONLY or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            continue
        if is_secret(name, more) or _CREDENTIALS.search(value) or any(secret in value for secret in secrets):
            left.append(name)
        else:
            lines.append(f"export {name}={shlex.quote(value)}")
    if left:
        lines.insert(0, f"# Left to the caller, since they may hold secrets: {' '.join(left)}")
    return "\n".join([*lines, 'export PATH="$here/bin:$PATH"', ""])


def _write_program(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", "surrogateescape")
    path.chmod(0o700)
