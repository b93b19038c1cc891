"""The command line as people and scripts see it: statuses, first lines of messages, what goes where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mobuild
from mobuild.config.calls import VERBS
from tests.projects import Project, toy_project


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return toy_project(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def empty(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project", tmp_path / "cache")


def first_line(text: str) -> str:
    return text.splitlines()[0]


def test_version(empty: Project) -> None:
    assert empty.mobuild("--version").out == f"mobuild {mobuild.__version__}\n"


NOT_UNDERSTOOD = [
    (["biuld"], "error: there is no verb 'biuld'. Did you mean 'build'?"),
    (["engine"], "error: there is no verb 'engine'."),
    (["plan", "engine"], "error: plan: what is 'engine'?"),
    (["target=enigne"], "error: recipe 'toy': there is no node 'enigne' to build. Did you mean 'engine'?"),
    (["target=onnx,engine"], "error: target=onnx,engine: a value with commas is a sweep"),
    (
        ["target=onnx", "nodes.onnx.opste=17"],
        "error: recipe 'toy', node 'onnx': unknown field 'opste'. Did you mean 'opset'?",
    ),
    (
        ["target=onnx", "nodes.onnx.opset=17.0"],
        "error: recipe 'toy', node 'onnx', field 'opset': expected a whole number, found 17.0",
    ),
    (
        ["target=onnx", "nodes.onnx.kind=exprot"],
        "error: recipe 'toy', node 'onnx': there is no kind 'exprot'. Did you mean 'export'?",
    ),
    (["backend=tensort"], "error: there is no backend 'tensort'. Did you mean 'tensorrt'?"),
    (["hardware=l21"], "error: there is no hardware 'l21'. Did you mean 'l20'?"),
    (["wrkspace=1GiB"], "error: there is no key 'wrkspace'. Did you mean 'workspace'?"),
    (["init"], "error: init: expected one name"),
    (["init", "Two-Words"], "error: init: 'Two-Words' is no name for a recipe"),
    (["clean", "all"], "error: clean: what is 'all'?"),
    (["--mutlirun"], "error: there is no flag '--mutlirun'. Did you mean '--multirun'?"),
    (["list", "--foo"], "error: there is no flag '--foo'."),
    (["clean", "-m"], "error: clean: what is '-m'?"),
    (["plan", "--cfg"], "error: --cfg: expected a value after it"),
    (["--cfg", "jobs"], "error: --cfg/-c: invalid choice: 'jobs' (choose from 'job', 'hydra', 'all')"),
    (["-sc"], "error: --shell-completion: expected install=bash, or zsh, or fish"),
]


@pytest.mark.parametrize(
    ("words", "message"), NOT_UNDERSTOOD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_request_that_is_not_understood_is_status_2_and_says_why(
    toy: Project, words: list[str], message: str
) -> None:
    done = toy.mobuild(*words, check=False)

    assert (done.status, done.out) == (2, "")
    assert first_line(done.err).startswith(message)
    assert "Traceback" not in done.err


def test_flags_may_stand_anywhere(toy: Project) -> None:
    before = toy.mobuild("-m", "plan", "target=onnx", "hardware=cpu,l20").out
    between = toy.mobuild("plan", "target=onnx", "-m", "hardware=cpu,l20").out

    assert before == between
    assert "toy/cpu onnx (and 1 more)" in before


def test_cfg_shows_the_composed_config(toy: Project) -> None:
    done = toy.mobuild("plan", "--cfg", "job", "workspace=2GiB")

    assert "workspace: 2GiB" in done.out


def test_help_names_the_verbs_and_the_choices(toy: Project) -> None:
    text = toy.mobuild("--help").out

    for word in ("plan", "why", "init", "hardware:", "recipe:", "mobuild -m target=engine"):
        assert word in text
    assert "powered by Hydra" not in text


def test_help_has_a_line_for_every_verb(toy: Project) -> None:
    told = [
        line.split()[0] for line in toy.mobuild("--help").out.splitlines() if line.startswith("  ") and line.split()
    ]

    assert set(VERBS) <= set(told)


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("init", "mobuild init NAME, or weights.pt, det.onnx, hf:org/name: write a recipe\n"),
        ("adopt", "mobuild adopt -- LINE: write a recipe from a line of trtexec, Polygraphy, onnxsim, …\n"),
        ("clean", "mobuild clean: remove build/, never the cache\n"),
    ],
)
def test_help_of_a_verb_that_chooses_nothing_is_its_own(empty: Project, verb: str, told: str) -> None:
    assert empty.mobuild(verb, "--help").out == told + "mobuild --help: all verbs\n"


def test_a_blocked_source_says_the_command_that_pins_it(empty: Project) -> None:
    empty.write("recipes/far.yaml", "# @package _global_\nnodes: {w: {kind: source, uri: 'https://host/w.pt'}}\n")

    done = empty.mobuild("plan", "target=w", check=False)

    assert done.out.splitlines()[0].endswith("'https://host/w.pt' is not pinned; mobuild lock target=w recipe=far")


def test_a_plan_is_data_too(toy: Project) -> None:
    document = json.loads(toy.mobuild("plan", "target=engine", "format=json").out)

    assert document["schema"] == 1
    assert [step["state"] for step in document["steps"]] == ["fresh", "stale", "waiting", "waiting"]


def test_a_plan_writes_nothing_into_the_project(toy: Project) -> None:
    before = sorted(toy.root.rglob("*"))

    toy.mobuild("plan", "target=engine")

    assert sorted(toy.root.rglob("*")) == before


def test_list_names_recipes_and_groups(toy: Project) -> None:
    rows = dict(line.split(maxsplit=1) for line in toy.mobuild("list").out.partition("\n\n")[0].splitlines())

    assert rows["recipe"].split() == ["crepe_tiny", "minilm", "toy"]
    assert {"cpu", "l20", "l4", "t4", "gtx1070"} <= set(rows["hardware"].split())


def test_list_names_the_targets_of_the_recipe_with_their_kinds(toy: Project) -> None:
    own = toy.mobuild("list").out.partition("\n\n")[2].splitlines()
    chosen = json.loads(toy.mobuild("list", "recipe=minilm", "format=json").out)["target"]

    assert own[0] == "targets of recipe toy, and their kinds:"
    assert [line.split() for line in own[1:4]] == [["weights", "source"], ["onnx", "export"], ["sanitized", "sanitize"]]
    assert (chosen["recipe"], chosen["kinds"]["tokenizer"]) == ("minilm", "source")


def test_list_of_a_recipe_that_there_is_not_is_status_2(toy: Project) -> None:
    done = toy.mobuild("list", "recipe=toys", check=False)

    assert done.status == 2
    assert done.errors[0].startswith("there is no recipe 'toys'. Did you mean 'toy'?")


def test_help_offers_no_recipe_that_is_there_to_be_built_on(toy: Project) -> None:
    text = toy.mobuild("--help").out

    assert "recipe: crepe_tiny, minilm, toy\n" in text
    assert "onnx_file" not in text and "standard" not in text


def test_a_list_without_a_recipe_to_choose_is_still_a_list(toy: Project, tmp_path: Path) -> None:
    project = Project(tmp_path, toy.cache)
    for name in ("det", "cls"):
        project.write(f"recipes/{name}.yaml", "# @package _global_\ndefaults: [/recipe/standard, _self_]\n")

    done = project.mobuild("list")

    assert "recipe     cls crepe_tiny det minilm\n" in done.out
    assert done.err.startswith(f"note: no targets are shown: {tmp_path}/recipes: which of the recipes cls, det?")


def test_the_path_of_what_was_not_built_says_how_to_build_it(toy: Project) -> None:
    done = toy.mobuild("path", "engine", "hardware=t4", check=False)

    assert done.status == 1
    assert "'engine' is not built; expected" in done.err
    assert "build it: mobuild hardware=t4 target=engine" in done.err


def test_clean_removes_build_and_not_the_cache(empty: Project) -> None:
    empty.write("build/toy/cpu/engine.onnx", "old")
    empty.write("build/toy/cpu/run.json", "{}")

    empty.mobuild("clean")

    assert not (empty.root / "build").exists()
    assert empty.mobuild("clean").out.startswith("nothing to clean")


def test_clean_leaves_what_others_keep_in_build(empty: Project) -> None:
    for name in ("toy/cpu/run.json", "det/l4/.engine.plan-x1/new/a", ".answers/1", "lib/ops.so", "CMakeCache.txt"):
        empty.write(f"build/{name}", "{}")

    done = empty.mobuild("clean")

    assert sorted(path.name for path in (empty.root / "build").iterdir()) == ["CMakeCache.txt", "lib"]
    assert done.out == (
        f"removed what mobuild made in {empty.root}/build, and nothing else there; the cache still has every artifact\n"
    )


def test_clean_empties_a_folder_elsewhere_and_leaves_the_link_to_it(empty: Project, tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (empty.root / "build").symlink_to(tmp_path / "large disk")
    empty.write("build/toy/cpu/run.json", "{}")

    done = empty.mobuild("clean")

    assert list((tmp_path / "large disk").iterdir()) == []
    assert (empty.root / "build").is_symlink()
    assert done.out == f"removed what was in {empty.root}/build; the cache still has every artifact\n"


def test_clean_takes_a_link_in_build_and_not_what_is_behind_it(empty: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    empty.write("build/CMakeCache.txt", "")
    (empty.root / "build/toy").symlink_to(tmp_path / "elsewhere")
    empty.write("build/toy/cpu/run.json", "{}")

    empty.mobuild("clean")

    assert [path.name for path in (empty.root / "build").iterdir()] == ["CMakeCache.txt"]
    assert (tmp_path / "elsewhere/cpu/run.json").exists()


def test_several_recipes_without_a_default_are_listed(toy: Project, tmp_path: Path) -> None:
    project = Project(tmp_path, toy.cache)
    for name in ("det", "cls"):
        project.write(f"recipes/{name}.yaml", "# @package _global_\ndefaults: [/recipe/standard, _self_]\n")

    done = project.mobuild("plan", check=False)

    assert done.status == 2
    assert first_line(done.err) == f"error: {tmp_path}/recipes: which of the recipes cls, det?"


def test_a_recipe_that_is_no_yaml_is_named(empty: Project) -> None:
    empty.write("recipes/det.yaml", "nodes: {onnx: [\n")

    done = empty.mobuild("plan", check=False)

    assert done.status == 2
    assert first_line(done.err).startswith(f"error: {empty.root}/recipes/det.yaml: cannot be read as YAML:")
    assert "line 2" in done.err


def test_a_foreign_hydra_conf_is_left_alone_and_named_by_the_verbs_that_look_around(empty: Project) -> None:
    empty.write("conf/config.yaml", "defaults: [model: resnet]\nlr: 0.1\n")
    empty.write("conf/model/resnet.yaml", "depth: 50\n")
    told = (
        f"note: {empty.root}/conf has no folder of mobuild's groups (node, hardware, backend, precision, shapes, "
        'toolchain, executor, project) and is left alone; to use it, write [tool.mobuild] conf = "conf" in '
        'pyproject.toml; conf = "" ends this note\n'
    )

    planned, listed = empty.mobuild("plan", "target=onnx"), empty.mobuild("list")
    empty.write("pyproject.toml", '[tool.mobuild]\nconf = ""\n')
    silenced = empty.mobuild("list")

    assert "crepe_tiny/cpu onnx" in planned.out and "left alone" not in planned.err
    assert told in listed.err
    assert "left alone" not in silenced.err and silenced.out == listed.out


def test_a_projects_own_conf_overrides_and_extends(empty: Project) -> None:
    empty.write("conf/project/default.yaml", "# @package _global_\nworkspace: 3GiB\n")
    empty.write(
        "conf/hardware/mine.yaml", 'name: mine\nvendor: nvidia\ncompute_capability: "8.6"\nbackends: [tensorrt_rtx]\n'
    )

    assert "workspace: 3GiB" in empty.mobuild("--cfg", "job").out
    assert "workspace: 1GiB" in empty.mobuild("--cfg", "job", "workspace=1GiB").out
    assert "crepe_tiny/mine engine" in empty.mobuild("plan", "hardware=mine").out


def test_a_misspelt_key_of_a_hardware_file_is_named(empty: Project) -> None:
    empty.write("conf/hardware/mine.yaml", "name: mine\nvendor: nvidia\nmemory_gb: 8\n")

    done = empty.mobuild("plan", "hardware=mine", check=False)

    assert done.status == 2
    assert (
        first_line(done.err) == "error: conf/hardware/mine.yaml: unknown field 'memory_gb'. Did you mean 'memory_gib'?"
    )


def test_several_chains_meet(empty: Project) -> None:
    empty.write(
        "recipes/pair.yaml",
        """\
