"""What the words of a command line mean before Hydra sees them.

Adds what Hydra's grammar would make the user write: `++` for keys of nodes and backends (which are open),
the default recipe, and the recipe that starts at an ONNX file for `model=`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mobuild.config.project import GROUPS, Project
from mobuild.config.recipes import SHAPES_CHOICE, SHAPES_GROUP, default_recipe, own_recipes
from mobuild.errors import ConfigError, did_you_mean

ONNX_RECIPE = "onnx_file"
_OPEN = re.compile(r"^(nodes|backend|shapes|constraints|toolchain|executor|libraries|plugins)(\.|=\{)")
_VERSION = re.compile(r"(\+*(?:backend\.version|check\.(?:cuda|driver|python|runtime)))=([\d.]+(?:,[\d.]+)*)")
_REVISION = re.compile(r"(\+*(?:constraints\.)?against(?:\.ref)?=)(?!null$)([^'\"$\[{,][^'\",]*)")
_REVISION_WITHIN = re.compile(
    r"(\+*constraints(?:\.against)?=\{.*?\bref:\s*)(?!null\b)([^'\"$\s,}](?:@\{[^}]*\}|[^'\",}])*)(.*)"
)
_CHOSEN = (*GROUPS, SHAPES_GROUP, "recipe")  # keys that take the name of a file
_HELP = ("--help", "-h", "--hydra-help", "--shell-completion", "-sc")
_VALUED = ("--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd", "--package", "-p", "--cfg", "-c")
_SHOWN = ("--help", "--version", "--multirun", "-m", "--cfg", "--info", "--shell-completion")
_FLAGS = (*_SHOWN, *_HELP, *_VALUED, "-i", "--run", "-r", "--resolve", "--experimental-rerun")


@dataclass(frozen=True)
class Words:
    """A command line taken apart: flags for Hydra, overrides, and bare words for the verb."""

    flags: tuple[str, ...]
    overrides: tuple[str, ...]
    bare: tuple[str, ...]

    @property
    def multirun(self) -> bool:
        return any(flag in ("-m", "--multirun") for flag in self.flags)

    @property
    def asks_for_help(self) -> bool:
        """Whether nothing will be composed: help, or completion in the shell."""
        return any(flag in _HELP for flag in self.flags)


def take_apart(argv: Sequence[str]) -> Words:
    """Flags from anywhere (Hydra's own parser wants them together), overrides, bare words.

    Raises:
        ConfigError: there is no such flag, or it lacks its value.
    """
    flags: list[str] = []
    overrides: list[str] = []
    bare: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word in ("--info", "-i"):
            known = words and words[0] in ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
            flags.append(f"--info={words.pop(0) if known else 'all'}")
        elif word in _VALUED:
            if not words:
                raise ConfigError(f"{word}: expected a value after it", "mobuild --cfg job" * (word in ("--cfg", "-c")))
            flags += [word, words.pop(0)]
        elif word.startswith("-"):
            flags.append(_known(word))
        elif "=" in word or word.startswith("~"):
            overrides.append(word)
        else:
            bare.append(word)
    return Words(tuple(flags), tuple(overrides), tuple(bare))


def _known(flag: str) -> str:
    name = flag.partition("=")[0]
    if name not in _FLAGS:
        raise ConfigError(
            f"there is no flag {flag!r}.{did_you_mean(name, _FLAGS)}",
            f"Flags: {', '.join(_SHOWN)}; mobuild --help\nEverything else is an override, without '-': key=value",
        )
    return flag


def complete(words: Words, project: Project, needs_recipe: bool = True) -> list[str]:
    """The overrides as Hydra is to see them, with the default recipe when one is needed and none named.

    Raises:
        ConfigError: a list without brackets and without `-m`, a list for a group, a model beside a recipe, or no recipe
            can be chosen.
    """
    overrides = [_opened(_shapes_choice(_revision_quoted(_version_quoted(word)))) for word in words.overrides]
    for word in overrides:
        _refuse_list_of_choices(word)
        if not words.multirun:
            _refuse_open_list(word)
    model, recipe = value_of(overrides, "model"), value_of(overrides, "recipe")
    if recipe in ("", "null"):
        raise ConfigError(f"recipe={recipe}: expected a recipe's name", "mobuild list shows them")
    if model == "":
        raise ConfigError("model=: expected the path of an ONNX file", "model=det.onnx")
    if model not in (None, "null"):
        if recipe not in (None, ONNX_RECIPE):
            raise ConfigError(f"model={model} beside recipe={recipe}: a model stands for a recipe", "drop one of them")
        return [*(word for word in overrides if _key(word) != "recipe"), f"recipe={ONNX_RECIPE}"]
    if recipe is None and needs_recipe and not words.asks_for_help:
        overrides.append(f"recipe={_quoted(default_recipe(project))}")
    return overrides


def stands_in(words: Words, project: Project) -> bool:
    """Whether the shipped example is taken because the project has no recipe and none was named."""
    is_named = project.settings.get("recipe") or any(_key(word) in ("recipe", "model") for word in words.overrides)
    return not (is_named or words.asks_for_help or own_recipes(project))


def value_of(overrides: Sequence[str], key: str) -> str | None:
    """The last value that the overrides give to `key`, as text."""
    found = [word.partition("=")[2] for word in overrides if _key(word) == key]
    return found[-1] if found else None


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def _opened(word: str) -> str:
    return f"++{word}" if _OPEN.match(word) else word


def _version_quoted(word: str) -> str:
    """A version as the text that it is: on the command line, unlike in YAML, 10.10 has not lost its zero."""
    found = _VERSION.fullmatch(word)
    return f"{found[1]}={','.join(repr(each) for each in found[2].split(','))}" if found else word


def _revision_quoted(word: str) -> str:
    """A revision as git writes it (`HEAD~1`, `main^`, `v1@{1}`): to Hydra those are marks of its grammar."""
    if found := _REVISION.fullmatch(word):
        return f"{found[1]}{_quoted(found[2])}"
    found = _REVISION_WITHIN.fullmatch(word)
    return f"{found[1]}{_quoted(found[2])}{found[3]}" if found else word


def _shapes_choice(word: str) -> str:
    """`shapes=NAME` chooses a file; `shapes={…}` is merged, `shapes=[…]` replaces as a file does: there is no
    merging a list into a map."""
    key, _, value = word.partition("=")
    if key == "shapes" and value.startswith("["):
        return f"++{SHAPES_CHOICE}={value}"
    is_value = value[:1] in ("{", "[", "") or value == "null"
    return word if key != "shapes" or is_value else f"{SHAPES_GROUP}={value}"


def _quoted(value: str) -> str:
    """`value` as Hydra's grammar wants it: in quotes when it is more than a word."""
    return value if re.fullmatch(r"[A-Za-z_][\w.-]*", value, re.ASCII) else "'" + value.replace("'", "\\'") + "'"


def _refuse_open_list(word: str) -> None:
    key, _, value = word.partition("=")
    plain = value and value[0] not in "[{'\"$" and "(" not in value
    if plain and "," in value:
        as_list = "" if _key(word) in _CHOSEN else f"for a list write '{key}=[{value}]', "
        raise ConfigError(f"{word}: a value with commas is a sweep", f"{as_list}to sweep over it add -m")


def _refuse_list_of_choices(word: str) -> None:
    """Hydra takes a list of choices, sets the values of each on top of the other, and calls the choice `None`."""
    key, _, value = word.partition("=")
    is_mapping = value.startswith("{")  # merged into what is chosen, and its own values may be lists
    if _key(word) in _CHOSEN and "[" in value and "(" not in value and not is_mapping:  # glob([a*,b*]) sweeps
        names = re.sub(r"[\[\]\s]", "", value)
        raise ConfigError(f"{word}: expected one name, found a list", f"to sweep over it: -m {key}={names}")
