"""Builds one node in one process, watched: a job document goes in, a result document comes out.

Plain Python 3.8 and the standard library, so that it runs under the user's interpreter as well as under
mobuild's own. Starting, waiting, killing and retrying are the executor's; this module only knows how to
build and how to say what happened.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from mobuild import blame, scratch, usercode
from mobuild.errors import MobuildError, NothingMade
from mobuild.firstparty import PACKAGE, search_path
from mobuild.node import Built, decode
from mobuild.observers import modules, native
from mobuild.observers.watch import Watch

_PR_SET_PDEATHSIG = 1  # prctl(2)
_SIGKILL = 9

_plain_path = [entry for entry in sys.path if entry]


def main(job_file: str, parent: int) -> None:
    """The life of an isolated worker: build the job, leave `<job_file>.result.json`, end. In a container, 0 stands for
    the parent, whom nobody knows there."""
    if parent:
        die_with(parent)
    with open(job_file, "rb") as stream:
        job = json.loads(stream.read())
    result = work(job, warm=False)
    write_result(Path(job_file + ".result.json"), result)


def work(job: Mapping[str, Any], *, warm: bool) -> dict[str, Any]:
    """Build the node of `job`: an outcome document, or `{"error": {class, message, hint}}`."""
    try:
        return build(job, warm=warm)
    except MobuildError as error:
        return {"error": _document(error)}
    except KeyboardInterrupt as error:  # raised by the user's code: nobody types into a worker
        return {"error": _document(blame.translate(error, job["name"]))}


def build(job: Mapping[str, Any], *, warm: bool) -> dict[str, Any]:
    """Build the node of `job` in this process; an outcome document.

    In a `warm` process, which has modules of earlier nodes loaded, distributions are not reported: they
    would be those of others.

    Raises:
        MobuildError: what the node failed of, its traceback printed.
        KeyboardInterrupt: as it came.
    """
    watch = Watch(job, distributions=not warm)
    node: Any = None
    try:
        _enter(job)
        with watch:
            node = decode(job["node"])
            started = time.perf_counter()
            built = node.build({role: Path(path) for role, path in job["inputs"].items()}, Path(job["out"]))
            seconds = time.perf_counter() - started
        _check(Path(job["out"]))
    except KeyboardInterrupt:
        traceback.print_exc()
        raise
    except BaseException as error:  # sys.exit() in the user's code included: all is reported
        traceback.print_exc()
        found = blame.translate(error, job["name"], getattr(node, "tools", ()), getattr(node, "kind", ""))
        if isinstance(error, NothingMade) and watch.strays():
            found.hint = f"it wrote {watch.strays()} into the project: {found.hint}"
        raise found from error
    said = _said(built if built is not None else Built(), watch.warnings())
    return {"seconds": seconds, "peak_rss_mib": peak_rss_mib(), **said, **watch.document()}


def again(folder: Path) -> int:
    """Build the job that `executors.rerun` wrote into `folder`, with its output on the terminal; the exit status."""
    job = json.loads((folder / "job.json").read_bytes())
    out = folder / job["out"]
    job["inputs"] = {role: str(folder / path) for role, path in job["inputs"].items()}
    job["out"] = str(out)
    shutil.rmtree(out.parent, ignore_errors=True)
    out.parent.mkdir()
    result = work(job, warm=False)
    if "error" in result:
        print(f"error: {result['error']['message']}", file=sys.stderr)
        return 1
    print(f"built in {result['seconds']:.1f} s: {out}", file=sys.stderr)
    return 0


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write the document so that it is there whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(encoded(result), encoding="utf-8")
    partial.replace(path)


def encoded(result: Mapping[str, Any]) -> str:
    """The document as JSON; measurements may hold numpy's or torch's numbers."""
    return json.dumps(result, default=_plain)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when the thread that started it ends (Linux): an orphan would
    write on in staging. Elsewhere orphans run to their end."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


@contextmanager
def logged(log: str) -> Iterator[None]:
    """Send what this process writes to descriptors 1 and 2, from native code too, to the file `log`."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    with open(log, "ab") as stream:
        for number, _ in kept:
            os.dup2(stream.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, duplicate in kept:
            os.dup2(duplicate, number)
            os.close(duplicate)


def peak_rss_mib() -> float:
    """Peak resident memory of this process and of its largest ended child, in MiB.

    From `VmHWM`: `ru_maxrss` starts at the size of the process that forked us.
    """
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    try:
        with open("/proc/self/status") as stream:
            own = next(int(line.split()[1]) for line in stream if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20)
    return round(max(own, children), 1)


def _enter(job: Mapping[str, Any]) -> None:
    """Make the process look as the recipe expects: working directory, search path, own loader."""
    for name, value in native.kept(job.get("env", {}), os.environ).items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when onnxruntime is imported
    os.chdir(job["project"])
    places = search_path(job["folder"], job["project"], _plain_path)
    # A shipped recipe's project is mobuild's own folder, whose modules must not be importable as top-level ones.
    sys.path[:] = [place for place in places if place != PACKAGE]
    usercode.folder = Path(job["folder"])
    scratch.folder = Path(job["scratch"]) if job.get("scratch") else None
    modules.install()


def _check(out: Path) -> None:
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        return
    found = "an empty folder" if out.is_dir() else "nothing"
    raise NothingMade(
        f"did not write its artifact: expected a file or a folder at {str(out)!r}, found {found}",
        "build(inputs, out) has to write to `out`",
    )


def _said(built: Built, warnings: Sequence[str]) -> dict[str, Any]:
    return {
        "measurements": dict(built.measurements),
        "onnx": dict(built.onnx),
        "warnings": [*built.warnings, *warnings],
    }


def _document(error: MobuildError) -> dict[str, str]:
    return {"class": type(error).__name__, "message": error.message, "hint": error.hint}


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
