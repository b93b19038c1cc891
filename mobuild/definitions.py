"""What a Python file surely does not define, from its syntax alone: a misspelt function is told without an import."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from mobuild import usercode
from mobuild.errors import did_you_mean

_OPEN = ("globals", "exec", "eval", "setattr", "vars", "locals", "__getattr__", "modules")
"""Names in a file that may define others in ways that its syntax does not show."""


def lacks(reference: str, folder: Path, project: Path) -> tuple[str, str]:
    """Why `reference` names nothing that its file defines, and what to do; two empty texts where that is not sure.

    A file lies beside the recipe, in `folder`; a module there or in the project. What is installed is not looked into.
    """
    where, attribute = usercode.split(reference)
    places = [folder / where] if usercode.is_file(where) else _modules(where, (folder, project))
    path = next((each for each in places if each.is_file()), None)
    names = _defined(path) if path else None
    wanted = attribute.partition(".")[0]
    if names is None or wanted in names or (wanted.startswith("__") and wanted.endswith("__")):
        return "", ""
    known = sorted(name for name in names if not name.startswith("_"))
    message = f"user code {reference!r}: {path} has no attribute {wanted!r}.{did_you_mean(wanted, known)}"
    return message, f"it has: {', '.join(known[:12]) or 'nothing public'}"


def _modules(name: str, folders: Sequence[Path]) -> list[Path]:
    below = Path(*name.split("."))
    return [folder / form for folder in folders for form in (below.with_suffix(".py"), below / "__init__.py")]


def _defined(path: Path) -> set[str] | None:
    """The names that the module at `path` has once it is imported; None where more than its syntax decides."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    if any(_is_open(node) for node in ast.walk(tree)):
        return None
    return set(_names(tree.body)) | {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }


def _is_open(node: ast.AST) -> bool:
    name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
    return name in _OPEN or (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names))


def _names(body: Sequence[ast.AST]) -> Iterator[str]:
    """What statements bind, those inside conditions and loops included, those of functions and classes not."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id
        elif not isinstance(node, ast.Lambda):
            yield from (name for field in ("name", "rest") if isinstance(name := getattr(node, field, None), str))
            yield from _names(list(ast.iter_child_nodes(node)))
