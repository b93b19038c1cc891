"""A no-op over 3 + 2N steps in other build tools, beside mobuild and `python -c pass`.

    python tests/benchmarks/peers.py [N] [BIN]

`BIN` is the folder of the peers' programs (doit, snakemake, dvc; joblib for its python), an environment of its own;
what is not there is left out. Each works the same steps, which copy small files, once, and then finds nothing to do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from measures import RECIPE, Row, cpu_seconds, show

_ROUNDS = 5


def main(jobs: int, programs: Path) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as place:
        bare = min(cpu_seconds([sys.executable, "-c", "pass"], place) for _ in range(_ROUNDS))
        for name, program, write in PEERS:
            folder = Path(place, name)
            folder.mkdir()
            (folder / "text.txt").write_text("one\n")
            command = [str((Path(sys.executable).parent if name == "mobuild" else programs) / program)]
            if not Path(command[0]).exists():
                print(f"{name}: not here")
                continue
            command += write(folder, jobs)
            if name == "dvc":
                subprocess.run([programs / "dvc", "init", "--no-scm", "-q"], cwd=folder, check=True)
            for _ in range(3):  # work, find nothing to do, and for mobuild: keep the answer
                cpu_seconds(command, folder)
            took = min(cpu_seconds(command, folder) for _ in range(_ROUNDS))
            rows.append(Row(f"{name}, nothing to do over {3 + 2 * jobs} steps", took, "CPU s", bare))
    show(rows)


def steps(jobs: int) -> list[tuple[str, str]]:
    """(from, to) of every copy."""
    found = [("text.txt", "up.txt"), ("up.txt", "base.txt")]
    for i in range(jobs):
        found += [("base.txt", f"own{i}.txt"), (f"own{i}.txt", f"end{i}.txt")]
    return found


def mobuild(folder: Path, jobs: int) -> Sequence[str]:
    recipe = RECIPE.replace("cp -${width}", "sh copy.sh ${width}").replace("cp -x${width}", "sh copy.sh x${width}")
    (folder / "recipes").mkdir()
    (folder / "recipes" / "small.yaml").write_text(recipe)
    (folder / "copy.sh").write_text('cp "$2" "$3" && echo $1 >> "$3"\n')
    return ["-m", "target=end", f"width=range(0,{jobs})"]


def doit(folder: Path, jobs: int) -> Sequence[str]:
    (folder / "dodo.py").write_text(
        f"STEPS = {steps(jobs)!r}\n"
        "def task_copy():\n"
        "    for old, new in STEPS:\n"
        "        yield {'name': new, 'actions': [f'cp {old} {new}'], 'file_dep': [old], 'targets': [new]}\n"
    )
    return []


def snakemake(folder: Path, jobs: int) -> Sequence[str]:
    rules = "".join(
        f"rule s{i}:\n    input: {old!r}\n    output: {new!r}\n    shell: 'cp {{input}} {{output}}'\n"
        for i, (old, new) in enumerate(steps(jobs))
    )
    ends = [new for _, new in steps(jobs)]
    (folder / "Snakefile").write_text(f"rule all:\n    input: {ends!r}\n{rules}")
    return ["--cores", "1", "--quiet"]


def dvc(folder: Path, jobs: int) -> Sequence[str]:
    stages = "".join(
        f"  s{i}: {{cmd: cp {old} {new}, deps: [{old}], outs: [{new}]}}\n" for i, (old, new) in enumerate(steps(jobs))
    )
    (folder / "dvc.yaml").write_text(f"stages:\n{stages}")
    return ["repro", "-q"]


def joblib(folder: Path, jobs: int) -> Sequence[str]:
    code = (
        "from joblib import Memory\n"
        "@Memory('memory', verbose=0).cache\n"
        "def copy(text, name):\n    return text\n"
        "texts = {'text.txt': open('text.txt').read()}\n"
        f"for old, new in {steps(jobs)!r}:\n    texts[new] = copy(texts[old], new)\n"
    )
    (folder / "steps.py").write_text(code)
    return ["steps.py"]


PEERS: Sequence[tuple[str, str, Callable[[Path, int], Sequence[str]]]] = (
    ("mobuild", "mobuild", mobuild),
    ("doit", "doit", doit),
    ("joblib", "python", joblib),
    ("dvc", "dvc", dvc),
    ("snakemake", "snakemake", snakemake),
)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, Path(sys.argv[2] if len(sys.argv) > 2 else "/nowhere"))
