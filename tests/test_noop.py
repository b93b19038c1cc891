"""The repeated answer: nothing imported, and any change of the world takes the full path again.

Each row makes a change that a plan would notice and asks whether the next command line noticed it too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mobuild import answers as answers_of
from mobuild import noop
from tests.projects import Project, answer, code_project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  end: {kind: command, cmd: "sh tools/end.sh {in.copy} {out}", in: {copy: copy}, out: .txt}
"""
FAST = """
import sys
from mobuild.cli import run
status = run(["target=end"])
print(bool({"hydra", "omegaconf", "pathlib", "json", "re"} & (set(sys.modules) - BEFORE)))
sys.exit(status)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    files = {"text.txt": "one\n", "tools/end.sh": 'cp "$1" "$2"\n'}
    project = recipe_project(tmp_path_factory.mktemp("noop"), NODES, files)
    project.mobuild("target=end")
    return project


@pytest.fixture
def idle(built: Project, tmp_path: Path) -> Project:
    """A copy of the project that has its answer already; its files are older than the clock's margin."""
    project = built.copy(tmp_path)
    shutil.rmtree(project.root / "build")
    settle(project)
    return project


def settle(project: Project, target: str = "end") -> None:
    """Run until a new answer is kept: files that changed this instant are not trusted at first."""
    for kept in answers(project):
        kept.unlink()
    for _ in range(20):
        project.mobuild(f"target={target}")
        if answers(project):
            return
    raise AssertionError("no answer was kept")


def answers(project: Project) -> list[Path]:
    return list((project.root / "build").glob(".answers/*"))


def takes_the_full_path(project: Project) -> bool:
    """Whether the command line imported more than `os`, `sys` and `xxhash`."""
    return project.python("import sys; BEFORE = set(sys.modules)" + FAST).out.splitlines()[-1] == "True"


def test_the_answer_is_the_same(idle: Project) -> None:
    first = idle.mobuild("target=end")
    again = idle.mobuild("target=end")

    assert (first.status, first.out) == (again.status, again.out) == (0, f"{idle.root}/build/small/cpu/end.txt\n")
    assert first.err == again.err
    assert first.err.startswith("3 fresh in ")


def test_a_plan_that_finds_all_as_it_was_writes_nothing_below_build(idle: Project) -> None:
    def tokens() -> dict[str, tuple[int, int]]:
        files = [path for path in (idle.root / "build").rglob("*") if ".answers" not in path.parts and path.is_file()]
        return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}

    before = tokens()
    shutil.rmtree(idle.root / "build" / ".answers")

    idle.mobuild("target=end")

    assert tokens() == before


def test_only_what_was_asked_is_answered(idle: Project) -> None:
    assert "copy.txt" in idle.mobuild("target=copy").out
    assert "end.txt" in idle.mobuild("target=end").out


