"""Which lines of the builders' code no test of TensorRT-RTX executes: the table in tests/README.md.

    python -m tests.unexecuted        run those tests under a tracer, and write the table (minutes)

`test_unexecuted.py` holds the table against the functions that there are.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[1]
README = ROOT / "tests" / "README.md"
START, END = "<!-- unexecuted: python -m tests.unexecuted -->", "<!-- end of unexecuted -->"
TESTS = ("tests/backends/test_tensorrt_rtx.py", "tests/backends/test_remedies.py")
FILES = (
    "mobuild/backends/builder_log.py",
    "mobuild/backends/calibration_table.py",
    "mobuild/backends/network_builder.py",
    "mobuild/backends/parser_errors.py",
    "mobuild/backends/target_card.py",
    "mobuild/backends/tensorrt.py",
    "mobuild/backends/tensorrt_rtx.py",
    "mobuild/backends/tensorrt_versions.py",
    "mobuild/backends/timing_cache.py",
    "mobuild/backends/trtexec.py",
    "mobuild/runtime/cuda.py",
    "mobuild/runtime/plans.py",
    "mobuild/runtime/tensorrt.py",
)
# Put before all else in every process of the tests: notes which lines of the files run.
_TRACER = """
import atexit, json, os, sys, threading
_files, _folder, _seen = set(json.loads(os.environ["TRACED_FILES"])), os.environ["TRACED_INTO"], set()
def _line(frame, event, arg):
    _seen.add((frame.f_code.co_filename, frame.f_lineno))
    return _line
def _call(frame, event, arg):
    return _line if frame.f_code.co_filename in _files else None
def _write():
    sys.settrace(None)
    with open(os.path.join(_folder, f"{os.getpid()}.json"), "w") as stream:
        json.dump(sorted(_seen), stream)
atexit.register(_write)
threading.settrace(_call)
sys.settrace(_call)
"""

Lines = Mapping[str, set[int]]


def main() -> None:
    executed = _executed()
    rows = [row for name in FILES for row in _rows(name, executed.get(str(ROOT / name), set()))]
    text = README.read_text(encoding="utf-8")
    before, after = text.partition(START)[0], text.partition(END)[2]
    table = "\n".join(["| file | never runs | runs, but for |", "|---|---|---|", *rows])
    README.write_text(f"{before}{START}\n{table}\n\n{of()}\n{END}{after}", encoding="utf-8")


def of() -> str:
    """What the table is about: a line that changes with the functions that there are."""
    known = [[name, *sorted(functions(name))] for name in FILES]
    digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:8]
    return f"Of {sum(len(each) - 1 for each in known)} functions ({digest})."


def written() -> str:
    """The table as it stands in the README."""
    return README.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]


def functions(name: str) -> dict[str, set[int]]:
    """Function or method of a file → the lines in it that can run, inner functions included."""
    path = ROOT / name
    found: dict[str, set[int]] = {}
    for code in _codes(compile(path.read_text(encoding="utf-8"), str(path), "exec")):
        outer = code.co_qualname.partition(".<locals>")[0]
        if not outer.startswith("<") and code.co_flags & 2:  # CO_NEWLOCALS: a function, and no body of a class
            lines = {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
            found[outer] = found.get(outer, set()) | lines
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _rows(name: str, executed: set[int]) -> Iterator[str]:
    """The table's row of a file, where some of it does not run."""
    known, source = functions(name), (ROOT / name).read_text(encoding="utf-8").splitlines()
    never = [function for function, lines in known.items() if not lines & executed]
    missed = {function: sorted(lines - executed) for function, lines in known.items() if function not in never}
    partly = [f"`{each}`: {_shown(source, lines, sorted(known[each]))}" for each, lines in missed.items() if lines]
    if never or partly:
        names = "all" if len(never) == len(known) else ", ".join(f"`{each}`" for each in never)
        yield f"| `{name.removeprefix('mobuild/')}` | {names} | {'; '.join(partly)} |"


def _shown(source: list[str], missed: list[int], lines: list[int]) -> str:
    """Every line that is missed; of those that follow each other, the first and the last."""
    runs: list[list[int]] = []
    for line in missed:
        follows = bool(runs) and lines.index(line) == lines.index(runs[-1][-1]) + 1
        runs[-1].append(line) if follows else runs.append([line])
    return ", ".join(
        " to ".join(_quoted(source[line - 1]) for line in dict.fromkeys((run[0], run[-1]))) for run in runs
    )


def _quoted(line: str) -> str:
    escaped = line.strip().replace("|", "\\|")
    return f"`{escaped}`"


def _executed() -> dict[str, set[int]]:
    """File → lines that ran in any process of the tests."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "sitecustomize.py").write_text(_TRACER, encoding="utf-8")
        files = json.dumps([str(ROOT / name) for name in FILES])
        own = {"PYTHONPATH": place, "TRACED_FILES": files, "TRACED_INTO": place}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, check=True)
        found: dict[str, set[int]] = {}
        for path in Path(place).glob("*.json"):
            for file, line in json.loads(path.read_text(encoding="utf-8")):
                found.setdefault(file, set()).add(line)
    return found


if __name__ == "__main__":
    main()
