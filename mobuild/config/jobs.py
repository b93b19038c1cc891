"""From one composed config to one frozen job: its graph, its variant, its hardware, its constraints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mobuild import device, gates
from mobuild.config.build_node import construct
from mobuild.config.compose import compose_again
from mobuild.config.project import Project
from mobuild.config.reading import DEVICE, asked_device, conf_names, plain, raw, same, variables_read
from mobuild.config.recipe_nodes import RecipeNodes
from mobuild.config.recipes import SHAPES_CHOICE
from mobuild.config.settings import read_settings, refuse_unknown_keys, targets
from mobuild.config.variant import Described, Point, variant_name
from mobuild.contract.findings import Finding
from mobuild.errors import ConfigError, MobuildError, NoBackend, did_you_mean
from mobuild.graph import NodeSpec, build_graph
from mobuild.hardware import Hardware
from mobuild.job import Job, Settings, Unmade
from mobuild.launcher.loader import Composed
from mobuild.profiles import check_shapes


class Jobs:
    """Makes the jobs of one command; what they share is read and composed once."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._points: dict[tuple[str, ...], Point] = {}
        self._equals: dict[object, NodeSpec] = {}
        self._described: Described = {}

    def make(self, composed: Composed) -> Job:
        """The job that a config describes; takes the config apart.

        Raises:
            ConfigError, GraphError: the request cannot be understood; names recipe, node and key.
            NoBackend: nothing builds for the hardware.
        All of the job itself hold what `check` tells of it as `unmade`.
        """
        app, choices = _app(composed), composed.choices
        settings = read_settings(app, self.project)
        nodes = _nodes(app, choices, self.project, self._equals)
        refuse_unknown_keys(app, self.project, f"recipe {nodes.recipe!r}")
        try:
            job = self._job(composed, nodes, settings)
        except MobuildError as error:
            found = tuple(error.findings) if isinstance(error, NoBackend) else (_finding(error, nodes.recipe),)
            error.unmade = Unmade(nodes.recipe, choices.get("hardware", ""), nodes.lock, settings, found)
            raise
        # Interpolations are resolved where a node is made, so only now is it known what the environment decided.
        return replace(job, settings=replace(settings, variables=variables_read(), asked_device=asked_device()))

    def _job(self, composed: Composed, nodes: RecipeNodes, settings: Settings) -> Job:
        app, overrides, choices = composed.app, composed.overrides, composed.choices
        graph = build_graph(nodes, targets(nodes.app))
        _check_shapes(app, nodes.recipe)
        return Job(
            recipe=nodes.recipe,
            variant=variant_name(Point(app, choices, lambda: nodes, self._described), overrides, self._point),
            root=nodes.root,
            graph=graph,
            hardware=nodes.hardware,
            constraints=self._constraints(app, nodes.recipe),
            lock=nodes.lock,
            overrides=overrides,
            settings=settings,
        )

    def settings(self, composed: Composed) -> Settings:
        """What a verb of the cache needs of a config: no recipe, no nodes.

        Raises:
            ConfigError: the request cannot be understood.
        """
        app = _app(composed)
        refuse_unknown_keys(app, self.project, "configuration")
        return read_settings(app, self.project)

    def _constraints(self, app: DictConfig, recipe: str) -> dict[str, Any]:
        return same(self.project, recipe, [raw(app.constraints)], lambda: _constraints(app, recipe))

    def _point(self, overrides: Sequence[str]) -> Point:
        """What other overrides would compose."""
        key = tuple(overrides)
        if key not in self._points:
            composed = Composed.of(compose_again(overrides))
            app, choices = _app(composed), composed.choices
            nodes = partial(_nodes, app, choices, self.project, self._equals)
            self._points[key] = Point(app, choices, nodes, self._described)
        return self._points[key]


def recipe_nodes(config: DictConfig, project: Project) -> RecipeNodes:
    """The nodes of the recipe that `config` (with its `hydra` node) chooses; takes `config` apart."""
    composed = Composed.of(config)
    return _nodes(_app(composed), composed.choices, project, {})


def _nodes(
    app: DictConfig, choices: Mapping[str, str], project: Project, equals: dict[object, NodeSpec]
) -> RecipeNodes:
    hardware = same(
        project, "hardware", [choices.get("hardware"), raw(app.hardware)], lambda: _hardware(app, choices, project)
    )
    return RecipeNodes(app, choices.get("recipe", ""), hardware, project, equals)


def hardware_of(config: DictConfig, project: Project) -> Hardware:
    """The hardware that `config` (with its `hydra` node) chooses; no recipe is needed.

    Raises:
        ConfigError: its file cannot be understood.
    """
    composed = Composed.of(config)
    return _hardware(_app(composed), composed.choices, project)


def _app(composed: Composed) -> DictConfig:
    """The config of a job, open, with a chosen shapes file in place."""
    OmegaConf.set_struct(composed.app, None)
    _choose_shapes(composed.app, composed.overrides)
    return composed.app


def _choose_shapes(app: DictConfig, overrides: Sequence[str]) -> None:
    """A chosen shapes file replaces the recipe's `shapes`; keys of it cannot be set beside the choice."""
    chosen = app.get(SHAPES_CHOICE)
    if chosen is None:
        app.shapes = {} if app.shapes is None else app.shapes
        return
    mixed = [word for word in overrides if word.lstrip("+").startswith("shapes.")]
    if mixed:
        raise ConfigError(
            f"{mixed[0].lstrip('+')} beside shapes=NAME: the chosen file replaces the shapes whole", "drop one of them"
        )
    app.shapes = chosen


def _check_shapes(app: DictConfig, recipe: str) -> None:
    """Refuse sizes that are none, also where no target reads them."""
    shapes = app.shapes
    try:
        check_shapes(OmegaConf.to_container(shapes, resolve=True) if OmegaConf.is_config(shapes) else shapes)
    except ConfigError as error:
        raise ConfigError(f"recipe {recipe!r}: {error.message}", error.hint) from error


def _constraints(app: DictConfig, recipe: str) -> dict[str, Any]:
    constraints = plain(app, "constraints", f"recipe {recipe!r}")
    gates.check(constraints, f"recipe {recipe!r}")
    return constraints


def _hardware(app: DictConfig, choices: Mapping[str, str], project: Project) -> Hardware:
    name = choices.get("hardware")
    if not app.hardware:
        raise ConfigError(
            f"conf/hardware/{name}.yaml: is empty",
            f"write the facts of the device, at least name: {name} and vendor: …; conf/README.md says which",
        )
    if f"${{{DEVICE}:" in str(app.hardware):
        device.here()  # what it raises would be wrapped where the interpolation is resolved
    fields = {"_target_": "mobuild.hardware.Hardware", **plain(app, "hardware", f"hardware {name!r}")}
    hardware = construct(fields, f"conf/hardware/{name}.yaml")
    assert isinstance(hardware, Hardware)
    known = conf_names(project, "backend")
    for backend in hardware.backends:
        if backend not in known:
            raise ConfigError(
                f"conf/hardware/{name}.yaml, field 'backends': there is no backend {backend!r}."
                f"{did_you_mean(backend, known)}",
                f"Backends: {', '.join(known)}",
            )
    return hardware


def _finding(error: MobuildError, recipe: str) -> Finding:
    """N1: what a job is refused for, with the place that its message begins with."""
    placed = re.match(r"(recipe '[^']*'(?:, \w+ '[^']*')*): (.*)", error.message, re.DOTALL)
    where, message = placed.groups() if placed else (f"recipe {recipe!r}", error.message)
    return Finding("N1", "error", where, message, error.hint, error.status)
