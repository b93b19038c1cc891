"""Recipes as a Hydra config group.

Hydra names a group after its folder, and ours is `recipes/`, so each file is read here and stored as
`recipe/<name>`; the project's come after the shipped ones and replace them. The files of `conf/shapes/` are
stored the same way, as a group `shapes_file` with a place of its own: choosing one replaces the recipe's
shapes instead of merging, and one may hold a list, which Hydra takes from no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from mobuild.config.project import Project, once, shipped
from mobuild.errors import ConfigError

EXAMPLE = "crepe_tiny"  # the shipped recipe that stands in where there is none
PLACED = "a recipe is recipes/NAME.yaml, in that folder itself and with that ending: move it there"
SHAPES_GROUP = "shapes_file"
SHAPES_CHOICE = "chosen_shapes"  # where a file of conf/shapes/ lands in the composed config


def store_groups(project: Project) -> None:
    """Put every recipe and every shapes file where Hydra composes from.

    Raises:
        ConfigError: a file is no YAML; names the file and the line.
    """
    store = ConfigStore.instance()
    for group, package, folders in (
        ("recipe", "_global_", recipe_folders(project)),
        (SHAPES_GROUP, "_global_", [shipped("conf") / "shapes", (project.conf or shipped("conf")) / "shapes"]),
    ):
        for path in _files(folders):
            node = read_yaml(path)
            if group != SHAPES_GROUP and not isinstance(node, DictConfig):
                raise ConfigError(f"{path}: expected a mapping, found a list", "a recipe has keys: nodes: {…}")
            if group == SHAPES_GROUP:
                node = OmegaConf.create({SHAPES_CHOICE: node})
            store.store(group=group, name=path.stem, node=node, package=package, provider="mobuild")


def recipe_folders(project: Project) -> list[Path]:
    """The shipped folder, then the project's: a later file of the same name wins."""
    own = [project.recipes] if project.recipes else []
    return list(dict.fromkeys([shipped("recipes"), *own]))


@once
def recipe_file(project: Project, name: str) -> Path | None:
    """The file that recipe `name` comes from."""
    found = [folder / f"{name}.yaml" for folder in recipe_folders(project)]
    return next((path for path in reversed(found) if path.is_file()), None)


def default_recipe(project: Project) -> str:
    """The recipe of a command that names none.

    Raises:
        ConfigError: the project has several and no default, lists them; or one that is not where recipes are.
    """
    if name := project.settings.get("recipe"):
        return str(name)
    own = own_recipes(project)
    if len(own) > 1:
        raise ConfigError(
            f"{project.recipes}: which of the recipes {', '.join(own)}?",
            f'say recipe={own[0]}, or write [tool.mobuild] recipe = "{own[0]}" in pyproject.toml',
        )
    if not own and (lost := misplaced(project)):
        raise ConfigError(f"{lost[0]}: is read by nobody, and there is no other recipe", PLACED)
    return own[0] if own else EXAMPLE


def misplaced(project: Project) -> list[Path]:
    """Files of the project that are recipes but for their name or their place."""
    if project.recipes is None:
        return []
    return sorted({*project.recipes.glob("*.yml"), *project.recipes.glob("*/*.yaml"), *project.recipes.glob("*/*.yml")})


def own_recipes(project: Project) -> list[str]:
    """The names of the recipes in the project's own folder."""
    return sorted(path.stem for path in _files([project.recipes] if project.recipes else []))


def read_yaml(path: Path) -> DictConfig | ListConfig:
    """The file as a config.

    Raises:
        ConfigError: no YAML, or not a mapping or list; names the file, and the line where YAML knows it.
    """
    try:
        return OmegaConf.load(path)
    except (YAMLError, OmegaConfBaseException, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}", _mended(error)) from error


def _mended(error: Exception) -> str:
    """What to do about a file that is no YAML, by what its reader says."""
    if isinstance(error, OSError):
        return "let it be read by you, or take it away"
    if isinstance(error, UnicodeDecodeError):
        return "save it as UTF-8"
    mark = getattr(error, "problem_mark", None)
    line = f"mend line {mark.line + 1}, or one above it" if mark else "mend it"
    return f"{line}: brackets and quotes are closed, a level begins in one column, values with ': ' or ' #' are quoted"


def _files(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(folder.glob("*.yaml"))
