"""What a Python file means, what it imports and which variables it reads, from its syntax alone.

Two files mean the same when their syntax trees agree without doc strings, positions and comments, but for those that
give types.
"""

from __future__ import annotations

import ast
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.errors import ConfigError
from mobuild.fingerprint import digest_bytes

_SETTLED_SECONDS = 0.1  # a younger file may change again within one tick of the file system's clock

_MEND = "mend it, it is the code of a node of yours: python -m py_compile"

_memo: dict[str, tuple[tuple[int, ...], Meaning]] = {}


@dataclass(frozen=True)
class Import:
    """One import statement: `from ..a import b` is `Import("a", ("b",), 2)`."""

    module: str
    names: tuple[str, ...] = ()
    level: int = 0


@dataclass(frozen=True)
class Meaning:
    digest: str
    imports: tuple[Import, ...]
    variables: tuple[str, ...] = ()  # of the environment, where they are read by a name that is written out


def meaning(path: Path, newer: bool = False) -> Meaning:
    """The file's digest and imports, remembered while its stat token stays.

    `newer`: it is written for a Python newer than this one. Syntax that this one cannot read then counts
    by its bytes, without imports; what it imports is observed when it runs.

    Raises:
        ConfigError: a syntax error; names the file and the line.
    """
    status = path.stat()
    token = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    kept = _memo.get(str(path))
    if kept and kept[0] == token:
        return kept[1]
    found = _parsed(path, newer)
    if time.time() - status.st_mtime > _SETTLED_SECONDS:
        _memo[str(path)] = (token, found)
    return found


def _parsed(path: Path, newer: bool) -> Meaning:
    source = path.read_bytes()
    try:
        tree = _tree(source, str(path))
    except SyntaxError as error:
        if newer:
            return Meaning(digest_bytes(source), ())
        raise ConfigError(f"{path}:{error.lineno}: not valid Python: {error.msg}", f"{_MEND} {path}") from error
    except ValueError as error:  # null bytes
        raise ConfigError(f"{path}: not valid Python: {error}", f"{_MEND} {path}") from error
    imports = tuple(_imports(tree))
    variables = tuple(sorted(_variables(tree)))
    return Meaning(_digest(tree), imports, variables)


def _tree(source: bytes, name: str) -> ast.Module:
    """With comments that give types, which `torch.jit.script` reads; in a place of their own they are comments."""
    try:
        tree = ast.parse(source, filename=name, type_comments=True)
    except SyntaxError:
        return ast.parse(source, filename=name)
    tree.type_ignores = []
    return tree


def variables_in(source: bytes | str) -> frozenset[str]:
    """The variables of the environment that Python reads by name in `source`; none where this Python cannot read it."""
    try:
        return frozenset(_variables(ast.parse(source)))
    except (SyntaxError, ValueError):
        return frozenset()


def _digest(tree: ast.Module) -> str:
    """Of the tree's dump, whose form belongs to the minor version of the Python that parses."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            start = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body = node.body[start:]
    version = f"{sys.version_info.major}.{sys.version_info.minor}\n"
    try:
        text = ast.dump(tree)
    except RecursionError:  # it calls itself
        text = _dumped(tree)
    return digest_bytes((version + text).encode("utf-8", "surrogatepass"))


def _dumped(tree: ast.Module) -> str:
    """What `ast.dump` says, more slowly and of any depth: programs write chains of a thousand `elif`."""
    said: list[str] = []
    waiting: list[Any] = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, _Text):
            said.append(one)
        elif isinstance(one, ast.AST):
            fields = [(name, getattr(one, name, None)) for name in one._fields]
            parts = [(f"{name}=", value) for name, value in fields if not _is_left_out(one, name, value)]
            waiting += _in_reverse(f"{type(one).__name__}(", parts, ")")
        elif isinstance(one, list):
            waiting += _in_reverse("[", [("", value) for value in one], "]")
        else:
            said.append(repr(one))
    return "".join(said)


class _Text(str):
    """What is written as it stands, unlike the texts of a program."""


def _in_reverse(opening: str, parts: list[tuple[str, Any]], closing: str) -> list[Any]:
    found: list[Any] = [_Text(opening)]
    for number, (name, value) in enumerate(parts):
        found += [_Text(f", {name}" if number else name), value]
    return [*found, _Text(closing)][::-1]


def _is_left_out(node: ast.AST, name: str, value: object) -> bool:
    return value is None and getattr(type(node), name, ...) is None


def _imports(tree: ast.Module) -> list[Import]:
    """Every import in the file, late and conditional ones included, in a stable order."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names if alias.name != "*")
            found.append(Import(node.module or "", names, node.level))
    return list(dict.fromkeys(found))


def _variables(tree: ast.Module) -> set[str]:
    """`os.environ["X"]`, `os.environ.get("X")`, `os.getenv("X")`, `"X" in os.environ`, whatever `os` is called."""
    found: set[str] = set()
    for node in ast.walk(tree):
        asked: ast.expr | None = None
        if isinstance(node, ast.Subscript) and _is_named(node.value, "environ") and isinstance(node.ctx, ast.Load):
            asked = node.slice
        elif isinstance(node, ast.Call) and node.args:
            called = node.func
            is_method = isinstance(called, ast.Attribute) and _is_named(called.value, "environ")
            asked = node.args[0] if is_method or _is_named(called, "getenv") else None
        elif isinstance(node, ast.Compare) and any(_is_named(each, "environ") for each in node.comparators):
            asked = node.left
        if isinstance(asked, ast.Constant) and isinstance(asked.value, str):
            found.add(asked.value)
    return found


def _is_named(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == name) or (isinstance(node, ast.Name) and node.id == name)
