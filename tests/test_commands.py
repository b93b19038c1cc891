"""Command nodes in whole builds: at any place of a graph, watched, and with what they leave behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.projects import Project, recipe_project

MAKE = '''\
"""Writes a Relu of any width, or what an engine answers."""
import sys

import onnx
from onnx import helper as h


def model(path, width):
    sizes = [h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", width]) for name in "xy"]
    graph = h.make_graph([h.make_node("Relu", ["x"], ["y"])], "net", sizes[:1], sizes[1:])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=10), path)


def measure(engine, out):
    import numpy
    import onnxruntime

    session = onnxruntime.InferenceSession(engine, providers=["CPUExecutionProvider"])
    answer = session.run(None, {"x": numpy.ones((2, 4), "float32")})[0]
    open(f"{out}/metrics.json", "w").write('{"sum": %g}' % answer.sum())


if __name__ == "__main__":
    model(sys.argv[1], 4) if sys.argv[2:] == [] else measure(*sys.argv[1:])
'''


def sidecar(path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(f"{path}.json").read_text())
    return document


def test_commands_stand_at_every_place_of_a_graph(tmp_path: Path) -> None:
    """The source of the weights, of the model (in a folder), the engine itself, the judge of it, what follows."""
    project = recipe_project(
        tmp_path,
        "  weights: {kind: command, cmd: 'sh -c \"echo 4 > $0\" {out}', out: .txt}\n"
        "  prep:\n"
        "    kind: command\n"
        "    needs: {weights: weights}\n"
        "    cmd: 'cat {in.weights} && python tools/make.py {out}/model.onnx && echo note > {out}/note.txt'\n"
        "    shell: true\n"
        "    out: folder\n"
        "  sanitized: {kind: sanitize, needs: {model: prep/model.onnx}}\n"
        "  engine: {kind: command, needs: {model: sanitized}, cmd: 'cp {in.model} {out}', out: .onnx}\n"
        "  validation: {kind: command, needs: {m: engine}, cmd: 'python tools/make.py {in.m} {out}', out: folder}\n"
        "  report: {kind: command, needs: {m: validation/metrics.json, n: prep/note.txt}, shell: true,\n"
        "           cmd: 'cat {in.m} {in.n} > {out}', out: .txt}\n",
        {"tools/make.py": MAKE},
    )

    report = Path(project.mobuild("target=report").out.strip())
    project.edit("tools/make.py", '"""Writes a Relu of any width', '"""Makes a Relu of any width')
    again = project.mobuild("target=report")

    assert report.read_text() == '{"sum": 8}note\n'
    assert set(project.states(recipe="small").values()) == {"fresh"}, again.err


def test_log_of_a_command_can_be_read_while_it_runs(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        "  slow: {kind: command, cmd: 'echo begun $PIN_TOKEN; cat gate > {out}', shell: true, out: .txt}\n",
    )
    os.mkfifo(project.root / "gate")
    environment = {**os.environ, "MOBUILD_CACHE": str(project.cache), "PIN_TOKEN": "very-secret"}
    command = [sys.executable, "-m", "mobuild", "target=slow"]
    building = subprocess.Popen(
        command, cwd=project.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        gate = os.open(project.root / "gate", os.O_WRONLY)  # opens when the program has come to read it
        said = project.mobuild("log", "slow", env={"PIN_TOKEN": "very-secret"})
        os.write(gate, b"end\n")
        os.close(gate)
    finally:
        building.communicate()

    assert said.out == "begun <PIN_TOKEN>\n"
    assert "'slow' is being built; this is its log so far" in said.err
    assert building.returncode == 0
    assert project.mobuild("log", "slow").out == "begun <PIN_TOKEN>\n"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_file_that_a_command_leaves_in_the_project_is_a_warning(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        "  note: {kind: command, cmd: 'sh tool.sh {out}'}\n",
        {"tool.sh": "echo a > $1; echo b > left.txt; echo c > gone; rm gone; echo d > /dev/null\n"},
    )

    done = project.mobuild("target=note")

    assert (
        "it also wrote 'left.txt' into the project: the cache keeps the artifact alone, "
        "and a run that takes it from there writes nothing else"
    ) in done.err


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_file_that_was_left_in_place_of_the_artifact_is_named(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        "  report: {kind: command, cmd: 'sh tool.sh {out}', out: .json}\n",
        {"tool.sh": "echo a > report.json\n"},
    )

    done = project.mobuild("target=report", check=False)

    assert (
        "but left nothing where its output {out} should be\n"
        "  it wrote 'report.json' into the project: write the artifact to the path that {out} stands for\n"
    ) in done.err


def test_command_that_writes_a_file_which_it_names_is_told_so(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path, "  note: {kind: command, cmd: 'echo a > {out}; date > left.txt', shell: true}\n", {"left.txt": ""}
    )

    done = project.mobuild("target=note", check=False)

    assert done.errors == (
        "node 'note': its code was edited while it ran: left.txt\n"
        "  run mobuild again; what cmd names is read: a file that it writes belongs to {out}, or below it",
    )


def test_packages_of_the_python_that_a_command_names_are_in_its_key(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        "  note: {kind: command, cmd: './old/bin/python tool.py {out}', out: .txt}\n",
        {"tool.py": "import sys, scaling\nopen(sys.argv[1], 'w').write(str(scaling.FACTOR))\n"},
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(project.root / "old")], check=True)
    install(project, "1.0")
    first = project.mobuild("target=note").out.strip()
    before = Path(first).read_text()

    install(project, "2.0")
    planned = project.mobuild("plan", "target=note")
    project.mobuild("target=note")

    assert (before, Path(first).read_text()) == ("1.0", "2.0")
    assert "toolchain.scaling: 1.0 → 2.0" in planned.out
    assert sidecar(first)["fingerprint"]["toolchain"]["scaling"] == "2.0"


def install(project: Project, version: str) -> None:
    """What pip does for a package of one module, in the environment `old`."""
    site = next((project.root / "old/lib").glob("python*/site-packages"))
    for path in site.glob("scaling*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (site / "scaling.py").write_text(f"FACTOR = {version}\n")
    (site / f"scaling-{version}.dist-info").mkdir()
    (site / f"scaling-{version}.dist-info/top_level.txt").write_text("scaling\n")


def test_the_log_of_the_last_build_stays_when_an_input_changed(tmp_path: Path) -> None:
    nodes = """  c: {kind: command, cmd: "sh -c 'echo made; echo 1 > $0' {out}", out: .txt}\n"""
    project = recipe_project(tmp_path, nodes)
    project.mobuild("target=c")
    project.edit("recipes/small.yaml", "echo 1", "echo 2")

    assert "stale" in project.mobuild("plan", "target=c").out
    assert project.mobuild("log", "c").out == "made\n"


def test_nothing_is_built_for_a_target_that_cannot_come_about(tmp_path: Path) -> None:
    """A script that is not there is known before the first node runs; what other targets need is built."""
    nodes = """\
  text: {kind: source, uri: a.txt}
  made: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  judged: {kind: command, cmd: "python nowhere.py {in.made} {out}", in: {made: made}, out: .txt}
