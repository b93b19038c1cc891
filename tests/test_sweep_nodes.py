"""Jobs of a sweep share the nodes that are made of the same, and no others: each job is what it is alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import HydraException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf.errors import OmegaConfBaseException

from mobuild.config.compose import compose_again, hydra_for
from mobuild.config.jobs import Jobs
from mobuild.config.overrides import complete, take_apart
from mobuild.config.project import Project, find_project
from mobuild.errors import MobuildError
from mobuild.launcher.loader import Composed
from tests.projects import recipe_project

# A standard chain, two chains beside each other, and references of each sort.
RECIPES = {
    "one": """\
defaults: [/recipe/standard, _self_]
size: 3
said: ${size}
nodes:
  weights: {uri: a.pt}
  onnx: {model: "net.py:load", inputs: {x: [batch, "${said}"]}}
  calibration: {data: {npz: "${data}.npz"}}
  validation: {data: {npz: "${data}.npz"}, metric: "net.py:score"}
  text: {kind: command, cmd: "cp -${nodes.onnx.opset} ${..size} {out}", out: .txt}
  far: {kind: command, cmd: "cp ${oc.env:FAR,${size}} {out}", out: .txt}
  odd: {kind: command, cmd: "cp ${${which}} {out}", out: .txt}
which: size
data: set
shapes: {batch: [1, 2, 4]}
""",
    "two": """\
shapes: {batch: 1}
nodes:
  det:
    precision: fp16
    shapes: {batch: [1, 4]}
    weights: {kind: source, uri: a.onnx}
    onnx: {kind: sanitize, needs: {model: weights}}
    engine: {kind: build_engine, needs: {model: onnx}}
  cls:
    weights: {kind: source, uri: b.onnx}
    onnx: {kind: sanitize, needs: {model: weights}}
    engine: {kind: build_engine, needs: {model: onnx}}
    note: {kind: command, cmd: "cp ${chain.weights.uri} ${precision} {out}", out: .txt}
  both: {kind: reference_together, needs: {first: det.engine, second: cls.engine}, run: "net.py:run"}
""",
}
WORDS = [
    *("shapes.batch=2", "shapes.batch=[1,2,8]", "precision=int8", "precision=fp16", "hardware=l20", "hardware=l4"),
    *("backend=onnxruntime", "backend=tensorrt_rtx", "workspace=2GiB", "builders=[onnxruntime]", "secrets=[TOKEN]"),
    *("nodes.onnx.opset=20", "nodes.calibration.method=minmax", "nodes.quantized.dynamic=true", "size=4", "said=5"),
    *("data=other", "which=data", "nodes.validation.cmd='python e.py {engine} {out}'", "image.model=mount"),
    *("image.compression=zstd", "image.epoch=7", "toolchain.tensorrt.python=./a", "nodes.onnx.env={A: b}"),
    *(
        "nodes.weights.uri=c.pt",
        "nodes.det.precision=int8",
        "nodes.det.shapes={batch: 3}",
        "nodes.cls.weights.uri=d.onnx",
    ),
    *("nodes.cls.engine.timing_cache=false", "libraries={mine: weights}", "constraints.cosine_min=0.5"),
]
TARGETS = {"one": "[validation,triton,image,text,far,odd]", "two": "[det.engine,cls.engine,cls.note,both]"}
sweeps = st.lists(
    st.tuples(st.sampled_from([*RECIPES]), st.lists(st.sampled_from(WORDS), max_size=3, unique=True)),
    min_size=2,
    max_size=5,
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = recipe_project(tmp_path_factory.mktemp("sweep"), "  text: {kind: source, uri: a.txt}\n", name="other")
    for name, text in RECIPES.items():
        made.write(f"recipes/{name}.yaml", f"# @package _global_\n{text}")
    for name in ("net.py", "e.py", "a.pt", "a.onnx", "set.npz"):
        made.write(f"recipes/{name}" if name.endswith(".py") else name, "def load(): ...\n")
    found = find_project(made.root)
    with hydra_for(found):
        yield found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=sweeps)
def test_a_job_of_a_sweep_is_what_it_is_alone(jobs: list[tuple[str, list[str]]], project: Project) -> None:
    shared = Jobs(find_project(project.root))

    for recipe, words in jobs:
        said = [f"recipe={recipe}", f"target={TARGETS[recipe]}", *words]
        assert made(shared, said) == made(Jobs(find_project(project.root)), said), said


def made(jobs: Jobs, words: list[str]) -> object:
    """The job's nodes, edges and name; what is wrong with it where there is none."""
    try:
        job = jobs.make(Composed.of(compose_again(complete(take_apart(words), jobs.project))))
    except MobuildError as error:
        return type(error), error.message, error.hint
    except (HydraException, OmegaConfBaseException) as error:
        return type(error), str(error)
    return job.variant, dict(job.graph.nodes), dict(job.graph.edges), job.graph.targets, job.constraints, job.hardware


