"""Hydra's launcher and sweeper for mobuild: all jobs of a sweep become one run of one verb.

A single run is a sweep of one. Hydra's own launchers run job after job and report only the first failure;
here the verb sees all jobs at once, so equal work is done once and failures do not stop the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.plugin import Plugin
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from mobuild.launcher.loader import SharingLoader


class OneGraph(Launcher):  # type: ignore[misc]
    """Hands all jobs to `task_function.run_all`, each as a function that composes it and may raise."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        loader: SharingLoader = self.context.config_loader
        self.task.run_all([partial(loader.job, self.config, overrides) for overrides in job_overrides])
        return [self._return(list(overrides)) for overrides in job_overrides]

    def _return(self, overrides: list[str]) -> JobReturn:
        done: Any = JobReturn()
        done.overrides, done.status, done.return_value = overrides, JobStatus.COMPLETED, None
        return done


class EachAlone(Sweeper):  # type: ignore[misc]
    """Hydra's own sweeper without its rehearsal, in which one job that cannot be composed ends all of them."""

    def __init__(self, params: Mapping[str, str] | None = None) -> None:
        self.params = params or {}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        parser = OverridesParser.create(config_loader=self.context.config_loader)
        words = [*(f"{key}={value}" for key, value in self.params.items()), *arguments]
        (jobs,) = BasicSweeper.split_arguments(parser.parse_overrides(words), None)
        return [self.launcher.launch(jobs, initial_job_idx=0)]


def register() -> None:
    """Make `hydra/launcher=mobuild` and `hydra/sweeper=mobuild` known."""
    _register(OneGraph, "launcher", {})
    _register(EachAlone, "sweeper", {"params": None})


def _register(plugin: type[Plugin], group: str, fields: dict[str, Any]) -> None:
    """Make one plugin known.

    Hydra 1.3 takes only plugins below `hydra_plugins.`, looks the class up by that name and then imports it
    by its real module, so the name is lent for the registration alone.
    """
    true = plugin.__module__
    plugin.__module__ = "hydra_plugins.mobuild"
    Plugins.instance().register(plugin)
    plugin.__module__ = true
    node = {"_target_": f"hydra_plugins.mobuild.{plugin.__name__}", **fields}
    ConfigStore.instance().store(group=f"hydra/{group}", name="mobuild", node=node, provider="mobuild")