"""
    project = recipe_project(tmp_path, nodes, {"a.txt": "a"})

    planned = project.mobuild("plan", "target=judged", check=False)
    alone = project.mobuild("target=judged", check=False)
    of_alone = project.states(recipe="small")
    both = project.mobuild("target=[judged,made]", check=False)

    message = "node 'judged': cmd: there is no file 'nowhere.py' for python to run"
    assert message in planned.out and message in alone.err
    assert (alone.status, both.status) == (1, 1)
    assert of_alone == {"text": "fresh", "made": "cancelled", "judged": "failed"}
    assert project.states(recipe="small")["made"] == "built"
    assert Path(project.root, both.out.strip()).read_text() == "a"


@pytest.mark.parametrize(
    ("cmd", "words"),
    [
        ("sh a.sh; sh b.sh {out}", "'a.sh;'"),
        ("sh a.sh&&b {out}", "'a.sh&&b'"),
        ("sh a.sh >{out}", "'>{out}'"),
        ("sh a.sh {out}&", "'{out}&'"),
        ("sh a.sh 'b;' \"c&&d\" http://x/?a=1&b=2 'x'\\;y {out}", ""),
    ],
)
def test_an_operator_that_is_glued_to_a_word_is_no_operator(tmp_path: Path, cmd: str, words: str) -> None:
    escaped = cmd.replace("\\", "\\\\").replace('"', '\\"')
    nodes = f'  made: {{kind: command, cmd: "{escaped}", out: .txt}}\n'
    project = recipe_project(tmp_path, nodes, {"a.sh": "exit 3\n"})

    told = project.mobuild("why", "target=made").out
    failed = project.mobuild("target=made", check=False).err

    hint = f"cmd: no shell reads it, so the program gets {words} as it stands; shell: true hands cmd to a shell"
    assert (hint in told, hint in failed) == (bool(words), bool(words))
    assert ("no shell reads it" in told) == bool(words)