def test_jobs_of_other_sizes_share_what_no_size_is_said_of(project: Project) -> None:
    jobs = Jobs(find_project(project.root))
    words = ["recipe=one", "target=[engine,validation]", "hardware=cpu"]

    one, other = (jobs.make(Composed.of(compose_again([*words, f"shapes.batch={size}"]))) for size in (2, 3))

    same = {name for name, spec in one.graph.nodes.items() if other.graph.nodes[name] is spec}
    assert {"weights", "onnx", "sanitized", "reference"} <= same
    assert "engine" not in same


FOUND_LATER = ("${..${x}}", "${[${x}]}", "${ ${x} }", "${oc.select:${x}}", "${oc.select:si${end}}", "${my-size}")


@pytest.mark.parametrize("reference", FOUND_LATER)
def test_a_reference_that_no_word_of_the_node_tells_is_followed(reference: str, tmp_path: Path) -> None:
    node = f'  text: {{kind: command, cmd: "cp {reference} {{out}}", out: .txt}}\n'
    own = "size: 1\nmy-size: 1\nx: size\nend: ze\n"

    one, other = sweep(tmp_path, node + own, [[], ["my-size=0" if "my-size" in reference else "size=0"]])

    assert (one["text"].node.cmd, other["text"].node.cmd) == ("cp 1 {out}", "cp 0 {out}")


def test_a_node_that_asks_for_engines_itself_follows_them(tmp_path: Path) -> None:
    text = """\
  model: {kind: source, uri: a.onnx}
  engine: {kind: build_engine, needs: {model: model}, shapes: {batch: "${size}"}}
  text: {_target_: mobuild.nodes.triton.Triton, needs: {engine: engine}, given: [engines]}
size: 1
"""

    one, other = sweep(tmp_path, text, [[], ["size=2"]])

    for nodes in one, other:
        assert nodes["text"].node.engines["engine"].shapes == nodes["engine"].node.shapes


def test_a_kind_that_another_key_says_is_of_its_own_job(tmp_path: Path) -> None:
    text = '  model: {kind: source, uri: a.onnx}\n  text: {kind: "${size}", needs: {model: model}}\nsize: sanitize\n'

    one, other = sweep(tmp_path, text, [[], ["size=quantize", "precision=fp16"]])

    assert (one["text"].node.kind, other["text"].node.kind) == ("sanitize", "quantize")


def sweep(root: Path, text: str, jobs: list[list[str]]) -> list[dict[str, Any]]:
    """The nodes of each job of a sweep over a recipe with a node `text`."""
    reading = {"conf/project/none.yaml": "# ${size} ${my-size} ${x} ${end}"}  # keys that nothing refers to are refused
    found = find_project(recipe_project(root, text, reading, name="own").root)
    with hydra_for(found):
        shared = Jobs(found)
        made = [shared.make(Composed.of(compose_again(["recipe=own", "target=text", *words]))) for words in jobs]
    return [dict(job.graph.nodes) for job in made]
