"""One command through `hydra.main`: compose, make jobs, call the verb once with all of them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from mobuild import collector
from mobuild.config.calls import Call, check_format
from mobuild.config.compose import PRIMARY, compose_again, hydra_for, prepare
from mobuild.config.jobs import Jobs, hardware_of, recipe_nodes
from mobuild.config.overrides import Words, complete, stands_in, value_of
from mobuild.config.project import Project
from mobuild.config.recipes import EXAMPLE
from mobuild.config.refusals import explained
from mobuild.config.settings import read_settings
from mobuild.errors import ConfigError, MobuildError, NoBackend
from mobuild.faults import unforeseen
from mobuild.hardware import Hardware
from mobuild.job import Job, Unmade
from mobuild.launcher.loader import Composed, sharing
from mobuild.report import messages

_RAISE = {"HYDRA_FULL_ERROR": "1"}  # lets Hydra raise what it would print, so that it can be said in our words


class Entry:
    """The task function that Hydra calls; keeps the status, since Hydra drops return values."""

    def __init__(self, call: Call, project: Project) -> None:
        self.call, self.project = call, project
        self.status: int | None = None
        self._stands_in = False  # the shipped example, for a recipe of the project's
        self._environment: dict[str, str | None] = {}

    def run(self, words: Words) -> int:
        """Run Hydra over the command line; 2 when it could not compose."""
        needs_recipe = not self.call.of_the_cache
        overrides = complete(words, self.project, needs_recipe)
        self._stands_in = needs_recipe and stands_in(words, self.project)
        folder = prepare(self.project)
        _check_flags([*words.flags, *overrides])
        if words.multirun and value_of(overrides, "hydra.mode") is None:
            overrides.append("hydra.mode=MULTIRUN")  # over what conf/mobuild.yaml says, as Hydra would with a warning
        argv, sys.argv = sys.argv, [PRIMARY, *words.flags, *overrides]
        self._environment.update({name: os.environ.get(name) for name in _RAISE})
        os.environ.update(_RAISE)
        try:
            with sharing():
                hydra.main(config_path=folder, config_name=PRIMARY, version_base="1.3")(self._task)()
        except SystemExit as end:
            if end.code:
                return 2 if self.status is None else self.status or 1
        except Exception as error:  # noqa: BLE001 - Hydra's own, and whatever it lets through
            return self._reported(error)
        finally:
            sys.argv = argv
            self._restore_environment()
        return self.status or 0

    def run_all(self, compositions: Sequence[Callable[[], Composed]]) -> None:
        """Make every job that can be made and run the verb over them; errors become the status."""
        shared = Jobs(self.project)
        make: Callable[[Composed], Any] = shared.settings if self.call.of_the_cache else shared.make
        self._restore_environment()
        self.status = 0
        jobs: list[Any] = []
        unmade: list[Unmade] = []
        for compose in compositions:
            try:
                jobs.append(make(compose()))
            except MobuildError as error:
                if self.call.tells_refusals and error.unmade and _is_finding(error):
                    unmade.append(error.unmade)
                else:
                    self.status = max(self.status, self._reported(error))
            except Exception as error:  # noqa: BLE001 - one job's fault must not take the others along
                self.status = max(self.status, self._reported(error))
        if not jobs and not unmade:
            return
        if self._stands_in:
            messages.note(
                f"there is no recipe in {self.project.root}, so this is about the shipped example {EXAMPLE!r}; "
                "mobuild init NAME starts your own"
            )
        if left_out := len(compositions) - len(jobs) - len(unmade):
            messages.warning(
                f"{left_out} of {len(compositions)} jobs of the sweep cannot be composed, and are left out"
            )
        collector.settle()
        self.status = _worse(self.status, self._run(jobs, unmade))

    def _run(self, jobs: Sequence[Any], unmade: Sequence[Unmade]) -> int:
        """Run the verb; its errors become messages and a status, also those that mobuild did not foresee."""
        module = importlib.import_module(f"mobuild.verbs.{self.call.verb}")
        verb: Callable[..., int] = getattr(module, self.call.function)
        try:
            first = (*jobs, *unmade)[0]
            check_format(self.call.verb, (first.settings if isinstance(first, (Job, Unmade)) else first).format)
            return verb(jobs, unmade) if self.call.tells_refusals else verb(jobs, *self.call.words)
        except MobuildError as error:
            messages.error(error)
            return error.status
        except Exception as error:  # noqa: BLE001 - a fault of mobuild itself must not look like the user's
            messages.error(unforeseen(error, f"mobuild {self.call.verb}", self.project.faults))
            return 1

    def _reported(self, error: Exception) -> int:
        """Print `error`; the status that it means."""
        problem = explained(error, self.project)
        messages.error(problem)
        return problem.status

    def _restore_environment(self) -> None:
        """Before anything is run: the user's code sees the environment, and what it sees may count."""
        for name, value in self._environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    @property
    def _task(self) -> Callable[[DictConfig], None]:
        def task(config: DictConfig) -> None:
            self.run_all([lambda: Composed.parts(config.copy(), HydraConfig.get())])

        task.run_all = self.run_all  # type: ignore[attr-defined]
        return task


def _is_finding(error: MobuildError) -> bool:
    """Whether `check` tells an error among its findings: what rules say always, all else to programs, which read no
    messages."""
    return isinstance(error, NoBackend) or error.unmade.settings.format in ("json", "sarif")


def compose_targets(words: Words, project: Project) -> tuple[str, Mapping[str, str]]:
    """The recipe that would be built, and the kinds of its nodes by name.

    Raises:
        ConfigError: none can be chosen, or it cannot be composed.
    """
    overrides = complete(words, project)
    with hydra_for(project):
        try:
            config = compose_again(overrides)
            read_settings(config, project)
            nodes = recipe_nodes(config, project)
        except Exception as error:
            raise explained(error, project) from error
        return nodes.recipe, nodes.kinds


def compose_hardware(words: Words, project: Project) -> tuple[Hardware, str]:
    """The hardware and the format that the words choose; no recipe is needed.

    Raises:
        ConfigError: they cannot be composed.
    """
    overrides = complete(words, project, needs_recipe=False)
    with hydra_for(project):
        try:
            config = compose_again(overrides)
            hardware = hardware_of(config, project)  # which takes the node `hydra` out of it
            return hardware, read_settings(config, project).format
        except Exception as error:
            raise explained(error, project) from error


def compose_job(overrides: Sequence[str], project: Project) -> Job:
    """One job outside `hydra.main`; Hydra must be initialised (`compose.hydra_for`).

    Raises:
        ConfigError: the overrides cannot be composed.
    """
    try:
        return Jobs(project).make(Composed.of(compose_again(overrides)))
    except (HydraException, OmegaConfBaseException) as error:
        raise explained(error, project) from error


def _check_flags(words: Sequence[str]) -> None:
    """Let Hydra's own parser read the command line, and say in our words what it refuses.

    Raises:
        ConfigError: a flag with a value that it does not take.
    """

    def refuse(message: str) -> NoReturn:
        raise ConfigError(message.removeprefix("argument "), "mobuild --help")

    parser = get_args_parser()
    parser.error = refuse
    parser.parse_args(words)


def _worse(one: int, other: int) -> int:
    """1 (something failed) tells more than 2 (something was not understood) once anything ran."""
    return 1 if 1 in (one, other) else max(one, other)
