"""The command line that runs a worker in a container, through podman or docker.

Every path is the same inside as outside. The project, the inputs and mobuild's own package are mounted to be read, the
places of the artifact and of the job to be written; of the variables outside only secrets are passed on.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mobuild.container import Container
from mobuild.errors import ToolchainError
from mobuild.executors.job import Job
from mobuild.firstparty import PACKAGE
from mobuild.observers.environment import is_secret

_PROGRAMS = ("podman", "docker")
_OWN_FAILURE = (125, 126, 127)  # podman-run(1), docker-run(1): theirs; no program; no such program
_SHOWN_LINES = 4
HERE = "@HERE@"  # stands for a folder that the script which runs the words is in


def program(container: Container) -> list[str]:
    """The words that run images here.

    Raises:
        ToolchainError: neither is installed.
    """
    words = list(container.program) or [name for name in _PROGRAMS if shutil.which(name)][:1]
    if not words or not shutil.which(words[0]):
        missing = f"{words[0]!r} is not" if words else "neither podman nor docker is"
        raise ToolchainError(
            f"image {container.image!r}: {missing} on PATH, and images need one of them",
            "install podman, or let the nodes run under an interpreter here: toolchain.python=./venv/bin/python",
        )
    return words


def run(container: Container, job: Job, writable: Sequence[Path], name: str, variables: Mapping[str, str]) -> list[str]:
    """The words before those for the Python in the image. `writable` are folders beside the artifact's; `name` is what
    the container is called, so that it can be removed."""
    libraries = [Path(value).resolve().parent for value in variables.values() if value.endswith(".so")]
    reads = dict.fromkeys(map(str, [*_reads(job), *libraries]))
    writes = [*map(str, writable), str(Path(job.out).parent), *([job.scratch] if Path(job.scratch).is_dir() else [])]
    given = [f"--env={key}={value}" for key, value in {"PYTHONHASHSEED": "0", **variables}.items()]
    passed = [f"--env={key}" for key in sorted(os.environ) if is_secret(key, job.secrets)]
    return [*_run(container, name), *_mounts(reads, writes), *given, *passed, *_image(container, job.project)]


def again(container: Container, job: Job) -> list[str]:
    """The same for a failed job that lies in the folder `HERE`, on a terminal."""
    terminal = ["--interactive", "--tty"] if sys.stdin.isatty() else ["--interactive"]
    staged = Path(job.out).parents[1]  # what was in there lies in HERE now
    reads = [str(path) for path in _reads(job) if not path.is_relative_to(staged)]
    mounts = _mounts(dict.fromkeys(reads), [HERE])
    return [*_run(container, ""), *terminal, *mounts, *_image(container, job.project)]


def removal(container: Container, name: str) -> list[str]:
    """The words that end and remove a container which may still run."""
    return [*program(container), "rm", "--force", name]


def failure(container: Container, node: str, code: int, log: Path) -> ToolchainError:
    """A container that ended with a status before its worker reported anything."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    what = "cannot be run" if code in _OWN_FAILURE else f"its {container.python!r} ended with status {code}"
    return ToolchainError(
        f"node {node!r}: image {container.image!r}: {what}",
        "\n".join([line for line in lines if line.strip()][-_SHOWN_LINES:]),
    )


def _run(container: Container, name: str) -> list[str]:
    words = [*program(container), "run", "--rm", "--stop-timeout=0", *([f"--name={name}"] if name else [])]
    is_podman = "podman" in Path(words[0]).name
    if is_podman:
        words.append("--security-opt=label=disable")  # SELinux keeps containers from mounts without its labels
    if os.geteuid():  # files of the artifact belong to who builds
        words += ["--userns=keep-id"] if is_podman else [f"--user={os.getuid()}:{os.getgid()}"]
        words.append("--env=HOME=/tmp")
    return words


def _image(container: Container, folder: str) -> list[str]:
    return [f"--workdir={folder}", *container.options, f"--entrypoint={container.python}", container.image]


def _reads(job: Job) -> Iterator[Path]:
    yield from (Path(PACKAGE), Path(job.project), Path(job.folder))
    for text in job.inputs.values():
        path = Path(text)
        if path.is_symlink():  # into the store, beside the other inputs
            yield from (path.parent, path.resolve())
        elif path.is_dir():
            yield path
            inside = (each.resolve() for each in path.rglob("*") if each.is_symlink())
            yield from (target for target in inside if target.exists() and not target.is_relative_to(path))
        else:
            yield path.parent if path.suffix == ".onnx" else path  # a model's data lies beside it


def _mounts(reads: Mapping[str, None], writes: Sequence[str]) -> Iterator[str]:
    for path in dict.fromkeys(writes):
        yield f"--mount={_fields('type=bind', f'source={path}', f'target={path}')}"
    for path in reads:
        if path not in writes:
            yield f"--mount={_fields('type=bind', f'source={path}', f'target={path}', 'readonly')}"


def _fields(*fields: str) -> str:
    """One line of CSV, as both programs read it: a path may have a comma in it."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
