"""`python -m mobuild.config.origins OVERRIDE…`: the resolved configuration here, key by key, as JSON.

Each key comes with the file that set it; the digests of pinned sources are keys, too. A program of its own, because
`why against=` also runs it in another revision's files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from mobuild import pins
from mobuild.config.compose import PRIMARY, compose_again, hydra_for
from mobuild.config.overrides import complete, take_apart
from mobuild.config.project import Project, find_project
from mobuild.config.recipes import recipe_file
from mobuild.config.refusals import explained
from mobuild.errors import MobuildError
from mobuild.launcher.loader import Composed

COMMAND_LINE = "the command line"


def origins(overrides: Sequence[str], project: Project) -> dict[str, tuple[Any, str]]:
    """Key → its resolved value, and the file below the project (or `mobuild's conf/…`) that set it last.

    Raises:
        MobuildError: the configuration cannot be composed.
    """
    words = complete(take_apart(overrides), project)
    with hydra_for(project):
        try:
            config = compose_again(words)
            app = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
            files = dict(_files(words, project))
            values = dict(_flat("", _resolved(app)))
            found = {key: (value, files.get(key, COMMAND_LINE)) for key, value in values.items()}
            recipe = Composed.of(config).choices["recipe"]
            return {**dict(_pins(values, recipe, project)), **found}
        except Exception as error:
            raise explained(error, project) from error


def _resolved(config: DictConfig) -> Any:
    """Plain values; an interpolation that leads nowhere stays as it is written."""
    try:
        return OmegaConf.to_container(config, resolve=True)
    except Exception:  # noqa: BLE001 - resolvers raise what they like, and every key but theirs can be compared
        return OmegaConf.to_container(config, resolve=False)


def _pins(values: Mapping[str, Any], recipe: str, project: Project) -> Iterator[tuple[str, tuple[str, str]]]:
    """The SHA-256 of every remote source that no recipe but its lock file tells, as a key beside the source's own."""
    file = recipe_file(project, recipe)
    known = pins.read(file.with_suffix(".lock")) if file else {}
    for key, value in values.items():
        parent, _, last = key.rpartition(".")
        member = values.get(f"{parent}.member")
        named = f"{value}/{member}" if last == "package" and member else value
        if key.startswith("nodes.") and isinstance(named, str) and (found := known.get(pins.name_of(named))):
            of = parent if last in ("uri", "package") else key
            yield f"{of}.sha256", (found.sha256, f"recipes/{recipe}.lock")


def _files(words: Sequence[str], project: Project) -> Iterator[tuple[str, str]]:
    """Every key that a file of the defaults list sets, with the file; later ones override earlier ones."""
    loader = GlobalHydra.instance().config_loader()
    chosen = loader.compute_defaults_list(PRIMARY, list(words), RunMode.RUN)
    for default in chosen.defaults:
        if default.config_path is None or default.config_path.startswith("hydra/"):
            continue
        found = loader.repository.load_config(default.config_path)
        if found is None:
            continue
        package = "" if default.package in (None, "", "_global_") else f"{default.package}."
        plain = OmegaConf.to_container(found.config, resolve=False)
        for key, _ in _flat("", plain):
            yield f"{package}{key}", _name(default.config_path, found.path, project)


def _name(group_path: str, searched: str, project: Project) -> str:
    folder, _, name = group_path.partition("/")
    if folder == "recipe":
        return f"recipes/{name}.yaml"
    place = Path(searched.removeprefix("file://"))
    is_own = project.conf is not None and place.is_relative_to(project.conf)
    return f"{project.conf.relative_to(project.root) if is_own and project.conf else 'mobuild: conf'}/{group_path}.yaml"


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Leaves with their dotted keys; lists and empty mappings are leaves."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item)
    else:
        yield prefix, value


def main(words: Sequence[str]) -> int:
    try:
        found = origins(words, find_project(Path.cwd()))
    except MobuildError as error:
        print(error, file=sys.stderr)
        return error.status
    print(json.dumps(found, default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
