"""A container image of the host's Python, made without a registry, for what runs images here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

# podman's own choice of runtime and its default limits are refused where control groups and limits are the container's.
PODMAN = "podman --root {store} --runroot {run} --runtime runc"
OPTIONS = ["--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]
_SYSTEM = Path("/usr/bin/python3")
_LEFT_OUT = ("__pycache__", "test", "idlelib", "tkinter", "lib2to3", "ensurepip", "dist-packages", "config-3")


def needs_podman() -> pytest.MarkDecorator:
    missing = [name for name in ("podman", "runc") if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def make(folder: Path) -> tuple[str, str]:
    """The program that has the image, and the image by its digest."""
    program = PODMAN.format(store=folder / "store", run=folder / "run")
    root, archive = folder / "root", folder / "root.tar"
    for name in ("tmp", "proc", "dev", "sys", "usr/bin", "usr/lib", "usr/lib64"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for path in _files():
        place = root / str(path.parent.resolve() / path.name).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    _run(program, "import", "--change", "ENV=PATH=/usr/bin:/bin", str(archive), "localhost/mobuild-test:1")
    shutil.rmtree(root)
    archive.unlink()
    found = json.loads(_run(program, "image", "inspect", "localhost/mobuild-test:1"))[0]
    return program, f"localhost/mobuild-test@{found['Digest']}"


def remove(folder: Path, program: str) -> None:
    """The store may have mounts, so podman empties it first; `system reset` would touch other stores as well."""
    subprocess.run([*program.split(), "rmi", "--all", "--force"], capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def _files() -> set[Path]:
    said = subprocess.run([_SYSTEM, "-c", "import os; print(os.__file__)"], capture_output=True, text=True).stdout
    library = Path(said).parent
    kept = (path for path in library.rglob("*") if not any(part.startswith(_LEFT_OUT) for part in path.parts))
    modules = {path for path in kept if path.is_file()}
    programs = {Path("/bin/sh").resolve(), _SYSTEM.resolve(), *(Path(f"/usr/bin/{name}") for name in ("cat", "cp"))}
    libraries = {needed for path in (*programs, *library.glob("lib-dynload/*.so")) for needed in _needed(path)}
    return modules | programs | libraries | {_SYSTEM, Path("/bin/sh")}


def _needed(program: Path) -> list[Path]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", said)]


def _run(program: str, *words: str) -> str:
    done = subprocess.run([*program.split(), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
