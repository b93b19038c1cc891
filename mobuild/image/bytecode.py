"""Byte code for a layer, by the Python of the image itself: a read-only image would compile at each start.

The interpreter is taken from its Debian packages and started through its own dynamic loader, so that the same
packages give the same byte code on every machine. Checked by nothing at run time (PEP 552, unchecked-hash): times
in an image say nothing. Modules go to it and byte code comes back through pipes, since thousands of small files take
a disk longer than compiling them.
"""

from __future__ import annotations

import marshal
import platform
import subprocess
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Iterable

from mobuild.errors import NodeFailed
from mobuild.image import debian
from mobuild.image.tree import Tree

_NEEDED = ("libc6", "zlib1g", "libexpat1", "python3.11-minimal", "libpython3.11-minimal")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_PROGRAM = "usr/bin/python3.11"
_LIBRARIES = "usr/lib/*-linux-gnu/"
_LINKED = ("ld-linux*.so.*", "libc.so.6", "libm.so.6", "libz.so.1*", "libexpat.so.1*")
_KEPT = (_PROGRAM, *(f"{_LIBRARIES}{name}" for name in _LINKED))
_ENCODINGS = "usr/lib/python3.11/encodings/"  # all of its library that is needed to start and to read sources
_TAG = "cpython-311"
_COMPILES = """
import marshal, sys
import _frozen_importlib_external as files, _imp
def compiled(path, source):
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except Exception:
        return b""
    return bytes(files._code_to_hash_pyc(code, _imp.source_hash(files._RAW_MAGIC_NUMBER, source), False))
found = [compiled(*each) for each in marshal.loads(sys.stdin.buffer.read())]
sys.stdout.buffer.write(marshal.dumps(found, 2))
"""


def cannot(architecture: str) -> str:
    """Why this machine cannot run the image's Python; empty when it can."""
    needed = _MACHINES[architecture]
    if platform.system() == "Linux" and platform.machine() == needed:
        return ""
    return f"no byte code in the image, which starts slower: its Python is for {needed}, this is {platform.machine()}"


def compile_all(tree: Tree, debs: Iterable[Path], scratch: Path) -> None:
    """Add the byte code of each module in `tree` that compiles: templates, and tests of old syntax, do not."""
    modules: list[tuple[str, bytes]] = []
    for entry in tree.entries():
        if entry.path.endswith(".py") and entry.content is not None:
            source = entry.content if isinstance(entry.content, bytes) else entry.content.read_bytes()
            modules.append((f"/{entry.path}", source))
    if not modules:
        return
    _interpreter(debs, scratch)
    codes = _compiled(scratch, modules)
    if not any(codes):
        raise NodeFailed("image: the Python of the image compiles nothing")
    for (path, _), code in zip(modules, codes):
        if code:
            module = PurePosixPath(path[1:])
            tree.file(f"{module.parent}/__pycache__/{module.stem}.{_TAG}.pyc", code)


def _interpreter(debs: Iterable[Path], folder: Path) -> None:
    tree = Tree()
    needed = [deb for deb in debs if deb.name.split("_")[0] in _NEEDED]
    debian.unpack(needed, tree, lambda path: path.startswith(_ENCODINGS) or _is_kept(path))
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "python311.zip", "w") as library:
        for entry in tree.entries():
            path = folder / entry.path
            if entry.is_folder:
                path.mkdir(parents=True)
            elif entry.target:
                path.symlink_to(entry.target)
            elif entry.path.startswith(_ENCODINGS):
                assert isinstance(entry.content, bytes)
                library.writestr(zipfile.ZipInfo(f"encodings/{path.name}"), entry.content)
            else:
                assert isinstance(entry.content, bytes)
                path.write_bytes(entry.content)
                path.chmod(entry.mode)


def _is_kept(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in _KEPT)


def _compiled(python: Path, modules: list[tuple[str, bytes]]) -> list[bytes]:
    """The byte code of each (path in the image, source); empty where it does not compile.

    Raises:
        NodeFailed: the interpreter does not run.
    """
    libraries = next((python / "usr/lib").glob("*-linux-gnu"))
    loader = next(libraries.glob("ld-linux*.so.*"))
    command = [str(loader), "--library-path", str(libraries), str(python / _PROGRAM), "-S", "-s", "-c", _COMPILES]
    # Marshalled sets come in the order of their hashes.
    variables = {"PYTHONHOME": str(python / "usr"), "PYTHONPATH": str(python / "python311.zip"), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=variables, input=marshal.dumps(modules, 2), capture_output=True, check=False)
    if done.returncode:
        raise NodeFailed(
            f"image: the Python of the image does not compile: status {done.returncode}",
            done.stderr.decode("utf-8", "replace").strip(),
        )
    found: list[bytes] = marshal.loads(done.stdout)
    return found
