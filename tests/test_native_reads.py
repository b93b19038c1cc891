"""What programs and native code read without a declaration is held to like every other input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

NODES = """\
  shell: {kind: command, cmd: "cat {in.text} extr*.txt > {out}", shell: true, in: {text: text}, out: .txt}
  script: {kind: command, cmd: "sh tools/run.sh {out}", out: .txt}
  preloads: {kind: command, cmd: "sh -c 'cp extra.* $0' {out}", env: {LD_PRELOAD: libm.so.6}, out: .txt}
  text: {kind: source, uri: text.txt}
"""
FILES = {
    "text.txt": "text\n",
    "extra.txt": "extra\n",
    "labels/a.csv": "a\n",
    "tools/run.sh": "cat labels/*.csv > $1\necho done >> run.log\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, FILES)


@pytest.mark.parametrize("node", ["shell", "preloads"])
def test_undeclared_file_of_a_command_is_an_input_from_now_on(project: Project, node: str) -> None:
    first = project.mobuild(f"target={node}")
    before = (project.root / "extra.txt").stat()

    os.utime(project.root / "extra.txt")
    assert project.built(f"target={node}", recipe="small") == set()
    project.write("extra.txt", "other\n")
    reason = project.mobuild("why", f"target={node}").out
    assert project.built(f"target={node}", recipe="small") == {node}
    project.write("extra.txt", "extra\n")
    os.utime(project.root / "extra.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert project.built(f"target={node}", recipe="small") == set()

    said = (
        "the code read file extra.txt, folder ., which is declared nowhere; from now on it counts as an input "
        "(declare files by `needs` and variables by `env`)"
    )
    assert f"warning: small/cpu {node}: {said}" in first.err.splitlines()
    assert reason == f"small/cpu {node} is stale:\n  file extra.txt: 65110ea3b8b6 → 7e4fa2eb8c7a\n"


def test_new_file_among_those_that_a_script_lists_is_a_change(project: Project) -> None:
    project.mobuild("target=script")
    assert project.built("target=script", recipe="small") == set()

    project.write("labels/b.csv", "b\n")

    assert project.built("target=script", recipe="small") == {"script"}
    assert (project.root / "build/small/cpu/script.txt").read_text() == "a\nb\n"


def test_strict_refuses_what_a_command_reads_undeclared(project: Project) -> None:
    done = project.mobuild("target=shell", "cache.strict=true", check=False)

    assert done.status == 1
    assert done.errors == (
        "node 'shell': the code read file extra.txt, folder ., which is declared nowhere\n"
        "  declare the file: nodes: {extra: {kind: source, uri: extra.txt}}, and in 'shell' needs: {extra: extra}\n"
        "  or set cache.strict=false",
    )


@pytest.fixture
def without_cc(tmp_path: Path) -> dict[str, str]:
    """Variables of a machine without a compiler."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cat", "sh", "mv"):
        (programs / name).symlink_to(shutil.which(name) or "")
    return {"PATH": str(programs)}


def test_strict_says_that_without_a_compiler_it_is_not_sure(project: Project, without_cc: dict[str, str]) -> None:
    done = project.mobuild("target=shell", "cache.strict=true", env=without_cc)

    assert [line for line in done.err.splitlines() if line.startswith("warning: ")] == [
        "warning: small/cpu shell: the code, or others beside it, read file extra.txt, which is declared nowhere "
        "(inotify cannot tell whose a read is); from now on it counts as an input (declare files by `needs` and "
        "variables by `env`)",
        "warning: small/cpu shell: cache.strict answers for reads through Python alone: of those of native code "
        "inotify sees some, and cannot tell whose they are (to be sure, install a C compiler, `cc`)",
    ]


def test_strict_refuses_without_a_compiler_what_is_sure(tmp_path: Path, without_cc: dict[str, str]) -> None:
    code = "import torch\ndef load():\n    open('extra.txt')\n    return torch.nn.Linear(2, 2)\n"
    nodes = '  onnx: {kind: export, needs: {weights: null}, model: "net.py:load", inputs: {x: [1, 2]}}\n'
    project = recipe_project(tmp_path, nodes, {"recipes/net.py": code, "extra.txt": "extra\n"})

    done = project.mobuild("target=onnx", "cache.strict=true", env=without_cc, check=False)

    assert done.status == 1
    assert done.errors[0].startswith("node 'onnx': the code read file extra.txt, which is declared nowhere\n")


