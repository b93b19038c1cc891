"""Byte code for a layer, by the Python of the image itself: a read-only image would compile at each start.

The interpreter is taken from its Debian packages and started through its own dynamic loader, so that the same
packages give the same byte code on every machine. Checked by nothing at run time (PEP 552, unchecked-hash): times
in an image say nothing.
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Iterable

from mobuild.errors import NodeFailed
from mobuild.image import debian
from mobuild.image.tree import Tree

_NEEDED = ("libc6", "zlib1g", "libexpat1", "python3.11-minimal", "libpython3.11-minimal")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def cannot(architecture: str) -> str:
    """Why this machine cannot run the image's Python; empty when it can."""
    needed = _MACHINES[architecture]
    if platform.system() == "Linux" and platform.machine() == needed:
        return ""
    return f"no byte code in the image, which starts slower: its Python is for {needed}, this is {platform.machine()}"


def compile_all(tree: Tree, debs: Iterable[Path], scratch: Path) -> None:
    """Add the byte code of each module in `tree`; its files lie in `scratch` until the layer is written."""
    python, stage = scratch / "python", scratch / "stage"
    _interpreter(debs, python)
    stage.mkdir(parents=True)
    for entry in list(tree.entries()):
        if entry.path.endswith(".py") and entry.content is not None:
            path = stage / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.content if isinstance(entry.content, bytes) else entry.content.read_bytes())
    _run(python, stage)
    compiled = sorted(stage.rglob("*.pyc"))
    for path in compiled:
        tree.file(path.relative_to(stage).as_posix(), path)


def _interpreter(debs: Iterable[Path], folder: Path) -> None:
    tree = Tree()
    needed = [deb for deb in debs if deb.name.split("_")[0] in _NEEDED]
    debian.unpack(needed, tree, lambda path: path.startswith(("usr/lib", "usr/bin")) and "/gconv/" not in path)
    for entry in tree.entries():
        path = folder / entry.path
        if entry.is_folder:
            path.mkdir(parents=True)
        elif entry.target:
            path.symlink_to(entry.target)
        else:
            assert isinstance(entry.content, bytes)
            path.write_bytes(entry.content)
            path.chmod(entry.mode)


def _run(python: Path, stage: Path) -> None:
    libraries = next((python / "usr/lib").glob("*-linux-gnu"))
    loader = next(libraries.glob("ld-linux*.so.*"))
    words = [
        "-S",
        "-s",
        "-m",
        "compileall",
        "-qq",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        str(stage),
        "-p",
        "/",
    ]
    command = [str(loader), "--library-path", str(libraries), str(python / "usr/bin/python3.11"), *words, str(stage)]
    # Marshalled sets come in the order of their hashes.
    variables = {"PYTHONHOME": str(python / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    # 1: some module does not compile, as templates and tests of old syntax do; the others did.
    if done.returncode not in (0, 1) or (not any(stage.rglob("*.pyc")) and any(stage.rglob("*.py"))):
        raise NodeFailed(f"image: the Python of the image compiles nothing: {(done.stdout + done.stderr).strip()}")
