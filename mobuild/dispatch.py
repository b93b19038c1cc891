"""argv → verb.

The first bare word is the verb; Hydra composes the rest, so that overrides, sweeps, `--cfg`, `--info`, `--help` and
completion work for every verb. Hydra ends with status 1 for everything; the statuses 0, 1 and 2 are made here.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mobuild.config.calls import VERBS, Call, call_for, check_format, verb_of
from mobuild.config.overrides import Words, take_apart, value_of
from mobuild.config.project import Project, find_project, shipped
from mobuild.errors import ConfigError, MobuildError, StoreError
from mobuild.faults import unforeseen
from mobuild.job import Job
from mobuild.paths import expanded
from mobuild.report import messages

_HYDRA_FLAGS = ("--help", "-h", "--hydra-help", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc")
_WITHOUT_GROUPS = ("init", "adopt", "schema", "clean")  # verbs that choose nothing of what the general help lists
_LOOKING_AROUND = ("check", "list", "doctor")  # verbs that tell what of the project is not for mobuild


def dispatch(argv: list[str]) -> int:
    """Run one command line; 0 done, 1 failed, 2 not understood."""
    project = None
    try:
        _check_here()
        argv, line = _split_line(argv)
        words = take_apart(argv)
        verb, bare = verb_of(words.bare)
        project = find_project(Path.cwd())
        for text in project.notes if verb in _LOOKING_AROUND else ():
            messages.note(text)
        if verb in _WITHOUT_GROUPS and {"--help", "-h"} & set(words.flags):
            return _help(verb)
        if any(flag.split("=")[0] in _HYDRA_FLAGS for flag in words.flags):
            return _compose_and_run(Call(verb, verb), words, project)
        if verb == "init":
            return _init(bare, words, project)
        if verb in ("clean", "list", "schema"):
            return _without_jobs(verb, bare, words, project)
        if verb == "adopt":
            return _adopt(bare, words, line, project)
        if verb == "doctor":
            return _doctor(bare, words, project)
        return _compose_and_run(call_for(verb, bare, words), words, project)
    except MobuildError as error:
        messages.error(error)
        return error.status
    except Exception as fault:  # noqa: BLE001 - the last place where a traceback can become a sentence
        messages.error(unforeseen(fault, f"mobuild {' '.join(argv)}", project.faults if project else None))
        return 1


def _help(verb: str) -> int:
    """The line of the general help that is about one verb."""
    page = (shipped("conf") / "hydra/help/mobuild.yaml").read_text(encoding="utf-8")
    line = next(words for line in page.splitlines() if (words := line.split())[:1] == [verb])
    text = " ".join(line[1:])
    print(f"mobuild {verb}{' ' if text[0] in '-[' or text[0].isupper() else ': '}{text}\nmobuild --help: all verbs")
    return 0


def _without_jobs(verb: str, bare: tuple[str, ...], words: Words, project: Project) -> int:
    if words.flags:
        raise ConfigError(f"{verb}: what is {words.flags[0]!r}?", f"mobuild {verb} takes no flags")
    if words.overrides and verb != "list":
        raise ConfigError(f"{verb}: what is {words.overrides[0]!r}?", f"mobuild {verb} takes no overrides")
    if bare:
        raise ConfigError(f"{verb}: what is {bare[0]!r}?", f"mobuild {verb} takes no words")
    if verb == "schema":
        from mobuild.config.schema import schema
        from mobuild.verbs.schema import show

        return show(schema(project))
    if verb == "clean":
        from mobuild.verbs.clean import clean

        return clean(project.build)
    return _list(words, project)


def _list(words: Words, project: Project) -> int:
    """The choices, and the targets of the recipe where one can be chosen and read."""
    from mobuild.config.catalogue import catalogue
    from mobuild.config.entry import compose_targets
    from mobuild.verbs.list import Targets, list_all

    targets, status, form = None, 0, value_of(words.overrides, "format") or "text"
    check_format("list", form)
    try:
        targets = Targets(*compose_targets(words, project))
    except MobuildError as error:
        if words.overrides:
            messages.error(error)
            status = error.status
        else:  # no recipe was asked for, so what can be chosen is the whole answer
            messages.note(f"no targets are shown: {error}")
    list_all(catalogue(project), targets, form == "json")
    return status


def _init(bare: tuple[str, ...], words: Words, project: Project) -> int:
    """A recipe by a name, or that begins at a model; a file may have a `=` in its name."""
    from mobuild.config.catalogue import shipped_recipes
    from mobuild.config.schema import schema
    from mobuild.verbs.init import init

    files = tuple(word for word in words.overrides if expanded(word).exists())
    if others := [*words.flags, *(word for word in words.overrides if word not in files)]:
        raise ConfigError(f"init: what is {others[0]!r}?", "mobuild init takes no flags and no overrides")
    compose = _composer(replace(words, overrides=()), project)
    return init(project.root, (*bare, *files), shipped_recipes(), compose, lambda: schema(find_project(project.root)))


def _composer(words: Words, project: Project) -> Callable[..., Job]:
    """Makes the job of a recipe that was written just now, with further overrides where there are some."""
    from mobuild.config.compose import hydra_for
    from mobuild.config.entry import compose_job
    from mobuild.config.overrides import complete

    def compose(name: str, *more: str) -> Job:
        made = find_project(project.root)
        with hydra_for(made):
            overrides = (*words.overrides, f"recipe={name}", *more)
            return compose_job(complete(replace(words, overrides=overrides), made), made)

    return compose


def _split_line(argv: list[str]) -> tuple[list[str], list[str]]:
    """Take off the line that `adopt` is to read: what stands after `--`, or from the first word that names a tool."""
    if "adopt" not in argv[:1]:
        return argv, []
    from mobuild.adopt.line import begins

    if "--" in argv:
        start = argv.index("--")
        return argv[:start], argv[start + 1 :]
    start = next((i for i, word in enumerate(argv) if word == "-" or begins(word)), len(argv))
    is_whole = argv[start : start + 1] == ["-"] or " " in "".join(argv[start : start + 1])  # a line in quotes
    end = start + 1 if is_whole else len(argv)  # behind which mobuild's own words go on
    return argv[:start] + argv[end:], argv[start:end]


def _adopt(bare: tuple[str, ...], words: Words, line: list[str], project: Project) -> int:
    """A recipe from a line; `-` reads it from standard input. Overrides are for what is checked then."""
    from mobuild.config.catalogue import INTERNAL
    from mobuild.config.entry import compose_hardware
    from mobuild.verbs.adopt import adopt

    if words.flags:
        raise ConfigError(f"adopt: what is {words.flags[0]!r}?", "mobuild adopt takes no flags; the line begins at --")
    if line == ["-"]:
        line = [sys.stdin.read()]
    if len(bare) > 1:
        raise ConfigError(f"adopt: what is {bare[1]!r}?", "mobuild adopt [NAME] -- trtexec --onnx=det.onnx …")
    version = (value_of(words.overrides, "backend.version") or "").strip("'\"")
    checking = tuple(word for word in words.overrides if word.partition("=")[0].lstrip("+") != "backend.version")
    _, form = compose_hardware(replace(words, overrides=checking), project)
    check_format("adopt", form)
    compose = _composer(replace(words, overrides=checking), project)
    return adopt(line, project.root, compose, "".join(bare), version, INTERNAL, form, checking)


def _doctor(bare: tuple[str, ...], words: Words, project: Project) -> int:
    """Examine this machine; bare words are a message that was met, or a file."""
    from mobuild.config.entry import compose_hardware
    from mobuild.verbs.doctor import doctor

    if words.flags:
        raise ConfigError(f"doctor: what is {words.flags[0]!r}?", "mobuild doctor takes no flags")
    # No key has a space in it, so this is a part of a message that holds a '='.
    parts = [word for word in words.overrides if " " in word.partition("=")[0]]
    words = replace(words, overrides=tuple(word for word in words.overrides if word not in parts))
    hardware, form = compose_hardware(words, project)
    check_format("doctor", form)
    is_asked = value_of(words.overrides, "hardware") is not None
    return doctor(hardware if is_asked else None, form == "json", " ".join([*bare, *parts]))


def _compose_and_run(call: Call, words: Words, project: Project) -> int:
    """Let Hydra compose and call the verb with all jobs at once."""
    from mobuild.config.entry import Entry

    if "COMP_LINE" in os.environ and words.asks_for_help and _complete(os.environ["COMP_LINE"], project):
        return 0
    return Entry(call, project).run(replace(words, overrides=words.overrides + call.overrides))


def _complete(line: str, project: Project) -> bool:
    """Offer verbs, recipes and hardware, and leave the line for Hydra as it understands it; whether that was all."""
    from mobuild.config.catalogue import catalogue
    from mobuild.config.completion import choices_for, groups_for, line_for_hydra, verbs_for

    choices = {group: names for group, names in catalogue(project).items() if group in ("recipe", "hardware")}
    chosen = choices_for(line, choices)
    for word in [*verbs_for(line, VERBS), *groups_for(line, ["hardware"])] if chosen is None else chosen:
        print(word)
    os.environ["COMP_LINE"] = line_for_hydra(line, project)
    return chosen is not None


def _check_here() -> None:
    """Whatever comes asks for the current folder and for one of temporary files.

    Raises:
        ConfigError: it was removed meanwhile.
        StoreError: there is no room for temporary files either.
    """
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise ConfigError("the current folder does not exist any more", "cd to the project") from error
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise StoreError(
            f"no folder takes temporary files: {error.strerror}", "make room there, or set TMPDIR to another folder"
        ) from error
