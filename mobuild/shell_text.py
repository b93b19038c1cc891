"""Which variables of the environment a script reads, by its text alone: nothing watches what a program asks for.

Of Python's files and what they import, `closure` tells; here are shells, and Python in a command line.

A reading by patterns (POSIX sh 2.6.2, Parameter Expansion, and what bash adds): a name too many costs a condition that
holds, as nobody sets it; what a script sets itself is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from mobuild.syntax import variables_in

_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_SOURCED = re.compile(r"(?:^|(?<=[\s;&|]))(?:\.|source)\s+([^\s;&|]+)", re.MULTILINE)
_DEEPEST = 5  # files that take in others
_ENDINGS = (".sh", ".bash", ".ksh", ".zsh")
_LONGEST_LINE_BYTES = 256  # of a first line that names a program
_LARGEST_BYTES = 1 << 20  # no script by hand is larger

_VERBATIM = re.compile(r"<<-?\s*['\"\\](\w+)['\"]?[^\n]*\n.*?^\t*\1\s*?$", re.MULTILINE | re.DOTALL)  # <<'EOF'
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


def variables(text: str, folder: Path) -> frozenset[str]:
    """The names that a script, started in `folder`, expands and does not set before."""
    plain = _without_quoted(_VERBATIM.sub(_blank, _with_sourced(text, folder, _DEEPEST)))
    set_from = dict(reversed(list(_assigned(plain))))  # the first place of each
    found = set()
    for use in _USE.finditer(plain):
        name = use[1] or use[2]
        if name in _OWN or name.startswith("BASH"):
            continue
        if name not in set_from or (use.start() < set_from[name] and (use[3] or _is_of_itself(plain, name, use))):
            found.add(name)
    return frozenset(found)


def of_command(words: Sequence[str], folder: Path) -> frozenset[str]:
    """Of the scripts that stand in a command line, started in `folder`: `sh -c '…'`, `python -c '…'`."""
    found: set[str] = set()
    for i, word in enumerate(words[:-2]):
        name = PurePath(word).name
        if name in _SHELLS:
            found |= variables(_after_c(words[i + 1 :]), folder)
        elif _PYTHON.fullmatch(name):
            found |= variables_in(_after_c(words[i + 1 :]))
    return frozenset(found)


def of_file(path: Path, folder: Path) -> frozenset[str]:
    """Of a file, where it is a script of a shell or of Python by its name or its first line."""
    with open(path, "rb") as stream:
        start = stream.read(_LONGEST_LINE_BYTES)
        first = start.partition(b"\n")[0].decode(errors="replace") if start.startswith(b"#!") else ""
        programs = [PurePath(word).name for word in first.removeprefix("#!").split()]
        is_shells = path.suffix in _ENDINGS or any(name in _SHELLS for name in programs)
        if not is_shells and not any(map(_PYTHON.fullmatch, programs)):  # data, perhaps of gigabytes
            return frozenset()
        text = (start + stream.read(_LARGEST_BYTES)).decode(errors="replace")
    return variables(text, folder) if is_shells else variables_in(text)


def _after_c(words: Sequence[str]) -> str:
    """The text that follows the options, when `-c` is among them: also `-euc`."""
    script = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    has_text = any(re.fullmatch("-[A-Za-z]*c", option) for option in words[:script])
    return words[script] if has_text and script < len(words) else ""


def _with_sourced(text: str, folder: Path, depth: int) -> str:
    """`text` with the files in the place where it takes them in: `. ./environment.sh`."""

    def content(found: re.Match[str]) -> str:
        path = folder / found[1].strip("\"'")
        is_ours = path.is_file() and path.is_relative_to(folder) and not (path.parent.parent / "pyvenv.cfg").exists()
        if not is_ours or path.stat().st_size > _LARGEST_BYTES:
            return found[0]
        return "\n" + _with_sourced(path.read_text(errors="replace"), folder, depth - 1) + "\n"

    return _SOURCED.sub(content, text) if depth else text


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
