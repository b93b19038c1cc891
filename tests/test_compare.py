"""`mobuild compare A B`: release against release, from what the cache knows; and the gate `constraints.against`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mobuild.errors import ConfigError
from mobuild.gates import check, judge
from mobuild.report import compared
from mobuild.report.comparison import Node, Side, comparison, pairs
from mobuild.runtime.turns import in_turns, interval, verdict
from tests.projects import Finished, Project, recipe_project, validated_project
from tests.store.finished import record
from tests.test_revisions import git

TARGET = "target=[engine,validation]"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """v1 and the working tree after it, both built; v0 has no recipe."""
    project = validated_project(tmp_path_factory.mktemp("compare"))
    project.write(".gitignore", "build/\n")
    git(project, "init", "-q")
    git(project, "add", ".gitignore")
    git(project, "commit", "-q", "-m", "zero")
    git(project, "tag", "v0")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    git(project, "tag", "v1")
    project.mobuild(TARGET)
    project.edit("recipes/late.py", "2.0", "2.5")
    project.edit("recipes/toy.yaml", "[1, 4, 16]", "[1, 4, 32]")
    project.mobuild(TARGET)
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    return built.copy(tmp_path)


def compare(project: Project, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.mobuild("compare", *words, "format=json").out)["comparisons"][0]
    return found


def test_a_revision_and_the_working_tree_are_compared_from_the_cache(built: Project) -> None:
    found = compare(built, "v1", ".")

    accuracy = found["accuracy"][0]
    assert (found["variant"], found["a"]["name"], found["b"]["told"]) == ("toy/cpu", "v1", "the working tree")
    assert (accuracy["node"], accuracy["metric"]) == ("validation", "accuracy")
    assert accuracy["delta"] == accuracy["b"] - accuracy["a"]
    assert accuracy["paired"]["samples"] == 200
    assert found["size"][0]["a_bytes"] > 1000 and found["precision"] == [{"node": "engine", "a": "fp32", "b": "fp32"}]
    assert {"place": "recipes/toy.yaml", "key": "shapes.batch", "a": "[1, 4, 16]", "b": "[1, 4, 32]"} in found[
        "configuration"
    ]
    (code,) = (row for row in found["configuration"] if row["place"] == "onnx")
    assert (code["key"], code["where"]) == ("code.late", "recipes/late.py")
    assert found["notes"] == []


def test_a_cache_that_is_named_from_the_project_on_is_that_of_both_sides(project: Project) -> None:
    shutil.move(project.cache, project.root / "own's cache")

    found = compare(project, "v1", ".", "cache.dir='own\\'s cache'")

    assert found["accuracy"][0]["delta"] is not None and found["notes"] == []


def test_engines_for_other_sizes_are_not_timed(built: Project) -> None:
    assert compare(built, "v1", ".")["latency"] == [{"node": "engine", "not_run": "they were built for other sizes"}]


def test_engines_that_run_here_are_timed_in_turns(project: Project) -> None:
    project.edit("recipes/toy.yaml", "[1, 4, 32]", "[1, 4, 16]")
    project.mobuild(TARGET)

    (found,) = compare(project, "v1", ".")["latency"]

    assert found["a_ms"] > 0 and found["b_ms"] > 0 and found["blocks"] == 20
    assert found["interval"][0] <= found["ratio"] <= found["interval"][1]
    assert found["sizes"] == "x 4×8"


def test_a_revision_with_itself_has_no_differences(built: Project) -> None:
    found = compare(built, "v1", "HEAD")

    assert found["configuration"] == found["tools"] == found["notes"] == []
    assert found["accuracy"][0]["delta"] == 0
    assert found["latency"] == [{"node": "engine", "not_run": "both engines are the same bytes"}]


def test_runs_are_compared_by_what_their_nodes_were_made_of(built: Project) -> None:
    run = json.loads((built.root / "build/toy/cpu/run.json").read_text())["run"]

    found = compare(built, "v1", run)
    latest = compare(built, "v1", "latest")

    assert found["b"]["told"] == f"run {run}" and found["accuracy"] == latest["accuracy"]
    assert {row["key"] for row in found["configuration"] if row["place"] == "onnx"} == {"code.late"}


def test_markdown_is_fit_for_a_merge_request(built: Project) -> None:
    lines = built.mobuild("compare", "v1", ".", "format=markdown").out.splitlines()

    assert lines[0].startswith("### toy/cpu: v1 (commit ") and lines[0].endswith(") → the working tree")
    assert any(line.startswith("| validation | accuracy | 0.") for line in lines)
    assert "| engine | fp32 | fp32 |" in lines
    assert any(line.startswith("<details><summary>configuration: ") for line in lines)


def test_what_is_not_in_the_cache_is_not_run_and_nothing_is_built(built: Project, tmp_path: Path) -> None:
    project = Project(built.root, tmp_path / "empty")

    found = compare(project, "v1", "v1")

    assert found["accuracy"] == [] or found["accuracy"][0]["a"] is None
    assert found["latency"] == [{"node": "engine", "not_run": "no engine of v1 and v1 is in the cache"}]
    assert found["notes"][0] == ("not run at v1: onnx (stale: never built), sanitized, engine, reference, validation")
    assert found["notes"][1] == (
        "compare.build=true builds it, as mobuild recipe=toy 'target=[engine,validation]' does there"
    )
    assert not list((tmp_path / "empty/records").iterdir())


def test_compare_build_makes_what_is_missing(built: Project, tmp_path: Path) -> None:
    project = Project(built.root, tmp_path / "empty")

    found = compare(project, "v1", "v1", "compare.build=true")

    assert found["notes"] == [] and found["accuracy"][0]["a"] is not None


def test_a_build_that_fails_on_a_side_is_status_1(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  c: {kind: command, cmd: 'false {out}', out: .txt}\n")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")

    done = project.mobuild("compare", "HEAD", ".", "target=c", "compare.build=true", check=False)

    assert done.status == 1
    told = [line.partition(" (")[0] for line in done.out.splitlines() if line.startswith("note: ")]
    assert told == ["note: not run at HEAD: c", "note: not run at .: c"]


def refused(done: Finished, status: int, message: str) -> None:
    assert done.status == status and message in done.err, done.err
    assert done.out == ""


def test_words_that_mean_nothing_are_refused(built: Project) -> None:
    refused(built.mobuild("compare", "v1", check=False), 2, "compare: expected two revisions or runs, found 1")
    refused(built.mobuild("compare", "v1", "v9", check=False), 2, "there is no revision 'v9'")
    refused(built.mobuild("compare", "v0", "v1", check=False), 2, "at v0, these words cannot be composed")
    refused(built.mobuild("compare", "v1", "20200101-000000-abcd", check=False), 1, "is not known")
    refused(built.mobuild("compare", "v1", ".", "format=dot", check=False), 2, "expected one of text, json, markdown")
    refused(built.mobuild("compare", "v1", "latest", "hardware=l4", check=False), 1, "has no toy/l4; it has toy/cpu")


def test_a_project_outside_git_can_compare_runs_alone(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  c: {kind: command, cmd: 'touch {out}', out: .txt}\n")
    project.mobuild("target=c")

    refused(project.mobuild("compare", "HEAD", ".", "target=c", check=False), 2, "not a git repository")
    assert compare(project, "latest", "latest", "target=c")["notes"] == []


def side(name: str, **nodes: Node) -> Side:
    return Side(name, name, nodes, None)


def validated(**metrics: Any) -> Node:
    found = {name: {"value": value, "better": "higher"} for name, value in metrics.items()}
    return Node("validate", "fresh", (), record(measurements={"metrics": found}))


def test_a_renamed_node_is_the_only_other_one_of_its_kind() -> None:
    a, b = side("a", proof=validated(top1=0.5)), side("b", validation=validated(top1=0.6))

    found = comparison(a, b, {})

    assert pairs(a, b) == {"proof": "validation"}
    assert round(found["accuracy"][0]["delta"], 9) == 0.1
    assert found["notes"] == ["'proof' of a is compared with 'validation' of b, the only other one of its kind"]


def test_metrics_of_one_side_have_no_difference() -> None:
    found = comparison(side("a", v=validated(top1=0.5)), side("b", v=validated(top5=0.9)), {})

    assert [(row["metric"], row["a"], row["b"], row["delta"]) for row in found["accuracy"]] == [
        ("top1", 0.5, None, None),
        ("top5", None, 0.9, None),
    ]
    assert "\n".join(compared.lines({"variant": "x", **found})).count(" - ") >= 2


def test_markup_in_names_stays_text() -> None:
    found = comparison(side("a|b", v=validated(**{"<b>|`x": 0.5})), side("c", v=validated()), {})

    text = "\n".join(compared.markdown({"variant": "x", **found}))
    assert "\\<b\\>\\|\\`x" in text and "a\\|b" in text


class Clock:
    """Time that goes on by what each run takes, and slows down as the machine warms up."""

    def __init__(self) -> None:
        self.now, self.drift = 0.0, 1.0

    def __call__(self) -> float:
        return self.now

    def run(self, seconds: float) -> None:
        self.now += seconds * self.drift
        self.drift *= 1.001


def test_a_drifting_machine_does_not_change_the_ratio() -> None:
    clock = Clock()

    found = in_turns(lambda: clock.run(0.010), lambda: clock.run(0.011), 20, 0.05, clock)

    assert abs(found["ratio"] - 1.1) < 0.01
    assert found["verdict"] == "slower" and found["interval"][0] > 1.05


def test_equal_engines_are_shown_no_difference() -> None:
    clock = Clock()

    found = in_turns(lambda: clock.run(0.010), lambda: clock.run(0.010), 20, 0.05, clock)

    assert found["verdict"] == "no difference shown"


def test_an_interval_that_holds_one_claims_nothing() -> None:
    low, high = interval([0.9, 1.1] * 10)

    assert low <= 1 <= high and verdict(low, high) == "no difference shown"
    assert verdict(0.8, 0.9) == "faster" and verdict(1.1, 1.2) == "slower"


MEASURED = {"metrics": {"top1": {"value": 0.90, "better": "higher"}, "loss": {"value": 0.30, "better": "lower"}}}


def test_a_metric_is_judged_against_another_revision() -> None:
    limit = {"ref": "v1", "accuracy_drop": 0.01, "baseline": {"validation": {"top1": 0.92, "loss": 0.295}}}

    judged = judge("validate", MEASURED, {"against": limit}, ["validation"])
    met = judge("validate", MEASURED, {"against": {**limit, "accuracy_drop": 0.03}}, ["validation"])

    assert judged and judged.misses == (
        "against v1: accuracy_drop of metric 'top1': 0.92 there, 0.9 here: 0.02, allowed at most 0.01",
    )
    assert met and (met.word, met.misses) == ("passed", ())


def test_a_loss_where_another_revision_has_none_is_beyond_every_relative_drop() -> None:
    limit = {"ref": "v1", "accuracy_drop_relative": 0.5, "baseline": {"validation": {"loss": 0.0, "top1": 0.9}}}

    judged = judge("validate", MEASURED, {"against": limit}, ["validation"])

    assert judged and judged.misses == (
        "against v1: accuracy_drop_relative of metric 'loss': 0 there, 0.3 here: inf, allowed at most 0.5",
    )


def test_each_validation_is_judged_against_its_own_of_another_revision() -> None:
    baseline = {"enc.validation": {"top1": 0.90}, "dec.validation": {"top1": 0.99}}
    limit = {"ref": "v1", "accuracy_drop": 0.01, "baseline": baseline}

    judged = [judge("validate", MEASURED, {"against": limit}, [name]) for name in [*baseline, "new.validation"]]

    assert [each and each.word for each in judged] == ["passed", "failed", "not run"]


def test_a_baseline_that_is_not_there_blocks_unless_allowed() -> None:
    limit = {"ref": "v1", "accuracy_drop": 0.01, "missing": "its validation is not in the cache"}

    strict = judge("validate", MEASURED, {"against": limit})
    allowed = judge("validate", MEASURED, {"against": limit, "allow_unmeasured": True})

    assert strict and strict.misses == ("against v1: not run: its validation is not in the cache",)
    assert allowed and (allowed.word, allowed.blocks) == ("not run", False)


@pytest.mark.parametrize(
    "value", ["v1", {"accuracy_drop": 1}, {"ref": "v1"}, {"ref": "v1", "drop": 1}, {"ref": "v1", "accuracy_drop": "x"}]
)
def test_a_constraint_that_cannot_be_understood_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"constraints\.against"):
        check({"against": value}, "recipe 'det'")


AGAINST = "++constraints.against={ref:v1,accuracy_drop:0.5}"


def test_a_build_is_judged_against_the_record_of_a_revision(project: Project) -> None:
    met = project.mobuild("target=validation", AGAINST)
    missed = project.mobuild("target=validation", AGAINST.replace("0.5", "-0.5"), check=False)
    planned = project.mobuild("plan", "target=validation", AGAINST.replace("0.5", "-0.5"), check=False)

    assert "; passed" in met.err
    assert missed.status == planned.status == 1
    assert "against v1: accuracy_drop of metric 'accuracy': " in missed.err
    assert "gate failed: against v1: accuracy_drop of metric 'accuracy': " in planned.out


def test_a_revision_that_was_never_validated_blocks_with_the_command(project: Project) -> None:
    project.edit("recipes/late.py", "2.5", "2.25")
    git(project, "commit", "-qam", "second")
    git(project, "tag", "v2")
    project.edit("recipes/late.py", "2.25", "2.5")
    word = AGAINST.replace("v1", "v2")

    blocked = project.mobuild("target=validation", word, check=False)
    allowed = project.mobuild("target=validation", word, "++constraints.allow_unmeasured=true")

    assert blocked.status == 1 and allowed.status == 0
    assert (
        "against v2: not run: its validation is not in the cache; "
        "mobuild compare v2 . compare.build=true target=validation recipe=toy makes it"
    ) in blocked.err


def test_git_that_is_not_there_is_told(built: Project, tmp_path: Path) -> None:
    python = shutil.which("python3") or ""
    (tmp_path / "python3").symlink_to(python)

    done = built.mobuild("compare", "v1", ".", check=False, env={"PATH": str(tmp_path)})

    refused(done, 2, "git is not installed")


def test_a_dirty_tree_is_named_as_what_it_is(built: Project) -> None:
    assert subprocess.run(["git", "diff", "--quiet"], cwd=built.root).returncode == 1

    assert compare(built, "HEAD", "worktree")["configuration"]
