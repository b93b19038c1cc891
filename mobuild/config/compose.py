"""Hydra, set up for mobuild: search path, groups, launcher, and compositions outside `hydra.main`."""

from __future__ import annotations

import atexit
import copy
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from mobuild import launcher
from mobuild.config.catalogue import catalogue
from mobuild.config.project import Project, shipped
from mobuild.config.reading import watch_machine
from mobuild.config.recipes import store_groups
from mobuild.launcher.loader import sharing

PRIMARY = "mobuild"
_one_at_a_time = threading.RLock()


def prepare(project: Project) -> str:
    """Register all that a composition needs; returns the folder of the primary config."""
    if project.conf:
        Plugins.instance().register(_search_path(str(project.conf)))
    launcher.register()
    store_groups(project)
    OmegaConf.register_new_resolver("mobuild.scratch", _scratch, replace=True)
    OmegaConf.register_new_resolver("mobuild.choices", lambda: _choices(project), replace=True)
    watch_machine()
    return str(shipped("conf"))


def compose_again(overrides: Sequence[str]) -> DictConfig:
    """A composition beside the running one, by the same loader, with the node `hydra` in it."""
    loader = GlobalHydra.instance().config_loader()
    config: DictConfig = loader.load_configuration(PRIMARY, list(overrides), run_mode=RunMode.RUN)
    return config


@contextmanager
def hydra_for(project: Project) -> Iterator[None]:
    """Hydra for the Python API and for tests, beside the one that the caller may be using.

    The caller's singletons are put aside, not copied: whoever holds one of them must find it unchanged. The
    config store alone begins as a copy, since Hydra registers its own groups once, on import. Threads compose one
    after the other, for there is one set of singletons.
    """
    with _one_at_a_time:
        callers, groups = Singleton._instances, copy.deepcopy(ConfigStore.instance())
        Singleton._instances = {ConfigStore: groups}
        try:
            with sharing(), initialize_config_dir(prepare(project), version_base="1.3", job_name=PRIMARY):
                yield
        finally:
            Singleton._instances = callers


def _search_path(folder: str) -> type[SearchPathPlugin]:
    class ProjectConf(SearchPathPlugin):  # type: ignore[misc]
        """Puts the project's own conf folder before the shipped one."""

        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            search_path.prepend(provider="project", path=f"file://{folder}")

    return ProjectConf


def _choices(project: Project) -> str:
    """The groups with their options for the help, where `$` has a meaning of its own."""
    groups = {name: options for name, options in catalogue(project).items() if name != "kind"}
    return "\n".join(f"{name}: {', '.join(options)}" for name, options in groups.items()).replace("$", "$$")


@cache
def _scratch() -> str:
    """A folder for what Hydra insists on writing; removed at exit, so that projects stay clean."""
    folder = tempfile.mkdtemp(prefix="mobuild-hydra-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
