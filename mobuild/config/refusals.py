"""What Hydra and OmegaConf refuse, in mobuild's words: the thing, the place, the fix.

Hydra prints its own errors with its search path and an environment variable to set; users of mobuild need
neither. What is no refusal but a fault passes as one.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from mobuild.config.catalogue import INTERNAL, catalogue
from mobuild.config.project import GROUPS, Project, shipped
from mobuild.config.reading import unset_hint
from mobuild.config.recipes import PLACED, SHAPES_GROUP, misplaced, read_yaml
from mobuild.config.settings import known_keys
from mobuild.errors import ConfigError, MobuildError, did_you_mean
from mobuild.faults import unforeseen

_GROUP_NAMES = {SHAPES_GROUP: "shapes"}


def explained(error: Exception, project: Project) -> MobuildError:
    """`error` of a composition as one of mobuild's own."""
    if isinstance(error, MobuildError):
        return error
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override)
    if isinstance(error, MissingConfigException) or "Could not load '" in str(error):
        return _no_choice(str(error), getattr(error, "options", None) or (), project)
    if found := re.match(r"Could not override '([^']*)'", str(error)):
        return _no_key(getattr(error.__cause__, "full_key", None) or found[1])
    if found := re.match(r"Could not append to config\. An item is already at '([^']*)'", str(error)):
        return ConfigError(f"+{found[1]}: there is such a key already", f"without '+': {found[1]}=…")
    if found := re.match(r"Multiple values for (\S+)\. To override a value use 'override [^:]*: (.*)'", str(error)):
        return ConfigError(
            f"{found[1]}: {found[2]!r} is a second choice beside the one that there is",
            f"on the command line without '+': {found[1]}={found[2]}; in a recipe: - override /{found[1]}: {found[2]}",
        )
    if isinstance(error, ValueError) and "Config group override" in str(error):
        return ConfigError(
            "a group takes the name of one of its files, not null, a number or a truth value",
            f"groups: {', '.join(GROUPS)}; mobuild list shows their files",
        )
    if isinstance(error, ValueError) and ("one subcommand" in str(error) or "completion plugin" in str(error)):
        return ConfigError(
            "--shell-completion: expected install=bash, or zsh, or fish", 'eval "$(mobuild -sc install=bash)"'
        )
    if isinstance(error, (YAMLError, UnicodeDecodeError)):
        return _unreadable_file(error, project)
    if isinstance(error, ValueError) and "defaults list" in str(error):
        return ConfigError(str(error).replace("Invalid defaults list in ", ""), "defaults: [/recipe/standard, _self_]")
    if isinstance(error, OmegaConfBaseException):
        key = getattr(error, "full_key", None)
        return ConfigError(f"{key}: {_short(error)}" if key else _short(error), unset_hint(str(error)))
    found = re.match(r"Error merging override \+*([^=]+)=(.*)", str(error))
    if found and "Cannot merge DictConfig with ListConfig" in str(error.__cause__):
        there = "a mapping" if found[2].startswith("[") else "a list"
        return ConfigError(
            f"{found[1]}={found[2]}: {there} stands there already",
            f"write it as that is, or take that away first: '~{found[1]}' '+{found[1]}={found[2]}'",
        )
    if isinstance(error, HydraException):
        return ConfigError(_short(error))
    if isinstance(error, (ValueError, TypeError)) and (word := _being_set(error)):
        return ConfigError(
            f"{word}: leads into a list, whose entries have numbers for names",
            "write the list, or what holds it, whole",
        )
    return unforeseen(error, "composing the configuration", project.faults)


def _being_set(error: Exception) -> str:
    """The override that Hydra was setting when `error` came, of which it tells nothing; empty at any other time."""
    told = (frame.f_locals.get("override") for frame, _ in traceback.walk_tb(error.__traceback__))
    found = next((str(one.input_line) for one in told if isinstance(one, Override)), "")
    return found.removeprefix("++")


def _unreadable_file(error: Exception, project: Project) -> ConfigError:
    """Hydra does not say which file it could not read; so the project's are read again."""
    folders = [folder for folder in (project.conf, project.recipes) if folder]
    for path in (path for folder in folders for path in sorted(folder.rglob("*.yaml"))):
        try:
            read_yaml(path)
        except ConfigError as found:
            return found
    return ConfigError(f"a file of conf/ cannot be read as YAML: {' '.join(str(error).split())}")


def _unreadable(override: str) -> ConfigError:
    override = override.removeprefix("++")
    key, _, value = override.partition("=")
    if value[:1] in ("[", "{"):  # which, quoted whole, would be a text
        mended = f"{key}={_WITHIN.sub(_quoted_within, value)}"
        hint = f'words with spaces, brackets, letters outside a-z are quoted within it: "{mended}"'
        if not _is_readable(mended):
            hint = "brackets are closed, and words with spaces or letters outside a-z quoted: \"KEY=['a word',b]\""
    else:
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        mended = f"{key}='{quoted}'"
        hint = (
            f'spaces, brackets, letters outside a-z are quoted twice, for the shell and for mobuild: "{mended}"'
            if _is_readable(mended)
            else "a key is words with dots between them: nodes.onnx.opset=20"
        )
    return ConfigError(
        f"{override}: cannot be read: a bracket or a quote is left open, or a character must be quoted", hint
    )


