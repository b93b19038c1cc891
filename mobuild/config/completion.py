"""Completion in the shell: verbs from here, everything else from Hydra.

The script that `mobuild -sc install=bash` prints asks `mobuild -sc query=bash`, with the line so far in
COMP_LINE. Hydra takes every word of it for an override, so the verb is taken out, and what the command line
would add is put in: without a recipe there are no nodes to complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mobuild.config.overrides import Words, complete, take_apart
from mobuild.config.project import Project
from mobuild.errors import ConfigError


def verbs_for(line: str, verbs: Sequence[str]) -> list[str]:
    """The verbs that the last word of `line` may become; none once there is a verb, or in an override."""
    _, done, last = _split(line)
    if last.startswith("-") or "=" in last or _words(done).bare:
        return []
    return [verb for verb in verbs if verb.startswith(last)]


def choices_for(line: str, choices: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The choices of a group in `choices` that the last word of `line` may become; None for any other word.

    Hydra would offer as well what recipes are built on, and no hardware that lies in a folder (a MIG slice).
    """
    *_, last = _split(line)
    key, _, value = last.partition("=")
    if key not in choices or "=" not in last:
        return None
    before = value[: value.rfind(",") + 1]
    return [f"{key}={before}{name}" for name in choices[key] if name.startswith(value[len(before) :])]


def groups_for(line: str, groups: Sequence[str]) -> list[str]:
    """Those of `groups` that the last word of `line` may become: Hydra forgets the `=` of some."""
    *_, last = _split(line)
    return [f"{group}=" for group in groups if f"{group}=".startswith(last) and "=" not in last]


def line_for_hydra(line: str, project: Project) -> str:
    """`line` without its bare words, with the recipe that would be built."""
    program, done, last = _split(line)
    words = _words(done)
    try:
        overrides = complete(words, project)
    except ConfigError:  # several recipes and no default: what does not depend on them is still completed
        overrides = list(words.overrides)
    return " ".join([program, *words.flags, *overrides, last])


def _words(done: Sequence[str]) -> Words:
    """The finished words; as if there were none, when they are not understood."""
    try:
        return take_apart(done)
    except ConfigError:
        return Words((), (), ())


def _split(line: str) -> tuple[str, list[str], str]:
    """The program, the finished words, and the word that is being written (empty after a space)."""
    program, *words = line.split() or [""]
    last = words.pop() if words and not line[-1].isspace() else ""
    return program, words, last
