"""The answers of this machine. Standard library only, so that a bare Python can record them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mobuild.distributions import installed
from mobuild.doctor import open_cuda
from mobuild.doctor.machine import ABSENT, Machine

_SECONDS = 60  # a broken driver hangs; a healthy one answers within seconds on eight cards
_RELEVANT = re.compile(r"nvidia-|cuda|cupy|tensorrt|torch|triton|onnxruntime|vllm|jax")
_BUILT_FOR = (  # how a distribution's metadata names its CUDA, the most precise first
    re.compile(r"^Requires-Dist: *cuda-toolkit(?:\[[^]]*\])? *\(?[=~]=(\d+\.\d+)", re.MULTILINE),
    re.compile(r"^Requires-Dist: *nvidia-cuda-runtime(?:-cu\d+)? *\(?[=~]=(\d+(?:\.\d+)?)", re.MULTILINE),
)
_BUNDLED = re.compile(r"\.libs/libcudart[^,]*\.so\.(\d+)")  # auditwheel: libcudart-c3a75b33.so.12

_LIBRARIES = re.compile(r"lib(cuda|cublas|cudnn|cufft|curand|nvinfer|nvonnxparser|nvidia)")
_CACHED = re.compile(r"^\s*(\S+) \(.*\) => (\S+)$", re.MULTILINE)


def this_machine() -> Machine:
    return Machine(answer)


def answer(question: str, words: tuple[str, ...]) -> Any:
    """The answer to a question of `Machine`; None for what is absent or cannot be read."""
    try:
        return _ANSWERS[question](*words)
    except OSError:
        return None


def _text(path: str) -> str:
    return Path(path).read_text(errors="replace")


def _names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def _real(path: str) -> str | None:
    return str(Path(path).resolve()) if Path(path).exists() else None


def _access(path: str) -> str | None:
    if not Path(path).exists():
        return None
    return "yes" if os.access(path, os.R_OK | os.W_OK) else "denied"


def _which(program: str) -> str | None:
    found = shutil.which(program)
    return str(Path(found).resolve()) if found else None


def _run(*words: str) -> dict[str, Any]:
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        return {"status": ABSENT}
    try:
        out, err = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # and no waiting: a process inside of a broken driver does not end
        return {"status": -1, "err": f"no answer within {_SECONDS} s"}
    return {"status": process.returncode, "out": out, "err": err}


def _room(folder: str) -> list[int]:
    usage = shutil.disk_usage(folder)
    return [usage.total, usage.free]


def _size(folder: str) -> int:
    return sum(path.lstat().st_size for path in Path(folder).rglob("*") if path.is_file())


def _processors() -> list[int]:
    return [os.cpu_count() or 1, len(os.sched_getaffinity(0))]


def _site_folders() -> list[str]:
    return [path for path in sys.path if Path(path).is_dir() and path.endswith(("site-packages", "dist-packages"))]


def _packages() -> dict[str, dict[str, str]]:
    folders = _site_folders()
    found = {name: version for name, version in installed(folders).items() if _RELEVANT.search(name)}
    return {name: {"version": version, "cuda": _cuda(folders, name, version)} for name, version in found.items()}


def _cuda(folders: list[str], name: str, version: str) -> str:
    """The CUDA of a wheel: by its name, its version's tag, its needs, or the runtime that it bundles."""
    if tag := re.search(r"-cu(\d\d)$", name) or re.search(r"\+cu(\d\d)(\d*)", version):
        return ".".join(part for part in tag.groups() if part)
    for folder in folders:
        for info in Path(folder).glob(f"{name.replace('-', '[-_.]')}-{version}.dist-info"):
            for pattern in _BUILT_FOR:
                if needed := pattern.search(_content(info / "METADATA")):
                    return needed[1]
            if bundled := _BUNDLED.search(_content(info / "RECORD")):
                return bundled[1]
    return ""


def _content(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _known_libraries() -> dict[str, str]:
    """Of the loader's cache (`ldconfig -p`), what has to do with CUDA: file → real path."""
    found = _CACHED.findall(_run("/sbin/ldconfig", "-p").get("out", ""))
    return {name: _real(path) or path for name, path in found if _LIBRARIES.match(name)}


def _opened(*runtimes: str) -> Any:
    """In a process of its own: a broken driver may hang, print, or end the process."""
    done = _run(sys.executable, "-I", open_cuda.__file__, *runtimes)
    try:
        return json.loads(done.get("out", "").splitlines()[-1])
    except (ValueError, IndexError):
        last = (done.get("err") or "").strip().splitlines()
        return {"crash": last[-1] if last else f"ended with status {done['status']}"}


_ANSWERS: dict[str, Callable[..., Any]] = {
    "text": _text,
    "names": _names,
    "real": _real,
    "access": _access,
    "which": _which,
    "run": _run,
    "variable": os.environ.get,
    "room": _room,
    "size": _size,
    "processors": _processors,
    "site_folders": _site_folders,
    "packages": _packages,
    "known_libraries": _known_libraries,
    "opened": _opened,
}
