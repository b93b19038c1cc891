"""Which variables of the environment a shell script reads, by its text alone: nothing watches the shell's own reads.

A reading by patterns (POSIX sh 2.6.2, Parameter Expansion, and what bash adds): a name too many costs a condition that
holds, as nobody sets it; what a script sets itself is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
_ENDINGS = (".sh", ".bash", ".ksh", ".zsh")
_LARGEST_BYTES = 1 << 20  # no script by hand is larger

_UNREAD = re.compile(r"'[^']*'|\\.|(?:^|(?<=\s))#[^\n]*", re.MULTILINE | re.DOTALL)  # quoted, escaped, a comment
_DOUBLE = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)
_USE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{[#!]?([A-Za-z_]\w*)(:?[-=?+])?)")
_VALUE = r'(?:"(?:\\.|[^"\\])*"|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|[^\s;&|"()])*'
_SET = re.compile(rf"(?:^|(?<=[\s;&|(`{{]))([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=({_VALUE})", re.MULTILINE)
_NAMED = re.compile(
    r"\b(?:for|select|getopts\s+\S+|printf\s+-v|(?:read|mapfile|readarray|local|declare|typeset)(?:\s+-\S+)*)"
    r"((?:\s+[A-Za-z_]\w*)+)"
)
# What shells set themselves.
_SET_BY_SHELLS = """
COLUMNS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HOSTNAME HOSTTYPE IFS LINENO LINES MACHTYPE OLDPWD
OPTARG OPTERR OPTIND OSTYPE PIPESTATUS PPID PS1 PS2 PS3 PS4 PWD RANDOM REPLY SECONDS SHELLOPTS SHLVL SRANDOM UID _
"""
_OWN = frozenset(_SET_BY_SHELLS.split())


def variables(text: str) -> frozenset[str]:
    """The names that a script expands and does not set before."""
    plain = _without_quoted(text)
    set_from = dict(reversed(list(_assigned(plain))))  # the first place of each
    found = set()
    for use in _USE.finditer(plain):
        name = use[1] or use[2]
        if name in _OWN or name.startswith("BASH"):
            continue
        if name not in set_from or (use.start() < set_from[name] and (use[3] or _is_of_itself(plain, name, use))):
            found.add(name)
    return frozenset(found)


def of_command(words: Sequence[str]) -> frozenset[str]:
    """Of the scripts that stand in a command line: `sh -c '…'`."""
    found: set[str] = set()
    for i, word in enumerate(words[:-2]):
        if PurePath(word).name in _SHELLS:
            script = next((j for j in range(i + 1, len(words)) if not words[j].startswith("-")), len(words))
            if any("c" in option for option in words[i + 1 : script]) and script < len(words):
                found |= variables(words[script])
    return frozenset(found)


def of_file(path: Path) -> frozenset[str]:
    """Of a file, where it is a shell's script by its name or its first line."""
    with open(path, "rb") as stream:
        data = stream.read(_LARGEST_BYTES)
    first = data.partition(b"\n")[0].split()
    is_script = path.suffix in _ENDINGS or (
        data.startswith(b"#!")
        and any(PurePath(word.decode(errors="replace")).name in _SHELLS for word in _program(first))
    )
    return variables(data.decode(errors="replace")) if is_script else frozenset()


def _program(first: list[bytes]) -> list[bytes]:
    return [first[0].removeprefix(b"#!"), *first[1:]] if first else []


def _without_quoted(text: str) -> str:
    """`text` without what a shell does not expand, in the same places; inside double quotes a `'` is a letter."""
    parts, last = [], 0
    for quoted in _DOUBLE.finditer(text):
        if text.count("'", 0, quoted.start()) % 2:  # inside single quotes
            continue
        parts += [_UNREAD.sub(_blank, text[last : quoted.start()]), re.sub(r"\\.", _blank, quoted[0])]
        last = quoted.end()
    return "".join([*parts, _UNREAD.sub(_blank, text[last:])])


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _assigned(text: str) -> Iterator[tuple[str, int]]:
    """(name, where it is set from) of all that the script sets."""
    places = [(found[1], found.end()) for found in _SET.finditer(text)]
    places += [(name, found.end()) for found in _NAMED.finditer(text) for name in found[1].split()]
    yield from sorted(places, key=lambda place: place[1])


def _is_of_itself(text: str, name: str, use: re.Match[str]) -> bool:
    """Whether the use is in the value that the name is set to: `X=$X:more`."""
    return any(found[1] == name and found.start(2) <= use.start() < found.end(2) for found in _SET.finditer(text))
