"""From one composed config to one frozen job: its graph, its variant, its hardware, its constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mobuild import device, gates
from mobuild.config.build_node import construct
from mobuild.config.project import Project
from mobuild.config.reading import DEVICE, asked_device, plain, variables_read
from mobuild.config.recipe_nodes import RecipeNodes
from mobuild.config.recipes import SHAPES_CHOICE
from mobuild.config.settings import read_settings, refuse_unknown_keys, targets
from mobuild.config.variant import variant_name
from mobuild.errors import ConfigError
from mobuild.graph import build_graph
from mobuild.hardware import Hardware
from mobuild.job import Job, Settings
from mobuild.profiles import check_shapes


def make_job(config: DictConfig, project: Project) -> Job:
    """The job that `config` (with its `hydra` node) describes.

    Raises:
        ConfigError, GraphError: the request cannot be understood; names recipe, node and key.
    """
    overrides = tuple(config.hydra.overrides.task)
    app = _application(config, overrides)
    settings = read_settings(app, project)
    nodes = recipe_nodes(config, project)
    refuse_unknown_keys(app, project, f"recipe {nodes.recipe!r}")
    graph = build_graph(nodes, targets(nodes.app))
    _check_shapes(app, nodes.recipe)
    job = Job(
        recipe=nodes.recipe,
        variant=variant_name(config, overrides, lambda other: recipe_nodes(other, project)),
        root=nodes.root,
        graph=graph,
        hardware=nodes.hardware,
        constraints=_constraints(app, nodes.recipe),
        lock=nodes.lock,
        overrides=overrides,
        settings=settings,
    )
    # Interpolations are resolved where a node is made, so only now is it known what the environment decided.
    return replace(job, settings=replace(settings, variables=variables_read(), asked_device=asked_device()))


def make_settings(config: DictConfig, project: Project) -> Settings:
    """What a verb of the cache needs of `config`: no recipe, no nodes.

    Raises:
        ConfigError: the request cannot be understood.
    """
    app = _application(config, tuple(config.hydra.overrides.task))
    refuse_unknown_keys(app, project, "configuration")
    return read_settings(app, project)


def recipe_nodes(config: DictConfig, project: Project) -> RecipeNodes:
    """The nodes of the recipe that `config` (with its `hydra` node) chooses."""
    app, choices = _application(config, config.hydra.overrides.task), _choices(config)
    return RecipeNodes(app, choices.get("recipe", ""), _hardware(app, choices), project)


def hardware_of(config: DictConfig) -> Hardware:
    """The hardware that `config` (with its `hydra` node) chooses; no recipe is needed.

    Raises:
        ConfigError: its file cannot be understood.
    """
    choices = _choices(config)
    return _hardware(_application(config, config.hydra.overrides.task), choices)


def _choices(config: DictConfig) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in config.hydra.runtime.choices.items()}


def _application(config: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """The config without its `hydra` node, with a chosen shapes file in place."""
    app = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    _choose_shapes(app, overrides)
    return app


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


def _hardware(app: DictConfig, choices: Mapping[str, str]) -> Hardware:
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
    return hardware
