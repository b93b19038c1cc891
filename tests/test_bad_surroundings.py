"""Programs, files and disks that fail: what is named, what goes on, and what the store keeps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

ELSEWHERE = "choose another folder with cache.dir=<folder> or MOBUILD_CACHE=<folder>"


def test_a_program_that_fails_is_named_with_its_last_lines(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path, """  c: {kind: command, cmd: "sh -c 'seq 1 100000; echo broken >&2; exit 3'", out: .txt}\n"""
    )

    done = project.mobuild("target=c", check=False)
    log = project.mobuild("log", "c").out

    (found,) = done.errors
    assert done.status == 1
    assert found.startswith("node 'c': \"sh -c 'seq 1 100000; echo broken >&2; exit 3'\" ended with status 3\n")
    assert found.endswith("  99999\n  100000\n  broken") and found.count("\n") == 10
    assert log.startswith("1\n2\n") and "\nbroken\n" in log


def test_a_program_that_prints_one_endless_line_leaves_the_message_short(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        """  c: {kind: command, cmd: "sh -c 'head -c 300000 /dev/zero | tr \\\\\\\\0 x; exit 1'", out: .txt}\n""",
    )

    done = project.mobuild("target=c", check=False)

    assert done.status == 1
    assert len(done.err) < 3000


def test_a_program_without_output_is_a_failure(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  c: {kind: command, cmd: 'true', out: .txt}\n")

    done = project.mobuild("target=c", check=False)

    assert done.errors == (
        "node 'c': command 'true' ended with status 0, but left nothing where its output {out} should be\n"
        "  write the artifact to the path that {out} stands for",
    )


FOLDER = """\
  prep: {kind: command, cmd: "sh -c 'echo 1 > $0/a.txt; mkdir $0/sub; echo 2 > $0/sub/b' {out}", out: folder}
  use: {kind: command, cmd: "cp {in.m} {out}", needs: {m: prep/a.txt}, out: .txt}
  bad: {kind: command, cmd: "cp {in.m} {out}", needs: {m: prep/../a.txt}, out: .txt}
"""


def test_a_member_of_a_folder_is_an_input_and_a_missing_one_is_named(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FOLDER)

    done = project.mobuild("target=[use,bad,prep]", check=False)

    assert done.status == 1
    assert [Path(line).name for line in done.out.splitlines()] == ["use.txt", "prep"]
    assert done.errors == ("recipe 'small', node 'bad': node 'prep' has no member '../a.txt'\n  Members: a.txt, sub/b",)


def test_odd_names_need_no_quotes_of_the_users(tmp_path: Path) -> None:
    nodes = """\
  data: {kind: source, uri: "daten/ä (1) 'q' $x.txt"}
  c: {kind: command, cmd: "cp {in.d} {out}", needs: {d: data}, out: .txt}
  shell: {kind: command, cmd: "cat < {in.d} > {out}", shell: true, needs: {d: data}, out: .txt}
"""
    project = recipe_project(tmp_path / "ein Ort (ü)", nodes, {"daten/ä (1) 'q' $x.txt": "text"})

    done = project.mobuild("target=[c,shell]")

    assert [Path(line).read_text() for line in done.out.splitlines()] == ["text", "text"]


def test_a_change_of_the_script_that_a_command_names_runs_it_again(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        "  c: {kind: command, cmd: 'sh tools/my.sh {out}', out: .txt}\n",
        {"tools/my.sh": "echo one > $1\n"},
    )
    project.mobuild("target=c")

    project.write("tools/my.sh", "echo two > $1\n")
    ran = project.built("target=c", recipe="small")

    assert ran == {"c"}
    assert (project.root / "build/small/cpu/c.txt").read_text() == "two\n"


def test_an_artifact_that_cannot_be_kept_is_said_with_the_node(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, """  c: {kind: command, cmd: "ln -s /etc/hostname {out}/x", out: folder}\n""")

    done = project.mobuild("target=c", check=False)

    (found,) = done.errors
    assert found.startswith("node 'c': folder '")
    assert found.endswith(
        "'x' is a symbolic link, which cannot be kept\n"
        "  write what it leads to in its place (`cp -L` copies so), or leave it out"
    )


def test_a_node_that_writes_into_its_input_fails_and_the_input_heals(tmp_path: Path) -> None:
    nodes = """\
  one: {kind: command, cmd: "sh -c 'echo one > $0' {out}", out: .txt}
  two: {kind: command, cmd: "sh -c 'chmod u+w $0; echo more >> $0; cp $0 $1' {in.one} {out}", needs: {one: one}}
  three: {kind: command, cmd: "cp {in.one} {out}", needs: {one: one}, out: .txt}