def test_undeclared_file_is_an_input_where_no_library_can_be_preloaded(
    project: Project, without_cc: dict[str, str]
) -> None:
    project.mobuild("target=shell", env=without_cc)
    sidecar = json.loads((project.root / "build/small/cpu/shell.txt.json").read_text())
    shown = project.mobuild("inspect", "build/small/cpu/shell.txt", env=without_cc).out

    assert project.built("target=shell", recipe="small", env=without_cc) == set()
    project.write("extra.txt", "other\n")
    assert project.built("target=shell", recipe="small", env=without_cc) == {"shell"}
    project.write("extra.txt", "extra\n")
    assert project.built("target=shell", recipe="small", env=without_cc) == set()

    assert "inotify" in sidecar["observed_by"] and "preload" not in sidecar["observed_by"]
    assert "inotify" in shown


def test_new_file_among_data_is_a_change_where_no_library_can_be_preloaded(
    project: Project, without_cc: dict[str, str]
) -> None:
    project.mobuild("target=script", env=without_cc)
    assert project.built("target=script", recipe="small", env=without_cc) == set()

    project.write("labels/b.csv", "b\n")

    assert project.built("target=script", recipe="small", env=without_cc) == {"script"}


def test_what_is_read_while_it_is_edited_is_built_again_where_no_library_can_be_preloaded(
    tmp_path: Path, without_cc: dict[str, str]
) -> None:
    nodes = """\
  one: {kind: command, cmd: "sh -c 'cat extra.txt > $0; [ -e new.txt ] && mv new.txt extra.txt; :' {out}", out: .txt}
"""
    project = recipe_project(tmp_path, nodes, {"extra.txt": "extra\n", "new.txt": "new\n"})
    project.mobuild("target=one", env=without_cc)

    assert project.built("target=one", recipe="small", env=without_cc) == {"one"}
    assert (project.root / "build/small/cpu/one.txt").read_text() == "new\n"
    assert project.built("target=one", recipe="small", env=without_cc) == set()


def test_what_a_command_declares_is_no_condition(tmp_path: Path) -> None:
    nodes = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "sh tools/copy.sh {in.text} {out}", in: {text: text}, out: .txt}
  again: {kind: command, cmd: "cat {in.copy} > {out}", shell: true, in: {copy: copy}, out: .txt}
"""
    project = recipe_project(tmp_path, nodes, {"text.txt": "t", "tools/copy.sh": 'cp "$1" "$2"\n'})

    done = project.mobuild("target=again", "cache.strict=true")

    sidecar = json.loads((project.root / "build/small/cpu/again.txt.json").read_text())
    assert "declared nowhere" not in done.err
    assert sidecar["conditions"] == []
    assert "preload" in sidecar["observed_by"]


def test_weights_that_only_native_code_reads_are_an_input(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    code = """\
import torch
from safetensors.torch import load_file


def load():
    net = torch.nn.Linear(2, 2)
    net.load_state_dict(load_file("models/net.safetensors"))
    return net
"""
    nodes = """\
  onnx: {kind: export, needs: {weights: null}, model: "net.py:load", inputs: {x: [batch, 2]}, exporter: torchscript}
