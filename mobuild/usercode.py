"""Turns the string that names the user's Python into the object it names.

Two forms: `file.py:attribute`, a file beside the recipe or in a folder below it, and
`package.module:attribute`, anything that the worker's interpreter can import. Only the worker resolves;
the plan knows a reference by its closure (`mobuild.closure`) and never imports it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Mapping

from mobuild.errors import ConfigError, NodeFailed, did_you_mean

folder: Path | None = None
"""The recipe's folder, set by the worker; files are looked up here (unset: the working directory)."""


def resolve(reference: str) -> Any:
    """The object that `reference` names, its module imported when it is not yet.

    Raises:
        ConfigError: no `:`, or no such file.
        NodeFailed: no such module or attribute, as only the import can tell. What the module itself raises while
            it is imported is the user's, and passes through.
    """
    where, attribute = split(reference)
    module = _file_module(reference, where) if is_file(where) else _named_module(reference, where)
    value: Any = module
    for name in attribute.split("."):
        value = _attribute(reference, value, name)
    return value


def bound(function: Callable[..., Any], inputs: Mapping[str, Path], positional: int = 1) -> Callable[..., Any]:
    """`function` with the paths of those `inputs` that it names as parameters.

    `def tokenize(sample, tokenizer)` gets the path of the need `tokenizer`. The first `positional`
    parameters are the caller's, whatever they are called.

    Raises:
        NodeFailed: it demands a parameter that is nearly, but not quite, the name of an input.
    """
    named = _named(function, positional)
    for each in named:
        near = did_you_mean(each.name, inputs) if each.name not in inputs and each.default is each.empty else ""
        if near:
            raise NodeFailed(
                f"user code {getattr(function, '__name__', function)!r}: its parameter {each.name!r} is no input "
                f"of this node.{near}",
                f"inputs: {', '.join(sorted(inputs))}; more are given by `needs`",
            )
    return functools.partial(function, **{each.name: inputs[each.name] for each in named if each.name in inputs})


def takes(function: Callable[..., Any], name: str, positional: int = 1) -> bool:
    """Whether `bound` would give `function` the input `name`."""
    return any(each.name == name for each in _named(function, positional))


def split(reference: str) -> tuple[str, str]:
    """`("det.py", "load")` of `det.py:load`.

    Raises:
        ConfigError: not of the form `where:attribute`.
    """
    where, colon, attribute = reference.rpartition(":")
    if not (colon and where and attribute):
        raise ConfigError(
            f"user code {reference!r}: expected 'file.py:attribute' or 'package.module:attribute'",
            f"for example {(where or attribute or 'model.py') + ':load'!r}",
        )
    return where, attribute


def is_file(where: str) -> bool:
    """Whether the part before the colon names a file rather than a module."""
    return where.endswith(".py") or "/" in where


def locate(reference: str, where: str, beside: Path) -> Path:
    """The absolute path of the file `where`, looked up in the folder `beside`.

    Raises:
        ConfigError: there is no such file; names the path that was tried.
    """
    path = Path(os.path.abspath(beside / where))  # noqa: PTH100 - as `sys.path` has it, links not followed
    if not path.is_file():
        near = did_you_mean(path.name, _python_files(path.parent))
        raise ConfigError(
            f"user code {reference!r}: there is no file {str(path)!r}.{near}",
            "a file is looked up beside its recipe; a module is written 'package.module:attribute'",
        )
    return path


def _named(function: Callable[..., Any], positional: int) -> list[inspect.Parameter]:
    """The parameters that can be given by name, after the first `positional` ones."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[positional:]
    except (TypeError, ValueError):  # some built-in functions have no signature
        return []
    return [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


def _python_files(parent: Path) -> list[str]:
    return [path.name for path in parent.glob("*.py")]


def _file_module(reference: str, where: str) -> ModuleType:
    path = locate(reference, where, folder or Path.cwd())
    name = _free_name(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, str(path), loader=SourceFileLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _free_name(path: Path) -> str:
    """The stem, so that a sibling's `import det` finds this very module; a longer name when another
    file has taken the stem (`enc/model.py` and `dec/model.py` in one node)."""
    taken = sys.modules.get(path.stem)
    if taken is None or _is_at(taken, path):
        return path.stem
    return "_".join(path.with_suffix("").parts[1:])


def _is_at(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and os.path.realpath(str(file)) == os.path.realpath(str(path))


def _named_module(reference: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not (where == error.name or where.startswith(error.name + ".")):
            raise  # something that the user's module imports is missing, not the module itself
        searched = " and ".join(repr(entry) for entry in sys.path[:2])
        raise NodeFailed(
            f"user code {reference!r}: {sys.executable} finds no module {error.name!r}",
            f"looked first in {searched}, then in the interpreter's packages and in the project's src/; "
            "a file beside the recipe is written 'file.py:attribute'",
        ) from error


def _attribute(reference: str, holder: Any, name: str) -> Any:
    if hasattr(holder, name):
        return getattr(holder, name)
    known = [known for known in dir(holder) if not known.startswith("_")]
    place = getattr(holder, "__file__", None) or repr(holder)
    raise NodeFailed(
        f"user code {reference!r}: {place} has no attribute {name!r}.{did_you_mean(name, known)}",
        f"it has: {', '.join(known[:12]) or 'nothing public'}",
    )
