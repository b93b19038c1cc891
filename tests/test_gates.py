"""Gates: judged from stored measurements, by the constraints of each job."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from mobuild.errors import ConfigError
from mobuild.gates import check, judge
from tests.projects import Project, toy_project

MEASURED = {
    "device": "real",
    "metrics": {"pitch": {"reference": 0.96, "value": 0.93, "drop": 0.03, "drop_relative": 0.03125}},
    "tensors": {"y": {"cosine_mean": 0.97, "max_abs": 0.5}},
}


@pytest.mark.parametrize(
    ("constraints", "word", "misses"),
    [
        ({"accuracy_drop": 0.03, "cosine_min": 0.97}, "passed", ()),
        (
            {"accuracy_drop": 0.01, "cosine_min": 0.98},
            "failed",
            (
                "accuracy_drop of metric 'pitch': measured 0.03, allowed at most 0.01",
                "cosine_min of output 'y': measured 0.97, allowed at least 0.98",
            ),
        ),
        ({"max_abs": 0.4}, "failed", ("max_abs of output 'y': measured 0.5, allowed at most 0.4",)),
    ],
)
def test_a_measurement_is_judged(constraints: dict[str, float], word: str, misses: tuple[str, ...]) -> None:
    judged = judge("validate", MEASURED, constraints)

    assert judged is not None
    assert (judged.word, judged.misses) == (word, misses)


def test_what_is_worse_than_a_reference_of_zero_is_beyond_every_relative_drop() -> None:
    """Beside metrics that keep to the limit it must not pass for one of them."""
    errors = {"reference": 0.0, "value": 0.3, "drop": 0.3, "drop_relative": None}
    measured = {**MEASURED, "metrics": {**MEASURED["metrics"], "errors": errors}}  # type: ignore[dict-item]

    judged = judge("validate", measured, {"accuracy_drop_relative": 0.1})
    kept = judge(
        "validate",
        {**measured, "metrics": {**measured["metrics"], "errors": {**errors, "drop": 0.0}}},
        {"accuracy_drop_relative": 0.1},
    )  # type: ignore[dict-item]

    assert judged is not None and judged.misses == (
        "accuracy_drop_relative of metric 'errors': measured inf, allowed at most 0.1",
    )
    assert kept is not None and kept.word == "passed"


def test_what_was_measured_by_proxy_is_said_to_be() -> None:
    judged = judge("validate", {**MEASURED, "device": "proxy"}, {"cosine_min": 0.9})

    assert judged is not None and judged.word == "proxy" and not judged.blocks


def test_what_nobody_measured_blocks_unless_allowed() -> None:
    nothing = {"device": "real", "tensors": {}}

    strict = judge("validate", nothing, {"accuracy_drop": 0.1})
    allowed = judge("validate", nothing, {"accuracy_drop": 0.1, "allow_unmeasured": True})

    assert strict is not None and strict.misses == (
        "accuracy_drop: not measured (the validation has neither metric nor cmd), wanted at most 0.1",
    )
    assert allowed is not None and (allowed.word, allowed.blocks) == ("not run", False)


def test_outputs_that_a_script_does_not_measure_say_so() -> None:
    judged = judge("validate", {"device": "real", "metrics": MEASURED["metrics"]}, {"cosine_min": 0.9})

    assert judged is not None and judged.misses == (
        "cosine_min: not measured (a script of your own measures no outputs; give the validation data as well), "
        "wanted at least 0.9",
    )


def test_a_constraint_concerns_one_kind() -> None:
    assert judge("build_engine", MEASURED, {"accuracy_drop": 0.0}) is None
    assert judge("validate", MEASURED, {}) is None


def test_an_unknown_constraint_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        check({"acuracy_drop": 0.1}, "recipe 'det'")

    assert caught.value.message == "recipe 'det': unknown constraint 'acuracy_drop'. Did you mean 'accuracy_drop'?"


@pytest.mark.parametrize("limits", [{"engine_mb": math.nan}, {"against": {"ref": "v1", "accuracy_drop": math.nan}}])
def test_a_limit_that_nothing_exceeds_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected a number, found nan"):
        check(limits, "recipe 'det'")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The toy project with its engine, and a node below it."""
    project = toy_project(tmp_path_factory.mktemp("gates"))
    recipe = (project.root / "recipes/toy.yaml").read_text()
    project.write("recipes/toy.yaml", recipe + "  # below the engine\n")
    project.edit(
        "recipes/toy.yaml",
        "shapes:",
        '  after: {kind: command, cmd: "cp {in.engine} {out}", in: {engine: engine}}\nshapes:',
    )
    project.mobuild("target=engine")
    return project


def test_a_changed_tolerance_runs_nothing_and_changes_the_verdict(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)

    missed = project.mobuild("target=[engine,after]", "++constraints.engine_mb=0.000001", check=False)
    states = project.states()
    run = json.loads((project.root / "build/toy/cpu/run.json").read_text())
    met = project.built("target=[engine,after]", "++constraints.engine_mb=1")

    assert missed.status == 1
    assert "recipe 'toy', variant 'cpu', node 'engine': gate failed; blocks after" in missed.err
    assert "engine_mb of the engine: measured" in missed.err
    assert (states["engine"], states["after"]) == ("fresh", "blocked")
    assert run["nodes"]["engine"]["verdict"] == "failed"
    assert met == {"after"}


def test_jobs_of_one_sweep_are_judged_by_their_own_constraints(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)

    done = project.mobuild("-m", "target=after", "++constraints.engine_mb=0.000001,1", check=False)

    assert done.status == 1
    assert done.err.count("gate failed") == 1
    assert done.out.count("after") == 1


@pytest.mark.parametrize("key", ["latency_p50_ms", "latency_p99_ms", "memory_mib"])
def test_what_no_kind_can_measure_yet_blocks_a_validation(key: str) -> None:
    judged = judge("validate", MEASURED, {key: 1})

    assert judged is not None
    assert (judged.word, judged.misses) == (
        "not run",
        (f"{key}: this version of mobuild measures it nowhere, wanted at most 1",),
    )


def test_a_plan_judges_what_is_fresh(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.mobuild("target=after")

    plan = project.mobuild("plan", "target=after", "++constraints.engine_mb=0.000001", check=False)
    rows = {line.split()[2]: line for line in plan.out.splitlines() if " toy/" in line}

    assert plan.status == 1
    assert rows["engine"].startswith("fresh") and "gate failed: engine_mb of the engine: measured" in rows["engine"]
    assert rows["after"].startswith("blocked") and rows["after"].endswith("'engine' misses its constraints")


def test_what_misses_its_gate_is_not_delivered(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    engine = project.root / "build/toy/cpu/engine.onnx"
    assert engine.exists()

    missed = project.mobuild("target=[engine,after]", "++constraints.engine_mb=0.000001", check=False)

    run = json.loads((project.root / "build/toy/cpu/run.json").read_text())
    assert missed.out == ""
    assert not engine.exists()
    assert "path" not in run["nodes"]["engine"] and run["nodes"]["engine"]["measurements"]["engine_bytes"] > 1
    assert project.mobuild("target=[engine,after]").out.count("\n") == 2


def test_the_api_raises_a_missed_gate(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    code = """
import mobuild
from mobuild.errors import GateFailed
try:
    mobuild.build("engine", **{"++constraints.engine_mb": 0.000001})
except GateFailed as error:
    print(error.message)
"""

    assert project.python(code).out == "recipe 'toy', variant 'cpu', node 'engine': gate failed\n"
