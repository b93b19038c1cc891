"""Command lines that cannot be understood: status 2, and a message that names the word and the fix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mobuild.config.calls import VERBS
from mobuild.config.settings import known_keys
from tests.projects import Project, toy_project

NODE = "recipe 'toy', node"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return toy_project(tmp_path_factory.mktemp("toy"))


KEYS = ", ".join(sorted(known_keys()))
NOT_UNDERSTOOD = {
    "keep_going=maybe": "keep_going: expected true or false, found 'maybe'",
    "cache.strict=1": "cache.strict: expected true or false, found 1",
    "workspace=lots": (
        "workspace: expected a size such as 512MiB or 4GiB, found 'lots'\n  write a whole number with KiB, MiB, GiB"
    ),
    "workspace=4GB": "workspace: expected a size such as 512MiB or 4GiB, found '4GB'",
    "cache.dir=5": "cache.dir: expected a path or null, found 5",
    "executor.slots=0": "executor.slots: expected a whole number from 1, or null, found 0",
    "executor.timeout_seconds=soon": (
        "executor.timeout_seconds: expected a number of seconds above 0, or null, found 'soon'"
    ),
    "format=jsn": (
        "plan: format: expected one of text, json, found 'jsn'. Did you mean 'json'?\n  mobuild plan format=json"
    ),
    "builders=onnxruntime": (
        "builders: expected a list of backends, found 'onnxruntime'\n  builders=[tensorrt_rtx,onnxruntime]"
    ),
    "target=[]": (
        "target: expected a node's name or a list of names, found []\n  target=engine, or target=[onnx,engine]"
    ),
    "target=null": (
        "target: expected a node's name or a list of names, found nothing\n  target=engine, or target=[onnx,engine]"
    ),
    "constraints=null": "recipe 'toy': constraints: expected a mapping, found nothing",
    "nodes=null": "recipe 'toy': nodes is no mapping\n  write nodes: {name: {kind: …}}",
    "nodes.engin.foo=1": (
        "recipe 'toy', node 'engin': has no kind, so 'foo' is read as a node of a chain. Did you mean 'engine'?"
    ),
    "nodes.engin.raw.foo=1": "recipe 'toy', node 'engin.raw': has no kind. Did you mean 'engine'?",
    "nodes.engin.backend=onnxruntime": (
        "recipe 'toy', node 'engin': has no kind, and as a chain no nodes. Did you mean 'engine'?\n"
        "  write kind: … in it, or drop it"
    ),
    "nodes.engin=1": "recipe 'toy': nodes.engin is no mapping. Did you mean 'engine'?",
    "nodes.onnx=null": "recipe 'toy': nodes.onnx is no mapping\n  write kind: … and its fields",
    "nodes.onnx.model=null": (
        f"{NODE} 'onnx', field 'model': expected text, found nothing\n  write model: \"file.py:function\""
    ),
    "nodes.onnx.opset=null": (
        f"{NODE} 'onnx', field 'opset': expected a whole number, found nothing\n  write opset: …, or leave it out"
    ),
    "nodes.onnx.absolute_tolerance=nan": (
        f"{NODE} 'onnx', field 'absolute_tolerance': expected a finite number, found nan"
    ),
    "nodes.onnx.outputs=y": f"{NODE} 'onnx', field 'outputs': expected a mapping or a list, found 'y'\n  write [y]",
    "nodes.onnx.needs=[weights]": (
        f"{NODE} 'onnx': needs: expected role: node, found ['weights']\n  needs: {{model: onnx}}"
    ),
    "nodes.onnx.env=[A]": f"{NODE} 'onnx', field 'env': expected a mapping, found the list ['A']",
    "nodes.onnx.env={THREADS: 1}": f"{NODE} 'onnx', field 'env', 'THREADS': expected text, found the whole number 1",
    "nodes.sanitized.env={A: b}": (
        f"{NODE} 'sanitized': env: kind 'sanitize' reads no variables of yours\n  leave it out"
    ),
    "nodes.onnx.timeout_seconds=soon": (
        f"{NODE} 'onnx', field 'timeout_seconds': expected a number of seconds above 0, or null, found 'soon'"
    ),
    "nodes.onnx.python=3.11": (
        f"{NODE} 'onnx': python: expected the path of an interpreter, found 3.11\n  ./venv/bin/python"
    ),
    "hardware=null": "a group takes the name of one of its files, not null, a number or a truth value",
    "recipe=": "recipe=: expected a recipe's name\n  mobuild list shows them",
    "recipe=toys": "there is no recipe 'toys'. Did you mean 'toy'?",
    "model=": "model=: expected the path of an ONNX file\n  model=det.onnx",
    "model=.": "model: expected the path of an ONNX file, found '.'\n  model=det.onnx",
    "model=my file.onnx": (
        "model=my file (1).onnx: cannot be read: a bracket or a quote is left open, or a character must be quoted"
    ),
    "cache.dri=x": "there is no key 'cache.dri'. Did you mean 'dir'?\n  Keys of cache: dir, strict",
    "cache={dri: x}": "there is no key 'cache.dri'. Did you mean 'dir'?\n  Keys of cache: dir, strict",
    "target.0=onnx": "there is no key 'target.0'.\n  mobuild --cfg job shows all keys",
    "precision=fp16,fp32": "precision=fp16,fp32: a value with commas is a sweep\n  to sweep over it add -m",
    "precision=[fp16, fp32]": (
        "precision=[fp16, fp32]: expected one name, found a list\n  to sweep over it: -m precision=fp16,fp32"
    ),
    "hardware=[l4]": "hardware=[l4]: expected one name, found a list\n  to sweep over it: -m hardware=l4",
    "recipe=[toy]": "recipe=[toy]: expected one name, found a list",
    "+precision=fp16": (
        "precision: 'fp16' is a second choice beside the one that there is\n"
        "  on the command line without '+': precision=fp16; in a recipe: - override /precision: fp16"
    ),
    "+shapes.batch=4": "+shapes.batch: there is such a key already\n  without '+': shapes.batch=…",
    "nodes.onnx.inputs.x.dtype=int64": (
        "nodes.onnx.inputs.x.dtype=int64: leads into a list, whose entries have numbers for names\n"
        "  write the list, or what holds it, whole"
    ),
    "~nodes.onnx.outputs.0": "~nodes.onnx.outputs.0: leads into a list, whose entries have numbers for names",
    "libraries={a: nope}": f"{NODE} 'engine': needs 'library_a' from 'nope', which is no node.",
    "nodes.onnx.model={a: b}": f"{NODE} 'onnx', field 'model': expected text, found the mapping {{'a': 'b'}}",
    "nodes.onnx.env={A: true}": (
        f"{NODE} 'onnx', field 'env', 'A': expected text, found the truth value True\n  quote it: \"true\""
    ),
    "nodes.onnx.outputs={y: [batch, 4]}": (
        "nodes.onnx.outputs={y: [batch, 4]}: a list stands there already\n"
        "  write it as that is, or take that away first: "
        "'~nodes.onnx.outputs' '+nodes.onnx.outputs={y: [batch, 4]}'"
    ),
    "nodes.onnx=[model]": "nodes.onnx=[model]: a mapping stands there already",
    "+wrkspace=1GiB": f"recipe 'toy': unknown key 'wrkspace'. Did you mean 'workspace'?\n  Keys: {KEYS}",
}


@pytest.mark.parametrize(("word", "message"), NOT_UNDERSTOOD.items(), ids=list(NOT_UNDERSTOOD))
def test_a_value_that_is_not_understood_is_named(toy: Project, word: str, message: str) -> None:
    done = toy.mobuild("plan", "target=engine", word.replace("my file", "my file (1)"), check=False)

    assert (done.status, done.out) == (2, ""), done.err
    assert len(done.errors) == 1
    assert done.errors[0].startswith(message)
    assert "HYDRA" not in done.err and "Traceback" not in done.err


UNREADABLE = {
    "nodes.onnx.outputs=[y, é z]": (
        "words with spaces, brackets, letters outside a-z are quoted within it: \"nodes.onnx.outputs=[y, 'é z']\""
    ),
    "nodes.onnx.env={A: é}": (
        "words with spaces, brackets, letters outside a-z are quoted within it: \"nodes.onnx.env={A: 'é'}\""
    ),
    "nodes.weights.uri=ü.pt": (
        "spaces, brackets, letters outside a-z are quoted twice, for the shell and for mobuild: "
        "\"nodes.weights.uri='ü.pt'\""
    ),
    "nodes.onnx.outputs=[y": (
        "brackets are closed, and words with spaces or letters outside a-z quoted: \"KEY=['a word',b]\""
    ),
    "nodes..opset=20": "a key is words with dots between them: nodes.onnx.opset=20",
}


@pytest.mark.parametrize("word", UNREADABLE)
def test_a_word_that_cannot_be_read_is_mended_by_its_hint(toy: Project, word: str) -> None:
    done = toy.mobuild("plan", "target=engine", word, check=False)

    assert done.status == 2
    (error,) = done.errors
    assert error.partition("\n  ")[2] == UNREADABLE[word]
    if f'"{word.partition("=")[0]}=' in error:
        mended = error.rpartition(': "')[2].removesuffix('"')
        assert "cannot be read: a bracket" not in toy.mobuild("plan", mended, check=False).err


DATA = "npz, images, arrays, jsonl, iterator, transform, limit, format"


@pytest.mark.parametrize(("node", "target"), [("calibration", "engine"), ("validation", "validation")])
def test_data_that_is_null_is_named_with_what_it_may_hold(toy: Project, node: str, target: str) -> None:
    done = toy.mobuild("plan", f"target={target}", "precision=int8", f"nodes.{node}.data=null", check=False)

    assert (done.status, done.out) == (2, ""), done.err
    assert done.errors == (
        f"{NODE} {node!r}, field 'data': expected a mapping with fields of Data, found nothing\n"
        f"  Fields of Data: {DATA}\n  leave it out when there is nothing to say",
    )


def test_data_that_is_a_path_is_told_to_be_a_mapping(toy: Project) -> None:
    done = toy.mobuild("plan", "precision=int8", "nodes.calibration.data=a.npz", check=False)

    assert done.status == 2
    assert done.errors == (
        f"{NODE} 'calibration', field 'data': expected a mapping with fields of Data, found 'a.npz'\n"
        f"  Fields of Data: {DATA}",
    )


def test_a_metric_that_is_null_is_told_what_to_write(toy: Project) -> None:
    words = ("target=validation", "nodes.validation.data={npz: a.npz}", "nodes.validation.metric=null")

    done = toy.mobuild("plan", *words, check=False)

    assert done.status == 2
    assert done.errors == (
        f"{NODE} 'validation', field 'metric': expected text, found nothing\n"
        '  write metric: "file.py:function", or leave it out',
    )


def test_a_hardware_file_without_anything_in_it_is_named(tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path / "cache")
    project.write("conf/hardware/mine.yaml", "# facts to come\n")

    done = project.mobuild("plan", "hardware=mine", check=False)

    assert done.status == 2
    assert done.errors == (
        "conf/hardware/mine.yaml: is empty\n"
        "  write the facts of the device, at least name: mine and vendor: …; conf/README.md says which",
    )


@pytest.mark.parametrize(
    ("word", "message"),
    {
        "workspace=lots": "workspace: expected a size such as 512MiB or 4GiB, found 'lots'",
        "shapes.batch=lots": "recipe 'toy': shapes: axis 'batch': expected numbers, found 'lots'",
        "constraints.accuracy_drop=lots": "recipe 'toy': constraints.accuracy_drop: expected a number, found 'lots'",
    }.items(),
)
def test_a_value_is_checked_where_no_target_reads_it(toy: Project, word: str, message: str) -> None:
    done = toy.mobuild("target=weights", word, check=False)

    assert done.status == 2
    assert done.errors[0].startswith(message)
    assert not (toy.root / "build").exists()


def test_a_choice_may_have_the_ending_that_a_shell_completes(toy: Project) -> None:
    plain = toy.mobuild("plan", "target=onnx", "recipe=toy", "hardware=cpu").out

    assert toy.mobuild("plan", "target=onnx", "recipe=toy.yaml", "hardware=cpu.yaml").out == plain
    swept = toy.mobuild("plan", "target=onnx", "recipe=toy.yaml", "-m", "hardware=cpu.yaml,l20.yaml").out
    assert swept == toy.mobuild("plan", "target=onnx", "recipe=toy", "-m", "hardware=cpu,l20").out


def test_a_request_that_was_refused_leaves_no_folder(toy: Project) -> None:
    done = toy.mobuild("target=onnx", "nodes.onnx.model=gone.py:load", check=False)

    assert done.status == 2
    assert not list((toy.root / "build").glob("*/*"))


def test_a_refused_request_takes_away_what_was_there(tmp_path: Path) -> None:
    project = toy_project(tmp_path)
    project.write("build/toy/cpu/onnx.onnx", "of an earlier build")
    project.edit("recipes/toy.yaml", "toy.py:load", "gone.py:load")

    project.mobuild("target=onnx", check=False)

    assert project.states() == {"weights": "fresh", "onnx": "failed"}
    assert not (project.root / "build/toy/cpu/onnx.onnx").exists()


def test_a_model_beside_a_recipe_is_refused(toy: Project) -> None:
    done = toy.mobuild("plan", "model=det.onnx", "recipe=toy", check=False)

    assert done.status == 2
    assert done.errors == ("model=det.onnx beside recipe=toy: a model stands for a recipe\n  drop one of them",)


def test_two_targets_of_path_are_refused(toy: Project) -> None:
    done = toy.mobuild("path", "engine", "target=onnx", check=False)

    assert done.status == 2
    assert done.errors == ("path engine beside target=…: which of them?\n  drop one of them",)


def test_jobs_that_can_be_composed_run_beside_those_that_cannot(toy: Project) -> None:
    done = toy.mobuild("plan", "-m", "target=onnx,nope", "hardware=cpu,bogus", check=False)

    assert done.status == 2
    assert sorted(message.splitlines()[0] for message in done.errors) == [
        "recipe 'toy': there is no node 'nope' to build.",
        "there is no hardware 'bogus'.",
        "there is no hardware 'bogus'.",
    ]
    assert [line.split()[2] for line in done.out.splitlines()] == ["weights", "onnx"]


def test_a_sweep_goes_over_lists_and_ranges(toy: Project) -> None:
    done = toy.mobuild("plan", "-m", "target=onnx", "nodes.onnx.opset=range(17,20)")

    assert sum(" onnx " in line for line in done.out.splitlines()) == 3


@pytest.mark.parametrize("name", ["torch", "class"])
def test_init_takes_no_name_that_would_hide_a_module(toy: Project, name: str) -> None:
    done = toy.mobuild("init", name, check=False)

    assert done.status == 2
    assert done.errors == (
        f"init: there is a Python module {name!r} already, which recipes/{name}.py would hide from your code\n"
        f"  choose another name, such as {name}_model",
    )


@pytest.mark.parametrize("name", ["null", "true"])
def test_init_takes_no_name_that_a_command_line_takes_for_a_value(toy: Project, name: str) -> None:
    done = toy.mobuild("init", name, check=False)

    assert done.status == 2
    assert done.errors == (
        f"init: recipe={name} means a value and no name\n  choose another name, such as {name}_model",
    )
    assert not (toy.root / "recipes" / f"{name}.yaml").exists()


@pytest.mark.parametrize("name", ["standard", "crepe_tiny"])
def test_init_takes_no_name_of_a_shipped_recipe(toy: Project, name: str) -> None:
    done = toy.mobuild("init", name, check=False)

    assert done.errors == (f"init: {name!r} is a recipe that mobuild ships\n  choose another name",)


def test_overrides_of_a_verb_that_takes_none_are_refused(toy: Project) -> None:
    done = toy.mobuild("clean", "recipe=toy", check=False)

    assert done.status == 2
    assert done.errors == ("clean: what is 'recipe=toy'?\n  mobuild clean takes no overrides",)


SETTINGS = {
    'recipie = "toy"': "unknown key 'recipie'. Did you mean 'recipe'?\n  Keys: recipe, conf",
    "recipe = 5": "recipe: expected text, found 5",
}


@pytest.mark.parametrize(("line", "message"), SETTINGS.items(), ids=list(SETTINGS))
def test_a_wrong_setting_of_the_project_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.mobuild]\n{line}\n")

    done = Project(tmp_path, tmp_path / "cache").mobuild("plan", check=False)

    assert done.status == 2
    (found,) = done.errors
    assert found.startswith(f"{tmp_path}/pyproject.toml: [tool.mobuild]") and found.endswith(message)


def test_a_folder_that_was_removed_is_named(tmp_path: Path) -> None:
    line = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m mobuild plan"

    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (
        2,
        "error: the current folder does not exist any more\n  cd to the project\n",
    )


def test_the_default_recipe_may_have_any_name(tmp_path: Path) -> None:
    project = Project(tmp_path / "Projekt mit Lücke", tmp_path / "cache")
    project.write("recipes/kleines Netz (1).yaml", "nodes: {c: {kind: command, cmd: 'cp README {out}'}}\n")

    done = project.mobuild("plan", "target=c")

    assert done.out == "stale    kleines Netz (1)/cpu c  never built\n"


def test_a_model_named_like_a_recipe_does_not_take_its_folder(toy: Project) -> None:
    done = toy.mobuild("plan", "model=toy.onnx", check=False)

    assert done.status == 2
    assert done.errors[0].startswith("model=toy.onnx: would lie in build/toy, where recipe 'toy' of this project has")


WORDS = {
    **{verb: ["onnx"] for verb in ("path", "log", "command", "shell")},
    "inspect": ["recipes"],
    "pin": ["name"],
    "compare": ["latest", "latest"],
    "cache": ["key"],
    "adopt": ["trtexec", "--onnx=toy.onnx"],
}
FORMATTED = [verb for verb in VERBS if verb not in ("init", "schema", "clean")]  # those take no overrides


@pytest.mark.parametrize("verb", FORMATTED)
def test_a_format_that_only_other_verbs_write_is_refused(toy: Project, verb: str) -> None:
    form = "dot" if verb == "inspect" else "in-toto"

    done = toy.mobuild(verb, f"format={form}", *WORDS.get(verb, []), check=False)

    (found,) = done.errors
    other = "graph" if verb == "inspect" else "inspect"
    assert (done.status, done.out) == (2, "")
    assert found.startswith(f"{verb}: format: expected ")
    assert found.endswith(f", found {form!r}\n  verbs with format={form}: {other}")
