"""A job of a sweep is composed as Hydra composes it: values, order, flags and types, and errors too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from mobuild.config.compose import PRIMARY, compose_again, hydra_for
from mobuild.config.jobs import Jobs
from mobuild.config.project import find_project
from mobuild.job import Job
from mobuild.launcher.loader import Composed, SharingLoader
from tests.projects import recipe_project

RECIPE = """\
  text: {kind: source, uri: text.txt}
  end: {kind: command, cmd: "cp ${width} {in.text} {out}", in: {text: text}, out: .txt}
width: 0
names: [one, two]
table: {a: 1, b: {c: 2}}
"""
VALUES = ["1", "2.5", "null", "true", "''", "a b".join("''"), "[1,2]", "{c: 3}", "${width}", "${hardware.name}", "x,y"]
KEYS = ["width", "names", "table", "table.a", "table.b.c", "names.0", "target", "workspace", "nodes.end.cmd", "none.at"]
GROUPS = ["hardware=l20", "hardware=cpu", "precision=fp16", "precision=int8", "backend=onnxruntime", "recipe=other"]
ODD = [
    *("~width", "~table.a", "~table.a=1", "~none", "~precision", "~hardware=cpu", "hardware={name: mine}"),
    *("+hardware@second=l4", "hardware@table=l4", "hardware=none", "+precision=fp16", "++precision=fp16"),
    *(
        "hydra.job.name=mine",
        "hydra.verbose=true",
        "hydra/help=mobuild",
        "hydra.searchpath=[]",
        "hydra={verbose: true}",
    ),
    *("hydra.job.env_copy=[HOME]", "hydra.job.config.override_dirname.exclude_keys=[width]"),
    *("table.a=${oc.env:HOME}", "width=[", "width", "~table", "chosen_shapes=[{a: 1}]"),
]
assignments = st.builds(
    lambda prefix, key, value: f"{prefix}{key}={value}",
    st.sampled_from(["", "", "", "+", "++"]),
    st.sampled_from(KEYS),
    st.sampled_from(VALUES),
)
lists = st.lists(st.one_of(assignments, st.sampled_from(GROUPS), st.sampled_from(ODD)), max_size=5)


@pytest.fixture(scope="module")
def loaders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ConfigLoaderImpl, SharingLoader, DictConfig]]:
    """Hydra's loader, ours on the same state, and the config of a sweep."""
    project = recipe_project(tmp_path_factory.mktemp("sweep"), RECIPE)
    project.write("recipes/other.yaml", f"# @package _global_\ndefaults: [small, _self_]\nwidth: {7}\n")
    project.write("conf/hardware/mine.yaml", "name: mine\nvendor: cpu\nbackends: [onnxruntime]\n")
    with hydra_for(find_project(project.root)):
        sharing = GlobalHydra.instance().config_loader()
        own = ConfigLoaderImpl(sharing.config_search_path)
        yield own, sharing, own.load_configuration(PRIMARY, ["recipe=small"], RunMode.MULTIRUN)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=lists)
def test_a_job_is_what_hydra_composes(
    words: list[str], loaders: tuple[ConfigLoaderImpl, SharingLoader, DictConfig]
) -> None:
    own, sharing, master = loaders

    assert outcome(sharing, master, ["recipe=small", *words]) == outcome(own, master, ["recipe=small", *words])


def test_jobs_with_the_same_choices_share_one_composition(
    loaders: tuple[ConfigLoaderImpl, SharingLoader, DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing, master = loaders
    composed: list[list[str]] = []
    hydras = ConfigLoaderImpl.load_configuration

    def counted(self: Any, name: str, overrides: list[str], *rest: Any, **more: Any) -> Any:
        composed.append(overrides)
        return hydras(self, name, overrides, *rest, **more)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", counted)
    for i in range(20):
        sharing.load_sweep_config(master, ["recipe=other", f"width={i}", f"hardware={('l4', 'gtx1070')[i % 2]}"])

    assert composed == [["recipe=other", "hardware=l4"], ["recipe=other", "hardware=gtx1070"]]


def test_a_job_cannot_change_the_next_one(loaders: tuple[ConfigLoaderImpl, SharingLoader, DictConfig]) -> None:
    _, sharing, master = loaders

    first = sharing.load_sweep_config(master, ["recipe=small", "width=1"])
    first.table.b.c = 99

    assert sharing.load_sweep_config(master, ["recipe=small", "width=1"]).table.b.c == 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=lists)
def test_the_parts_of_a_job_are_those_that_hydra_composes(
    words: list[str], loaders: tuple[ConfigLoaderImpl, SharingLoader, DictConfig]
) -> None:
    own, sharing, master = loaders

    def hydras(master: DictConfig, words: list[str]) -> Composed:
        return Composed.of(own.load_sweep_config(master, words))

    words = ["recipe=small", *words]
    assert outcome_of(sharing.job, master, words) == outcome_of(hydras, master, words)


WORDS = [
    [],
    ["keep_going=false"],
    ["executor.timeout_seconds=${width}", "width=5"],
    ["executor.timeout_seconds=${width}", "width=6"],
    ["+hardware.memory_gib=1"],
    ["+hardware.memory_gib=2"],
    ["+hardware.memory_gib=${width}", "width=3"],
    ["+constraints.accuracy_drop=0.1"],
    ["+constraints.accuracy_drop=0.2"],
    ["width=5"],
    ["nodes.end.cmd='true ${width} {in.text} {out}'"],
]


def test_jobs_of_one_command_share_nothing_that_differs(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, RECIPE[: RECIPE.index("names")])

    def make(jobs: Jobs, words: list[str]) -> Job:
        return jobs.make(Composed.of(compose_again(["recipe=small", "target=end", *words])))

    with hydra_for(find_project(project.root)):
        shared = Jobs(find_project(project.root))
        together = [make(shared, words) for words in WORDS]
        apart = [make(Jobs(find_project(project.root)), words) for words in WORDS]

    assert together == apart


def outcome(loader: ConfigLoaderImpl, master: DictConfig, words: list[str]) -> Any:
    return outcome_of(loader.load_sweep_config, master, words)


def outcome_of(compose: Callable[[DictConfig, list[str]], Any], master: DictConfig, words: list[str]) -> Any:
    """Everything of the composed config, or the class and text of the error."""
    try:
        composed = compose(master, words)
        if isinstance(composed, Composed):
            return described(composed.app), composed.overrides, composed.choices
        return described(composed)
    except Exception as error:  # noqa: BLE001 - whatever Hydra raises is to be the same
        return type(error).__name__, str(error), str(error.__cause__)


def described(node: Any, key: str = "") -> list[Any]:
    """A config node by node: type, flags, typing, value, in order."""
    metadata = {**vars(node._metadata), "flags_root": None}
    row = [key, type(node).__name__, metadata]
    content = node._content if OmegaConf.is_config(node) else node._val
    if isinstance(content, dict):
        return [row, *(described(item, str(name)) for name, item in content.items())]
    if isinstance(content, list):
        return [row, *(described(item, str(i)) for i, item in enumerate(content))]
    return [row, content]
