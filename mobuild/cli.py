"""argv → verb.

Keeps its own imports to `os` and `sys`, since this module is on the path of every no-op. The first bare word
is the verb; Hydra composes the rest, so that overrides, sweeps, `--cfg`, `--info`, `--help` and completion
work for every verb. Hydra ends with status 1 for everything; the statuses 0, 1, 2 and 130 are made here.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mobuild.config.entry import Call
    from mobuild.config.overrides import Words
    from mobuild.config.project import Project

VERBS = (
    "build",
    "plan",
    "why",
    "graph",
    "list",
    "init",
    "path",
    "log",
    "shell",
    "inspect",
    "verify",
    "pin",
    "gc",
    "lock",
    "clean",
)
_HYDRA_FLAGS = ("--help", "-h", "--hydra-help", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc")


def main() -> None:
    """The console script: run and exit with the status."""
    _end_as_interrupted()
    sys.exit(run(sys.argv[1:]))


def _end_as_interrupted() -> None:
    """Treat a polite kill and a closed terminal like Ctrl-C, so that no process of a node is left behind.

    A signal that the caller ignores (`nohup`) stays ignored.
    """
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def run(argv: list[str]) -> int:
    """Run one command line; returns 0 done, 1 failed, 2 not understood, 130 interrupted."""
    from mobuild import streams

    status, guard = 1, streams.Guard()
    try:
        status = _run(argv)
    finally:
        status = guard.end(status)
    return status


def _run(argv: list[str]) -> int:
    if "--version" in argv or argv == ["-V"]:
        import mobuild

        print(f"mobuild {mobuild.__version__}")
        return 0
    from mobuild import noop

    status = noop.replay(argv)
    if status is not None:
        return status
    status, noop.recorder = 1, noop.Recorder(argv)
    try:
        status = _dispatch(argv)
        return status
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept, and the next run goes on from there", file=sys.stderr)
        return 130
    finally:
        noop.recorder.end(status)


def _dispatch(argv: list[str]) -> int:
    from pathlib import Path

    from mobuild.config.overrides import take_apart
    from mobuild.config.project import find_project
    from mobuild.errors import MobuildError
    from mobuild.report import messages

    project = None
    try:
        _check_here()
        words = take_apart(argv)
        verb, bare = _verb(list(words.bare))
        project = find_project(Path.cwd())
        if any(flag.split("=")[0] in _HYDRA_FLAGS for flag in words.flags):
            return _compose_and_run(_call(verb, (), words), (), words, project)
        if verb in ("init", "clean", "list"):
            return _without_jobs(verb, bare, words, project)
        if verb in ("pin", "inspect"):
            return _compose_and_run(_call(verb, _name(verb, bare), words), (), words, project)
        return _compose_and_run(_call(verb, (), words), _target(verb, bare, words), words, project)
    except MobuildError as error:
        messages.error(error)
        return error.status
    except Exception as fault:  # noqa: BLE001 - the last place where a traceback can become a sentence
        from mobuild.faults import unforeseen

        messages.error(unforeseen(fault, f"mobuild {' '.join(argv)}", project.faults if project else None))
        return 1


def _verb(bare: list[str]) -> tuple[str, list[str]]:
    """The verb and the bare words after it.

    Raises:
        ConfigError: the first bare word is no verb.
    """
    from mobuild.errors import ConfigError, did_you_mean

    if not bare:
        return "build", []
    if bare[0] not in VERBS:
        raise ConfigError(
            f"there is no verb {bare[0]!r}.{did_you_mean(bare[0], VERBS)}",
            f"Verbs: {', '.join(VERBS)}; mobuild --help\nOverrides have an '=': target={bare[0]}",
        )
    return bare[0], bare[1:]


def _target(verb: str, bare: list[str], words: Words) -> tuple[str, ...]:
    """`path engine`, `log engine` and `shell engine` mean `target=engine`; no other verb takes bare words.

    Raises:
        ConfigError: a word too many, or two targets.
    """
    from mobuild.errors import ConfigError

    if len(bare) > (1 if verb in ("path", "log", "shell") else 0):
        raise ConfigError(f"{verb}: what is {bare[-1]!r}?", f"overrides have an '=': target={bare[-1]}")
    if bare and any(word.startswith("target=") for word in words.overrides):
        raise ConfigError(f"{verb} {bare[0]} beside target=…: which of them?", "drop one of them")
    return tuple(f"target={word}" for word in bare)


def _name(verb: str, bare: list[str]) -> tuple[str, ...]:
    """The word after `pin` and `inspect`, which is no target.

    Raises:
        ConfigError: a word too many, or none for `inspect`.
    """
    from mobuild.errors import ConfigError

    if len(bare) > 1:
        raise ConfigError(f"{verb}: what is {bare[-1]!r}?", f"overrides have an '=': target={bare[-1]}")
    if verb == "inspect" and not bare:
        raise ConfigError("inspect: expected one path", "mobuild inspect PATH tells what that file was made of")
    return tuple(bare)


def _call(verb: str, bare: tuple[str, ...], words: Words) -> Call:
    """What to run for the verb, and whether that needs a recipe.

    Raises:
        ConfigError: a sweep of a verb that looks at the cache alone.
    """
    from mobuild.config.entry import Call
    from mobuild.errors import ConfigError

    function = verb
    if verb == "verify" and not any(word.startswith("target=") for word in words.overrides):
        function = "verify_all"
    elif verb == "pin" and not bare:
        function = "list_pins"
    elif verb == "pin" and "pin.remove=true" in words.overrides:
        function = "unpin"
    of_the_cache = function in ("gc", "inspect", "verify_all", "list_pins", "unpin")
    if of_the_cache and words.multirun:
        raise ConfigError(f"{verb} -m: looks at one cache, so there is nothing to sweep over", "leave -m out")
    return Call(verb, function, bare, of_the_cache)


def _without_jobs(verb: str, bare: list[str], words: Words, project: Project) -> int:
    from mobuild.errors import ConfigError

    if words.flags:
        raise ConfigError(f"{verb}: what is {words.flags[0]!r}?", f"mobuild {verb} takes no flags")
    if words.overrides and verb != "list":
        raise ConfigError(f"{verb}: what is {words.overrides[0]!r}?", f"mobuild {verb} takes no overrides")
    if verb == "init":
        from mobuild.config.catalogue import INTERNAL
        from mobuild.verbs.init import init

        if len(bare) != 1:
            raise ConfigError(
                "init: expected one name", "mobuild init NAME writes recipes/NAME.yaml and recipes/NAME.py"
            )
        return init(project.root, bare[0], INTERNAL)
    if bare:
        raise ConfigError(f"{verb}: what is {bare[0]!r}?", f"mobuild {verb} takes no words")
    if verb == "clean":
        from mobuild.verbs.clean import clean

        return clean(project.build)
    return _list(words, project)


def _list(words: Words, project: Project) -> int:
    """The choices, and the targets of the recipe where one can be chosen and read."""
    from mobuild.config.catalogue import catalogue
    from mobuild.config.entry import compose_targets
    from mobuild.config.overrides import value_of
    from mobuild.errors import MobuildError
    from mobuild.report import messages
    from mobuild.verbs.list import Targets, list_all

    targets, status = None, 0
    try:
        targets = Targets(*compose_targets(words, project))
    except MobuildError as error:
        if words.overrides:
            messages.error(error)
            status = error.status
        else:  # no recipe was asked for, so what can be chosen is the whole answer
            messages.note(f"no targets are shown: {error}")
    list_all(catalogue(project), targets, value_of(words.overrides, "format") == "json")
    return status


def _compose_and_run(call: Call, overrides: tuple[str, ...], words: Words, project: Project) -> int:
    """Let Hydra compose and call the verb with all jobs at once."""
    from dataclasses import replace

    from mobuild.config.entry import Entry
    from mobuild.report import messages

    if "COMP_LINE" in os.environ and words.asks_for_help and _complete(os.environ["COMP_LINE"], project):
        return 0
    for text in project.notes:
        messages.note(text)
    return Entry(call, project).run(replace(words, overrides=words.overrides + overrides))


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
    """Whatever comes asks for the current folder.

    Raises:
        ConfigError: it was removed meanwhile.
    """
    from pathlib import Path

    from mobuild.errors import ConfigError

    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise ConfigError("the current folder does not exist any more", "cd to the project") from error