"""
    project = recipe_project(tmp_path, nodes)

    done = project.mobuild("target=two", check=False)
    healed = project.mobuild("target=three")

    assert done.status == 1
    assert done.errors == (
        "node 'two': it changed its input 'one', which others read as well\n"
        "  let it work on a copy; the input is built again at the next run",
    )
    assert Path(healed.out.strip()).read_text() == "one\n"


FAILING = """\
  bad: {kind: command, cmd: "sh -c 'exit 7'", out: .txt}
  good: {kind: command, cmd: "touch {out}", out: .txt}
  below: {kind: command, cmd: "cp {in.x} {out}", needs: {x: bad}, out: .txt}
"""


def test_a_failure_leaves_the_others_and_all_are_named(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FAILING)

    done = project.mobuild("-m", "target=below,good", check=False)

    assert done.status == 1
    assert done.out == f"{project.root}/build/small/cpu/good.txt\n"
    assert done.errors[0].startswith("small/cpu bad: node 'bad': \"sh -c 'exit 7'\" ended with status 7")
    assert "1 blocked, 1 built, 1 failed" in done.err


def test_without_keep_going_a_failure_cancels_the_rest(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FAILING)

    done = project.mobuild("target=[bad,good]", "keep_going=false", "executor.slots=1", check=False)

    assert (done.status, done.out) == (1, "")
    assert project.states(recipe="small") == {"bad": "failed", "good": "cancelled"}


def test_a_local_source_is_its_own_artifact(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  data: {kind: source, uri: data.bin}\n", {"data.bin": "x"})

    built, path = project.mobuild("target=data"), project.mobuild("path", "data")
    log = project.mobuild("log", "data", check=False)

    assert built.out == path.out == f"{project.root}/data.bin\n"
    assert log.errors[0].endswith(f"it is a file of yours, used in place: {project.root}/data.bin")


def test_an_unpinned_source_says_the_command_that_pins_it(tmp_path: Path) -> None:
    far = tmp_path / "far.bin"
    far.write_text("one")
    nodes = f"""\
  data: {{kind: source, uri: "file://{far}"}}
  c: {{kind: command, cmd: "cp {{in.d}} {{out}}", needs: {{d: data}}, out: .txt}}
"""
    project = recipe_project(tmp_path, nodes)

    refused = project.mobuild("target=c", check=False)
    command = refused.errors[0].splitlines()[-1].split()
    pinned = project.mobuild(*command[1:])
    built = project.mobuild("target=c")

    assert refused.status == 1
    assert refused.errors[0].startswith(f"recipe 'small', node 'data': 'file://{far}' is not pinned\n  mobuild lock ")
    assert pinned.out.startswith(f"{project.root}/recipes/small.lock: pinned file://{far} (3 bytes, SHA-256 7692c3ad")
    assert Path(built.out.strip()).read_text() == "one"

    far.write_text("two")
    shutil.rmtree(project.cache)
    changed = project.mobuild("target=c", check=False)

    assert changed.status == 1
    assert changed.errors[0].startswith(f"node 'data': source 'file://{far}': expected SHA-256 7692c3ad")
    assert changed.errors[0].endswith("if the new one is wanted, write its sha256 in the recipe, or run `mobuild lock`")


def test_a_damaged_lock_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path, "  data: {kind: source, uri: 'file:///nowhere'}\n", {"recipes/small.lock": "<<<<<<< ours\n"}
    )

    done = project.mobuild("lock", "target=data", check=False)

    assert done.status == 1
    assert done.errors[0].startswith(f"lock file '{project.root}/recipes/small.lock': cannot be read: ")
    assert "take it from version control again, or remove it and pin anew with `mobuild lock`" in done.errors[0]


MODELS = {
    "empty.onnx": (b"", "empty.onnx': is empty"),
    "text.onnx": (b"hello world\nthis is text\n", "text.onnx': is damaged near byte"),
    "page.onnx": (b"<!DOCTYPE html><html>", "page.onnx': is an HTML page, not the file itself"),
    "pointer.onnx": (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the file itself"),
}


@pytest.mark.parametrize(("name", "content", "message"), [(name, *rest) for name, rest in MODELS.items()], ids=MODELS)
def test_a_model_that_is_none_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    project = Project(tmp_path, tmp_path / "cache")

    done = project.mobuild("target=sanitized", f"model={name}", check=False)

    assert (done.status, done.out) == (1, "")
    assert str(tmp_path / name) in done.errors[0] and message in done.errors[0]


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    project = Project(tmp_path, tmp_path / "cache")

    done = project.mobuild("target=sanitized", "model=net", check=False)

    assert done.errors[0].startswith(
        f"node 'sanitized': folder '{tmp_path}/net': expected one ONNX file or 'model.onnx'"
    )


def test_a_file_in_place_of_build_is_named(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FAILING, {"build": "a file"})

    done = project.mobuild("target=good", check=False)

    assert done.status == 1
    assert done.errors[0].startswith(f"'{project.root}/build/small/cpu': cannot be written: Not a directory")


def test_a_cache_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FAILING)
    project.mobuild("target=good")
    (project.cache / "format").write_text("99\n")

    done = project.mobuild("target=good", check=False)

    assert done.errors == (
        f"cache '{project.cache}': expected format 1, found '99'\n"
        f"  another version of mobuild wrote it: update mobuild, or {ELSEWHERE}",
    )


def test_a_file_in_place_of_the_cache_is_named(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FAILING, {"file": ""})

    done = project.mobuild("target=good", "cache.dir=file", check=False)

    assert done.status == 1
    assert done.errors == (f"cache '{project.root}/file': cannot be made: File exists\n  {ELSEWHERE}",)


def test_damaged_notes_of_a_cache_and_of_build_only_cost_time(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FAILING)
    project.mobuild("target=good")
    for path in [*project.cache.glob("local/*/files.sqlite"), *project.cache.glob("local/*/refs/**/*")]:
        if path.is_file():
            path.write_text("nonsense")
    (project.root / "build/small/cpu/run.json").write_text("nonsense")

    assert project.mobuild("why", "target=good").out == "nothing is stale\n"
    assert project.mobuild("log", "good").out == ""
    assert project.built("target=good", recipe="small") == set()


def test_a_killed_run_is_resumed_without_any_unlocking(tmp_path: Path) -> None:
    nodes = """\
  one: {kind: command, cmd: "sh -c 'echo one > $0' {out}", out: .txt}
  two: {kind: command, cmd: "sh wait.sh {in.one} {out}", needs: {one: one}, out: .txt}