_WITHIN = re.compile(r"(?<=[\[{,:])(\s*)([^\[\]{},:'\"\s][^\[\]{},:'\"]*?)(\s*)(?=[,\]}])")


def _quoted_within(found: re.Match[str]) -> str:
    before, word, after = found.groups()
    return found[0] if re.fullmatch(r"[\w.+/-]+", word, re.ASCII) else f"{before}'{word}'{after}"


def _is_readable(override: str) -> bool:
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return False
    return True


def _no_choice(text: str, options: Iterable[str], project: Project) -> ConfigError:
    """`Could not find 'recipe/none'`, or `In 'recipe/det': Could not load 'recipe/standrad'.`"""
    found = re.search(r"Could not (?:find|load) '([^']*)'", text)
    if found is None:
        return ConfigError(" ".join(text.partition("\n\n")[0].split()))
    group, _, name = found[1].rpartition("/")
    top, _, rest = found[1].partition("/")
    if top in GROUPS:  # a choice may lie in a folder of its own: hardware=a100_40/1g.5gb
        group, name = top, rest
        options = catalogue(project).get(group, ()) if "/" in name else options
    if group == "hardware":
        return _no_hardware(name, catalogue(project)["hardware"])
    group = _GROUP_NAMES.get(group, group)
    known = [option for option in options if not (group == "recipe" and option in INTERNAL)]
    if group.partition("/")[0] == "recipe":
        for path in misplaced(project):
            if path.stem == name:
                return ConfigError(f"there is no recipe {name!r}; {path} is read by nobody", PLACED)
    place = re.match(r"In 'recipe/([^']*)'", text)
    where = f"recipe {place[1]!r}: " if place else ""
    return ConfigError(
        f"{where}there is no {group} {name!r}.{did_you_mean(name, [*known, *INTERNAL])}",
        f"{group}: {', '.join(known)}" if known else "mobuild list shows what there is",
    )


_UNCHOSEN = {
    "project": (
        "a project is found by its folder",
        "cd there: it holds recipes/, or pyproject.toml with [tool.mobuild]",
    ),
    "node": ("the kind of a node is said in its recipe", "nodes: {name: {kind: …}}; mobuild list shows the kinds"),
    SHAPES_GROUP: (
        "shapes=NAME chooses a file of conf/shapes/, and there is none",
        "write conf/shapes/NAME.yaml, or the sizes by axis: shapes.batch=[1,8,32]",
    ),
}  # groups without a choice here


def _no_hardware(name: str, known: Sequence[str]) -> ConfigError:
    """The nearest cards and slices, however a card's name is written; all cards, and which have slices."""
    card, slash, _ = name.partition("/")
    own = [each for each in known if each.startswith(f"{card}/")] if slash else []
    forms, wanted = {_plain(each): each for each in own or known}, _plain(name)
    near = [forms[form] for form in ([wanted] if wanted in forms else get_close_matches(wanted, forms, 3, 0.55))]
    asked = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    cards = [each for each in known if "/" not in each]
    sliced = dict.fromkeys(each.partition("/")[0] for each in known if "/" in each)
    example = next((each for each in known if "/" in each), "")
    slices = f"\nMIG slices of {', '.join(sliced)}: hardware={example}; mobuild list shows all" if sliced else ""
    return ConfigError(f"there is no hardware {name!r}.{asked}", f"hardware: {', '.join(cards)}{slices}")


def _plain(name: str) -> str:
    """`A100-40`, `RTX 4090`, `Tesla T4` as the files are called, without marks."""
    return re.sub(r"nvidia|geforce|tesla|jetson|[^a-z0-9]", "", name.lower())


def _no_key(key: str) -> ConfigError:
    if key in _UNCHOSEN:
        reason, remedy = _UNCHOSEN[key]
        return ConfigError(reason if key == SHAPES_GROUP else f"there is no key {key!r}: {reason}", remedy)
    primary = read_yaml(shipped("conf") / "mobuild.yaml")
    assert isinstance(primary, DictConfig)
    parent, _, last = key.rpartition(".")
    siblings = OmegaConf.select(primary, parent) if parent else known_keys()
    known = sorted({str(name) for name in ([] if isinstance(siblings, str) else siblings or ())} - _UNCHOSEN.keys())
    return ConfigError(
        f"there is no key {key!r}.{did_you_mean(last, known)}",
        f"Keys{f' of {parent}' if parent else ''}: {', '.join(known)}" if known else "mobuild --cfg job shows all keys",
    )


def _short(error: BaseException) -> str:
    """The first lines of an error and of its cause, without advice that is about Hydra."""
    lines = [_first_line(str(one)) for one in (error, error.__cause__) if one and str(one).strip()]
    return "; ".join(dict.fromkeys(lines)) or type(error).__name__


def _first_line(text: str) -> str:
    """The first line, with the next one where it only announces it."""
    first, _, rest = text.strip().partition("\n")
    return f"{first} {rest.strip().partition(chr(10))[0]}" if first.endswith(":") else first
