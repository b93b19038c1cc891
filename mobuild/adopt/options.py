"""Command lines with options as argparse reads them: `--name value`, `--name=value`, `-o value`, several values."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import NoReturn

from mobuild.adopt.wishes import unknown_flags
from mobuild.errors import ConfigError

SWITCH, ONE, SOME, MANY = 0, 1, "+", "*"
"""No value; one; one or more, which may be given again; none or more."""
Values = tuple[str, ...]


def read(
    tool: str, known: Mapping[str, int | str], arguments: Sequence[str]
) -> tuple[list[tuple[str, Values]], Values]:
    """The options in their order, by the first of their names (`-o, --output`), and the words that are none.

    Raises:
        ConfigError: an option that the tool does not have, or one without its value.
    """
    parser = _Parser(tool)
    found: list[tuple[str, Values]] = []
    for names, count in known.items():
        parser.add_argument(*names.split(", "), nargs=count, action=_note(names.split(", ")[0], found))
    parser.add_argument("words", nargs="*")
    given, rest = parser.parse_known_intermixed_args(list(arguments))
    if unknown := [word for word in rest if word.startswith("-")]:
        every = [name for names in known for name in names.split(", ")]
        raise unknown_flags(tool, [word.partition("=")[0] for word in unknown], every)
    return found, tuple(given.words) + tuple(rest)


class _Parser(argparse.ArgumentParser):
    """One that says what is wrong in mobuild's words."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"adopt: {self.prog}: {message.removeprefix('argument ')}", f"{self.prog} --help")


def _note(name: str, found: list[tuple[str, Values]]) -> type[argparse.Action]:
    class Note(argparse.Action):
        """Notes every use of the option, in the order of the line."""

        def __call__(self, parser: object, namespace: object, values: object, option_string: object = None) -> None:
            if option_string:
                words = values if isinstance(values, list) else [] if values is None else [str(values)]
                found.append((name, tuple(words)))

    return Note
