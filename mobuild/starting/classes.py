"""The networks that a project defines, found by the syntax of its files: which of them do these weights fit?"""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_SKIPPED = frozenset(("node_modules", "site-packages", "dist-packages", "venv", "build", "cache", "dist"))
_MOST_FILES = 2000
_MOST_BYTES = 1 << 20
_NETWORKS = ("Module", "LightningModule", "PreTrainedModel", "Sequential")
_REGISTERS = ("register_buffer", "register_parameter", "register_module", "add_module")


@dataclass(frozen=True)
class Class:
    """One class of a project whose base is a network. `parts` are the names that it gives to its parameters and
    layers, in order; `needed` the arguments that its constructor demands; `takes` those of its forward."""

    module: str
    name: str
    file: Path
    parts: tuple[str, ...]
    needed: tuple[str, ...]
    takes: tuple[str, ...]


def matching(root: Path, names: Collection[str], recipes: Path) -> list[Class]:
    """The classes below `root` that have a part for each of the tensors `names`, the best fit first."""
    wanted = {name.partition(".")[0] for name in names}
    found = [each for each in classes(root, recipes) if wanted <= set(each.parts)]
    return sorted(found, key=lambda each: (len(set(each.parts) - wanted), str(each.file), each.name))


def classes(root: Path, recipes: Path) -> Iterator[Class]:
    """All networks in Python files below `root` that can be imported from there, or from beside a recipe."""
    for path in _files(root):
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue  # it says what is wrong with it once it is used
        place = path.relative_to(recipes if path.is_relative_to(recipes) else root).with_suffix("")
        parts = place.parts[:-1] if place.name == "__init__" else place.parts
        if parts and all(part.isidentifier() for part in parts):
            yield from _of_file(".".join(parts), path, tree)


def _files(root: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and name[0] != "." and not _is_environment(here / name)
        )
        for path in (here / name for name in sorted(files) if name.endswith(".py")):
            count += 1
            if count > _MOST_FILES:
                return
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:  # Emacs leaves links to nothing
                yield path


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").exists()


def _of_file(module: str, path: Path, tree: ast.Module) -> Iterator[Class]:
    here = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in here.values():
        line = list(_line(node, here))
        if not any(base in _NETWORKS for each in line for base in _bases(each)):
            continue
        body = [each for one in reversed(line) for each in one.body]
        methods = {each.name: each for each in body if isinstance(each, ast.FunctionDef)}
        parts = dict.fromkeys(part for each in reversed(line) for part in _parts(each))
        needed, takes = (_arguments(methods.get(name)) for name in ("__init__", "forward"))
        yield Class(module, node.name, path, tuple(parts), needed, takes)


def _line(node: ast.ClassDef, here: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """The class and those of its file that it inherits from."""
    seen: dict[str, ast.ClassDef] = {}
    waiting = [node]
    while waiting:
        each = waiting.pop(0)
        if each.name not in seen:
            seen[each.name] = each
            waiting += [here[base] for base in _bases(each) if base in here]
    return iter(seen.values())


def _bases(node: ast.ClassDef) -> list[str]:
    """The last words of what it inherits from: `Module` of `torch.nn.Module`."""
    return [getattr(base, "attr", getattr(base, "id", "")) for base in node.bases]


def _parts(node: ast.ClassDef) -> Iterator[str]:
    """Names that are set on `self`, wherever in the class."""
    for each in ast.walk(node):
        targets = (
            each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
        )
        for target in targets:
            for inner in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
                    yield inner.attr
        if registered := _registered(each):
            yield registered


def _registered(node: ast.AST) -> str:
    """The name that a call such as `self.register_buffer("mean", …)` gives; empty for anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _REGISTERS:
        return ""
    return str(node.args[0].value) if node.args and isinstance(node.args[0], ast.Constant) else ""


def _arguments(function: ast.FunctionDef | None) -> tuple[str, ...]:
    """The arguments that a method demands, after `self`."""
    if function is None:
        return ()
    named = [*function.args.posonlyargs, *function.args.args]
    demanded = named[: len(named) - len(function.args.defaults)][1:]
    only = [
        each
        for each, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        if default is None
    ]
    return tuple(each.arg for each in [*demanded, *only])