shapes: {batch: [1, 2, 4]}
"""
    project = recipe_project(tmp_path, nodes, {"recipes/net.py": code})
    file = project.root / "models/net.safetensors"
    file.parent.mkdir()
    save_file({"weight": torch.ones(2, 2), "bias": torch.zeros(2)}, file)
    first = project.mobuild("target=onnx")
    model = (project.root / "build/small/cpu/onnx.onnx").read_bytes()

    save_file({"weight": torch.ones(2, 2), "bias": torch.ones(2)}, file)
    ran = project.built("target=onnx", recipe="small")

    assert "the code read file models/net.safetensors, which is declared nowhere" in first.err
    assert ran == {"onnx"}
    assert (project.root / "build/small/cpu/onnx.onnx").read_bytes() != model


def test_library_that_is_opened_by_a_relative_path_is_an_input(tmp_path: Path) -> None:
    script = "import ctypes, sys\nopen(sys.argv[1], 'w').write(str(ctypes.CDLL('./native/number.so').number()))\n"
    nodes = '  number: {kind: command, cmd: "python number.py {out}", out: .txt}\n'
    project = recipe_project(tmp_path, nodes, {"number.py": script})
    compile_number(project, 1)
    project.mobuild("target=number")
    assert project.built("target=number", recipe="small") == set()

    compile_number(project, 2)

    assert project.built("target=number", recipe="small") == {"number"}
    assert (project.root / "build/small/cpu/number.txt").read_text() == "2"


def compile_number(project: Project, number: int) -> None:
    project.write("native/number.c", f"int number(void) {{ return {number}; }}\n")
    command = ["cc", "-shared", "-fPIC", "-o", "native/number.so", "native/number.c"]
    subprocess.run(command, cwd=project.root, check=True)


LISTS = """\
  all: {kind: command, cmd: "find -L . -name '*.c' -fprint {out}", out: .txt}
  one: {kind: command, cmd: "find src -name '*.c' -fprint {out}", out: .txt}
  made: {kind: command, cmd: "make -s OUT={out}", out: .txt}
"""
SOURCES = {"Makefile": "all:\n\tcat src/a.c > $(OUT)\n", "src/a.c": "int a;\n", "README": "a project\n"}
NOT_LISTED: dict[str, Callable[[Path], object]] = {
    "another content": lambda root: (root / "README").write_text("another content\n"),
    "no build/": lambda root: shutil.rmtree((root / "build").resolve() / "small"),
    "a commit": lambda root: _git(root, "commit", "--allow-empty", "-m", "second"),
}


@pytest.fixture
def lister(tmp_path: Path) -> Project:
    """A repository whose build/ and cache/ are links to elsewhere, with commands that look through it."""
    if not shutil.which("make") or not shutil.which("git"):
        pytest.skip("make and git are needed")
    project = recipe_project(tmp_path, LISTS, SOURCES)
    for name in ("build", "cache"):
        (tmp_path / "elsewhere" / name).mkdir(parents=True)
        (project.root / name).symlink_to(tmp_path / "elsewhere" / name)
    _git(project.root, "init")
    _git(project.root, "add", ".")
    _git(project.root, "commit", "-m", "first")
    return Project(project.root, project.root / "cache")


def _git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


@pytest.mark.parametrize("change", NOT_LISTED)
def test_commands_that_look_through_the_project_see_nothing_of_what_mobuild_makes(lister: Project, change: str) -> None:
    lister.mobuild("target=[all,one,made]")
    assert lister.built("target=[all,one,made]", recipe="small") == set()

    NOT_LISTED[change](lister.root)

    assert lister.built("target=[all,one,made]", recipe="small") == set()


@pytest.mark.parametrize(
    ("name", "ran"), [("src/b.c", {"all", "one"}), ("b.c", {"all", "made"}), ("doc/b.c", {"all", "made"})]
)
def test_a_new_name_in_a_folder_that_a_command_lists_is_a_change(lister: Project, name: str, ran: set[str]) -> None:
    lister.mobuild("target=[all,one,made]")

    lister.write(name, "int b;\n")

    assert lister.built("target=[all,one,made]", recipe="small") == ran
    assert name in (lister.root / "build/small/cpu/all.txt").read_text()


AMONG_OURS = {
    "another build's output": "build/lib/words.txt",
    "data beside the cache": "data/words.txt",
    "data in memory": "/dev/shm/mobuild-test-{name}/words.txt",
}


@pytest.mark.parametrize("place", AMONG_OURS)
def test_what_lies_among_the_folders_of_mobuild_is_an_input(tmp_path: Path, place: str) -> None:
    file = AMONG_OURS[place].format(name=tmp_path.name)
    nodes = f"  one: {{kind: command, cmd: \"sh -c 'cat {file} > $0' {{out}}\", out: .txt}}\n"
    project = recipe_project(tmp_path, nodes, {file: "one\n"})
    project = Project(project.root, project.root / "data")
    project.mobuild("target=one")
    assert project.built("target=one", recipe="small") == set()

    project.write(file, "two\n")
    ran = project.built("target=one", recipe="small")
    if file.startswith("/dev/shm/"):
        shutil.rmtree(Path(file).parent)

    assert ran == {"one"}