"""
    script = 'if [ "$FIRST" ]; then sleep 60; fi\ncp $1 $2\n'
    project = recipe_project(tmp_path, nodes, {"wait.sh": script})
    running = subprocess.Popen(
        [sys.executable, "-m", "mobuild", "target=two"],
        cwd=project.root,
        env={**os.environ, "MOBUILD_CACHE": str(project.cache), "FIRST": "yes"},
        stderr=subprocess.PIPE,
        text=True,
    )
    with running:
        assert running.stderr
        next(line for line in running.stderr if line.startswith("build   small/cpu two"))
        running.kill()

    ran = project.built("target=two", recipe="small")

    assert ran == {"two"}


def test_mobuild_may_be_called_from_any_folder_of_the_project(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FAILING)
    below = Project(project.root / "recipes", project.cache)

    done = below.mobuild("target=good")

    assert done.out == f"{project.root}/build/small/cpu/good.txt\n"


def test_a_new_recipe_builds_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = Project(tmp_path / "project", tmp_path / "cache")

    project.mobuild("init", "mine")
    done = project.mobuild("target=engine", "recipe=mine")

    assert Path(done.out.strip()).is_file()
    document = json.loads((project.root / "build/mine/cpu/run.json").read_text())
    assert {node["state"] for node in document["nodes"].values()} <= {"built", "fresh"}


UNBUILT = """\
  graph: {kind: command, cmd: "false", out: .onnx}
  engine: {kind: build_engine, needs: {model: graph}}
"""


@pytest.mark.parametrize("verb", ["build", "plan"])
def test_a_warning_of_a_rule_is_said_once_with_the_jobs_that_it_is_about(tmp_path: Path, verb: str) -> None:
    project = recipe_project(tmp_path, UNBUILT)

    some = project.mobuild(verb, "-m", "hardware=t4,cpu", "workspace=1GiB,2GiB", check=False)
    every = project.mobuild(verb, "-m", "hardware=t4", "workspace=1GiB,2GiB", check=False)

    rule = "R13: TensorRT-RTX 1.7"
    (of_some,) = (line for line in some.err.splitlines() if rule in line)
    (of_all,) = (line for line in every.err.splitlines() if rule in line)
    assert of_some.startswith(f"warning: small/t4+1GiB, small/t4+2GiB: {rule}")
    assert of_all.startswith(f"warning: {rule}")
