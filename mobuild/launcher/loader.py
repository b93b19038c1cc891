"""Hydra's config loader with one composition for all that choose the same groups.

Hydra composes a single run twice, the first time to see whether it is one, and each job of a sweep from the start,
which reads every file of the defaults list again. What the words of a command add to their choice of groups are
values, and those can be set on a copy. The steps are Hydra's own, in Hydra's order; whatever is not plainly the same
(a sweep inside a job, a deletion, an error) is left to Hydra.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import omegaconf.base
from hydra._internal import hydra as hydra_module
from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

_PARSED = 4096  # interpolations of one command
_OWN_COMPOSITION = ("hydra", "hydra.searchpath")  # keys that change more than values


@contextmanager
def sharing() -> Iterator[None]:
    """Meanwhile Hydra's new loaders are of this class, and no interpolation is parsed twice.

    Neither Hydra nor OmegaConf has another place to say so.
    """
    own, hydra_module.ConfigLoaderImpl = hydra_module.ConfigLoaderImpl, SharingLoader
    parse = omegaconf.base.parse  # type: ignore[attr-defined]
    # A tree that is only read.
    omegaconf.base.parse = functools.lru_cache(_PARSED)(parse)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        hydra_module.ConfigLoaderImpl = own
        omegaconf.base.parse = parse  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Composed:
    """What a job is made of: a config without its node `hydra`, and what that said."""

    app: DictConfig
    overrides: tuple[str, ...]  # without Hydra's own
    choices: Mapping[str, str]  # group → choice

    @staticmethod
    def of(config: DictConfig) -> Composed:
        """The parts of a config of Hydra's, which is taken apart."""
        with open_dict(config):
            hydra = config.pop("hydra")
        return Composed.parts(config, hydra)

    @staticmethod
    def parts(app: DictConfig, hydra: DictConfig) -> Composed:
        """A config beside the node `hydra`. What a word refers to stays as it is written."""
        choices = OmegaConf.to_container(hydra.runtime.choices)
        overrides = OmegaConf.to_container(hydra.overrides.task)
        assert isinstance(choices, dict) and isinstance(overrides, list)
        return Composed(app, tuple(overrides), {str(key): _without_ending(value) for key, value in choices.items()})


def _without_ending(choice: object) -> str:
    """Hydra takes `recipe=crepe_tiny.yaml`, as shells complete it, for `recipe=crepe_tiny`."""
    return str(choice).removesuffix(".yaml")


class SharingLoader(ConfigLoaderImpl):  # type: ignore[misc]
    """For one command: what was read stays as it was."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self._bases: dict[tuple[str | None, ...], bytes | None] = {}
        self._jobs: dict[tuple[str | None, ...], tuple[bytes, Mapping[str, str]] | None] = {}
        self._parsed: dict[str, Override] = {}
        self._groups: dict[str, bool] = {}
        self._parser = OverridesParser.create()

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """The config as Hydra composes it. Hydra's `load_sweep_config` comes by here for each job.

        Without validation Hydra asks for the mode alone.
        """
        config = None
        if run_mode == RunMode.RUN or not validate_sweep_overrides:
            try:
                config = self._on_base(config_name, overrides)
            except Exception:  # noqa: BLE001 - Hydra's own way says what is wrong, in Hydra's words
                config = None
        if config is None:
            config = super().load_configuration(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)
        return config

    def job(self, master: DictConfig, words: Sequence[str]) -> Composed:
        """The parts of what `load_sweep_config` composes; to copy Hydra's own node would take longer than the rest."""
        hydras = list(master.hydra.overrides.hydra)
        try:
            composed = self._job_on_base(master.hydra.job.config_name, [*hydras, *words])
        except Exception:  # noqa: BLE001 - Hydra's own way says what is wrong, in Hydra's words
            composed = None
        if composed is None:
            return Composed.of(self.load_sweep_config(master, list(words)))
        OmegaConf.copy_cache(from_config=master, to_config=composed.app)
        return composed

    def get_group_options(
        self,
        group_name: str,
        results_filter: ObjectType | None = ObjectType.CONFIG,
        config_name: str | None = None,
        overrides: list[str] | None = None,
    ) -> list[str]:
        """Without overrides, asked of the repository and not of a copy: `--help` has a hundred such questions."""
        if config_name or overrides:
            options: list[str] = super().get_group_options(group_name, results_filter, config_name, overrides)
            return options
        return list(self.repository.get_group_options(group_name, results_filter))

    def _on_base(self, name: str | None, words: Sequence[str]) -> DictConfig | None:
        overrides = [self._parse(word) for word in words]
        choices, values = self._split(overrides)
        if choices is None or not (base := self._base(name, choices)):
            return None
        config: DictConfig = pickle.loads(base)  # a fifth of the time of deepcopy
        self._apply_overrides_to_config(values, config)
        task = [one for one in overrides if not one.is_hydra_override()]
        config.hydra.overrides.task.clear()
        config.hydra.overrides.task.extend([one.input_line for one in task])
        config.hydra.job.override_dirname = get_overrides_dirname(task, **_naming(config))
        return config

    def _job_on_base(self, name: str | None, words: Sequence[str]) -> Composed | None:
        overrides = [self._parse(word) for word in words]
        choices, values = self._split(overrides)
        if choices is None:
            return None
        key = (name, *choices)
        if key not in self._jobs:
            base = self._base(name, choices)
            self._jobs[key] = None
            if base:
                composed = Composed.of(pickle.loads(base))
                self._jobs[key] = pickle.dumps(composed.app, pickle.HIGHEST_PROTOCOL), composed.choices
        if not (found := self._jobs[key]):
            return None
        app: DictConfig = pickle.loads(found[0])
        self._apply_overrides_to_config(values, app)
        return Composed(app, tuple(one.input_line for one in overrides if not one.is_hydra_override()), found[1])

    def _split(self, overrides: Sequence[Override]) -> tuple[list[str] | None, list[Override]]:
        """The choices of groups and the values; no choices where a job is not plainly values over choices."""
        choices = [one.input_line for one in overrides if self._is_choice(one)]
        values = [one for one in overrides if not self._is_choice(one)]
        is_odd = any(one.is_sweep_override() or one.key_or_group in _OWN_COMPOSITION for one in overrides)
        return (None, []) if is_odd or any(one.is_delete() for one in values) else (choices, values)

    def _parse(self, word: str) -> Override:
        if word not in self._parsed:
            (self._parsed[word],) = self._parser.parse_overrides([word])
        return self._parsed[word]

    def _is_choice(self, override: Override) -> bool:
        """Whether Hydra takes it for the choice of a group; its own values count with them."""
        key = override.key_or_group
        if key not in self._groups:
            self._groups[key] = self.repository.group_exists(key)
        is_group = self._groups[key] and not isinstance(override.value(), dict)
        return is_group or override.is_hydra_override()

    def _base(self, name: str | None, choices: Sequence[str]) -> bytes | None:
        """The composition of these choices alone, to be copied; None where copies would not do."""
        key = (name, *choices)
        if key not in self._bases:
            config = super().load_configuration(name, list(choices), RunMode.RUN)
            is_plain = not config.hydra.job.env_copy and not config.hydra.get("searchpath")
            self._bases[key] = pickle.dumps(config, pickle.HIGHEST_PROTOCOL) if is_plain else None
        return self._bases[key]


def _naming(config: DictConfig) -> dict[str, Any]:
    """How Hydra writes the overrides of a job in a folder's name."""
    rules = config.hydra.job.config.override_dirname
    return {"kv_sep": rules.kv_sep, "item_sep": rules.item_sep, "exclude_keys": rules.exclude_keys}