CHANGES: dict[str, Callable[[Project], object]] = {
    "an input": lambda project: project.write("text.txt", "two\n"),
    "a script": lambda project: project.write("tools/end.sh", 'cat "$1" "$1" > "$2"\n'),
    "the recipe": lambda project: project.edit("recipes/small.yaml", "cp {in.text}", "cp -p {in.text}"),
    "a lost record": lambda project: shutil.rmtree(project.cache / "records"),
    "a damaged object": lambda project: [
        (path.chmod(0o644), path.write_text("bad")) for path in project.cache.glob("objects/*/*")
    ],
    "a deleted artifact": lambda project: (project.root / "build/small/cpu/end.txt").unlink(),
    "an edited artifact": lambda project: project.write("build/small/cpu/end.txt", "mine\n"),
    "a second recipe": lambda project: project.write("recipes/other.yaml", "# @package _global_\nnodes: {}\n"),
    "a kind of the project's that shadows ours": lambda project: project.write(
        "conf/node/command.yaml", "_target_: mobuild.nodes.command.Command\nneeds: {}\nenv: {A: b}\n"
    ),
    "defaults of the project": lambda project: project.write(
        "conf/project/default.yaml", "# @package _global_\nworkspace: 1GiB\n"
    ),
    "a pyproject.toml": lambda project: project.write("pyproject.toml", '[tool.mobuild]\nrecipe = "small"\n'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_takes_the_full_path(idle: Project, name: str) -> None:
    before = idle.mobuild("target=end")

    CHANGES[name](idle)
    after = idle.mobuild("target=end", check=False)

    assert after.err != before.err
    if after.status == 0:
        expected = (idle.root / "text.txt").read_text() * (2 if name == "a script" else 1)
        assert (idle.root / "build/small/cpu/end.txt").read_text() == expected


def test_an_edit_with_the_time_put_back_takes_the_full_path(idle: Project) -> None:
    path = idle.root / "text.txt"
    seen = path.stat()

    path.write_text("two\n")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    idle.mobuild("target=end")

    assert (idle.root / "build/small/cpu/end.txt").read_text() == "two\n"


def test_a_variable_that_the_configuration_reads_is_a_witness(idle: Project) -> None:
    idle.edit("recipes/small.yaml", '"cp {in.text} {out}"', '"cp ${oc.env:FLAG,-p} {in.text} {out}"')
    settle(idle)
    before = idle.mobuild("target=end")

    after = idle.mobuild("target=end", env={"FLAG": "-f"})

    assert "params.cmd: cp -p {in.text} {out} → cp -f {in.text} {out}" in after.err
    assert before.err != after.err


def test_the_second_of_two_equal_sources_is_a_witness(tmp_path: Path) -> None:
    nodes = """\
  a: {kind: source, uri: a.txt}
  b: {kind: source, uri: b.txt}
  end: {kind: command, cmd: "sh -c 'cat $1 $2 > $3' - {in.a} {in.b} {out}", in: {a: a, b: b}, out: .txt}
"""
    project = recipe_project(tmp_path, nodes, {"a.txt": "same\n", "b.txt": "same\n"})
    settle(project)

    project.write("b.txt", "edit\n")

    assert Path(project.mobuild("target=end").out.strip()).read_text() == "same\nedit\n"


def test_a_new_variable_is_seen_by_code_that_looks_at_all_of_them(tmp_path: Path) -> None:
    code = "import os\n\n\ndef load():\n    return [name for name in os.environ if name.startswith('GAIN')]\n"
    project = code_project(tmp_path, code)
    settle(project, "n")

    assert answer(project, {"GAIN_2": "1"}) == ("built", "['GAIN_2']")


OPTIONAL = """\
import importlib

gain = 0
for name in NAMES:
    try:
        gain += importlib.import_module(name).GAIN
    except ImportError:
        pass


def load():
    return gain
"""
STATIC = """\
gain = 0
try:
    from MODULE import GAIN as gain
except ImportError:
    pass


def load():
    return gain
"""


@pytest.mark.parametrize("place", ["src/extra.py", "parts/extra.py", "src/parts/extra.py"])
@pytest.mark.parametrize("code", [OPTIONAL, STATIC])
def test_a_module_that_was_missing_is_seen_wherever_it_comes(code: str, place: str, tmp_path: Path) -> None:
    module = place.removeprefix("src/").removesuffix(".py").replace("/", ".")
    files = {"src/other.txt": "", "parts/other.txt": "", "src/parts/other.txt": ""}
    project = code_project(tmp_path, code.replace("NAMES", repr([module])).replace("MODULE", module), files)
    settle(project, "n")

    project.write(place, "GAIN = 5\n")

    assert answer(project) == ("built", "5")


def test_a_configuration_that_reads_the_clock_is_never_answered(idle: Project) -> None:
    idle.edit("recipes/small.yaml", '"cp {in.text} {out}"', '"cp {in.text} {out}", env: {AT: "${now:%Y}"}')
    shutil.rmtree(idle.root / "build")

    idle.mobuild("target=end")
    idle.mobuild("target=end")
    idle.mobuild("target=end")

    assert answers(idle) == []


def test_clean_takes_the_answers_away(idle: Project) -> None:
    idle.mobuild("clean")

    assert idle.mobuild("target=end").out == f"{idle.root}/build/small/cpu/end.txt\n"
    assert (idle.root / "build/small/cpu/end.txt").exists()


@pytest.mark.parametrize("is_as_seen", [True, False])
def test_a_file_counts_as_the_plan_saw_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_as_seen: bool) -> None:
    file, later = tmp_path / "file", 1 << 62
    file.write_text("one\n")
    monkeypatch.chdir(tmp_path)
    recorder = answers_of.Recorder(["target=end"])
    recorder.since_ns = later  # all was written long before
    recorder.offer(str(tmp_path / "build"), [str(file)], [], [], {str(file): noop.token(file.stat())})
    if not is_as_seen:
        file.write_text("two\n")

    recorder.end(0)

    assert noop.replay(["target=end"]) == (0 if is_as_seen else None)


def test_a_damaged_answer_is_no_answer(idle: Project) -> None:
    (kept,) = answers(idle)
    kept.write_text(kept.read_text()[:-20])

    assert "fresh" in idle.mobuild("target=end").err


def test_a_repeated_run_imports_nothing(idle: Project) -> None:
    for _ in range(20):
        if not takes_the_full_path(idle):
            return
    raise AssertionError("every run took the full path")
