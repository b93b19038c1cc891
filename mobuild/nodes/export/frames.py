"""From an exception out of a library to the user's own line and to words without colours.

Exporters raise through dozens of frames and wrap what happened in pages of advice.
"""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FRAME_TEXT = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_OWN = str(Path(__file__).parents[2])


def causes(error: BaseException) -> list[BaseException]:
    """`error` and what caused it, innermost last."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def words(error: BaseException, limit: int = 400) -> str:
    """The first telling line of the innermost cause, without colours."""
    for cause in reversed(causes(error)):
        lines = [line.strip() for line in plain(str(cause)).splitlines() if line.strip()]
        if lines:
            return f"{type(cause).__name__}: {lines[0][:limit]}"
    return type(error).__name__


def decolour(error: BaseException) -> None:
    """Remove colour codes from `error` and its causes, since the log shows them too."""
    for cause in causes(error):
        cause.args = tuple(plain(each) if isinstance(each, str) else each for each in cause.args)


def plain(text: str) -> str:
    return _ANSI.sub("", text)


def user_line(error: BaseException) -> str:
    """``recipes/det.py:7 in forward: `if x.sum() > 0:` `` of the innermost frame that is the user's;
    empty when there is none."""
    for cause in reversed(causes(error)):
        for file, line, function in reversed(_frames(cause)):
            if is_users(file):
                return place(file, line, function)
    return ""


def place(file: str, line: int, function: str) -> str:
    code = linecache.getline(file, line).strip()
    return f"{_short(file)}:{line} in {function}" + (f": `{code}`" if code else "")


def is_users(file: str) -> bool:
    """Neither the standard library, nor an installed package, nor mobuild itself."""
    places = sysconfig.get_paths()
    installed = [places[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return not file.startswith(("<", *installed, _OWN))


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    frames = [_FRAME_TEXT.search(line) for line in plain(str(error)).splitlines()]
    told = [(found.group(1), int(found.group(2)), found.group(3)) for found in frames if found]
    return told + _walk(error.__traceback__)


def _walk(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    return [(each.filename, each.lineno or 0, each.name) for each in traceback.extract_tb(trace)]


def _short(file: str) -> str:
    here = Path.cwd()
    return str(Path(file).relative_to(here)) if here in Path(file).parents else file