# @package _global_
nodes:
  enc:
    weights: {kind: source, uri: enc.pt}
    onnx: {kind: export, model: "pair.py:enc", inputs: {x: [batch, 4]}}
  dec:
    weights: {kind: source, uri: dec.pt}
    onnx: {kind: export, model: "pair.py:dec", inputs: {x: [batch, 4]}}
  both: {kind: command, cmd: "cat {in.one} {in.two}", needs: {one: enc.onnx, two: dec.onnx}}
""",
    )
    empty.write("recipes/pair.py", "def enc(weights): ...\ndef dec(weights): ...\n")
    empty.write("enc.pt", "e")
    empty.write("dec.pt", "d")

    rows = [line.split()[:3] for line in empty.mobuild("plan", "target=[both,onnx]").out.splitlines()]

    assert rows == [
        ["fresh", "pair/cpu", "enc.weights"],
        ["stale", "pair/cpu", "enc.onnx"],
        ["fresh", "pair/cpu", "dec.weights"],
        ["stale", "pair/cpu", "dec.onnx"],
        ["waiting", "pair/cpu", "both"],
    ]


def test_chosen_shapes_replace_the_recipes_whole(toy: Project, tmp_path: Path) -> None:
    project = toy.copy(tmp_path) if toy.cache.exists() else toy
    project.write("conf/shapes/long.yaml", "- {batch: [1, 2, 4]}\n- {batch: [8, 16, 32]}\n")

    done = project.mobuild("plan", "target=engine", "shapes=long", "hardware=l20")

    assert "toy/l20+long engine" in done.out
    mixed = project.mobuild("plan", "shapes=long", "shapes.batch=[1,2,3]", check=False)
    assert mixed.status == 2
    assert first_line(mixed.err).startswith("error: shapes.batch=[1,2,3] beside shapes=NAME")


def test_shapes_given_as_a_list_replace_the_recipes_whole(toy: Project) -> None:
    done = toy.mobuild("--cfg", "job", "shapes=[{batch: [1, 2, 4]}, {batch: [8, 16, 32]}]")

    assert "chosen_shapes:\n- batch:\n  - 1\n" in done.out
    planned = toy.mobuild("plan", "target=engine", "hardware=l20", "shapes=[{batch: [1, 2, 4]}, {batch: 8}]")
    assert planned.out.splitlines()[-1].startswith("waiting  toy/l20+")


def test_a_plan_imports_no_heavy_library(toy: Project) -> None:
    code = (
        "import sys; from mobuild.cli import run; status = run(['plan', 'target=engine']);"
        "heavy = {'torch', 'onnx', 'numpy', 'onnxruntime', 'tensorrt_rtx', 'joblib'} & set(sys.modules);"
        "assert not heavy, heavy; sys.exit(status)"
    )

    toy.python(code)


def test_broken_yaml_of_a_group_is_the_users_to_mend(empty: Project) -> None:
    empty.write("conf/hardware/mine.yaml", "name: [\n")

    done = empty.mobuild("plan", "hardware=mine", check=False)

    assert done.status == 2
    assert "cannot be read as YAML" in first_line(done.err)
    assert "conf/hardware/mine.yaml" in done.err
    assert "fault in mobuild" not in done.err
