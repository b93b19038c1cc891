"""Hydra's launcher for mobuild: all jobs of a sweep become one run of one verb.

A single run is a sweep of one. Hydra's own launchers run job after job and report only the first failure;
here the verb sees all jobs at once, so equal work is done once and failures do not stop the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict


class OneGraph(Launcher):  # type: ignore[misc]
    """Composes every job and hands all of them to `task_function.run_all`."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        configs = [self._compose(list(overrides), i) for i, overrides in enumerate(job_overrides, initial_job_idx)]
        self.task.run_all(configs)
        return [self._return(config, list(overrides)) for config, overrides in zip(configs, job_overrides, strict=True)]

    def _compose(self, overrides: list[str], number: int) -> DictConfig:
        config: DictConfig = self.context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return config

    def _return(self, config: DictConfig, overrides: list[str]) -> JobReturn:
        done: Any = JobReturn()
        done.cfg, done.overrides, done.status, done.return_value = config, overrides, JobStatus.COMPLETED, None
        return done


def register() -> None:
    """Make `hydra/launcher=mobuild` known.

    Hydra 1.3 takes only plugins below `hydra_plugins.`, looks the class up by that name and then imports it
    by its real module, so the name is lent for the registration alone.
    """
    true = OneGraph.__module__
    OneGraph.__module__ = "hydra_plugins.mobuild"
    Plugins.instance().register(OneGraph)
    OneGraph.__module__ = true
    ConfigStore.instance().store(
        group="hydra/launcher",
        name="mobuild",
        node={"_target_": "hydra_plugins.mobuild.OneGraph"},
        provider="mobuild",
    )
