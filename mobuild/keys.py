"""What a node's key is made of besides its inputs: parameters, code, toolchain.

Reads files and folders, imports nothing of the user's and none of the heavy libraries.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild import toolchain
from mobuild.closure import Closure, closure
from mobuild.errors import ToolchainError
from mobuild.fingerprint import Fingerprint, digest_file, parameters
from mobuild.graph import NodeSpec
from mobuild.node import code_references, fields_of
from mobuild.toolchain import Environment


@dataclass(frozen=True)
class Traits:
    """The part of a fingerprint that is known before the inputs are."""

    params: Mapping[str, Any]
    code: Mapping[str, str]
    toolchain: Mapping[str, str]
    files: tuple[Path, ...]  # the first-party files behind `code`
    missing: frozenset[str]  # modules that the code imports and that are nowhere; the key changes when they come

    def fingerprint(self, spec: NodeSpec, inputs: Mapping[str, str]) -> Fingerprint:
        node = spec.node
        return Fingerprint(node.kind, node.revision, self.params, inputs, self.code, self.toolchain)


class Keys:
    """Works out traits; remembers environments and closures for the length of one command."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._environments: dict[Path | None, Environment] = {}
        self._closures: dict[tuple[str, Path, Path, Path | None], Closure] = {}

    def environment(self, python: Path | None) -> Environment:
        """The interpreter that runs a node: `None` is mobuild's own.

        Raises:
            ToolchainError: the interpreter is missing, too old, or does not start.
        """
        if python not in self._environments:
            self._environments[python] = toolchain.probe(python, self._cache) if python else toolchain.host()
        return self._environments[python]

    def environment_of(self, spec: NodeSpec) -> Environment:
        """Where the user's Python of a node runs: under the interpreter that its command names by a path, of any
        age, else under the node's own.

        Raises:
            ToolchainError: as `environment` does. One that a command names may also be none, which its run says.
        """
        named = getattr(spec.node, "interpreter", None)
        path = named(spec.root) if callable(named) else None
        if path is None:
            return self.environment(spec.python)
        if path not in self._environments:
            try:
                self._environments[path] = toolchain.probe(path, self._cache, oldest=(0,))
            except ToolchainError:
                self._environments[path] = self.environment(spec.python)
        return self._environments[path]

    def traits(self, spec: NodeSpec) -> Traits:
        """The traits of a node as things stand now."""
        environment = self.environment_of(spec)
        references = code_references(spec.node)
        closures = [self._closure(reference, spec.folder, spec) for reference in references]
        code = {name: value for each in closures for name, value in each.modules.items()}
        scripts = _scripts(spec)
        for path in scripts:
            name = str(path.relative_to(spec.root))
            if path.suffix == ".py":
                # Closures are asked for by file and attribute; which attribute makes no difference.
                closures.append(found := self._closure(f"{path.name}:main", path.parent, spec))
                code.update({f"{name} {module}": value for module, value in found.modules.items()})
            else:
                code[name] = digest_file(path)
        for path in _own_kinds(spec.node):
            closures.append(found := self._closure(f"{path.name}:main", path.parent, spec))
            code.update({f"kind {module}": value for module, value in found.modules.items()})
        versions = self._versions(spec, environment, {name for each in closures for name in each.imports})
        if references:
            versions["python"] = ".".join(environment.version.split(".")[:2])
        files = tuple(path for each in closures for path in each.files) + scripts
        params = parameters(spec.node)
        if spec.env:
            params["env"] = dict(spec.env)
        missing = frozenset(name for each in closures for name in each.missing)
        return Traits(params, code, versions, files, missing)

    def forget_code(self) -> None:
        """Read the user's code anew at the next question, as a node that ran may have seen other files."""
        self._closures.clear()

    def _closure(self, reference: str, folder: Path, spec: NodeSpec) -> Closure:
        environment = self.environment_of(spec)
        place = (reference, folder, spec.root, environment.python)
        if place not in self._closures:
            self._closures[place] = closure(reference, folder, spec.root, environment)
        return self._closures[place]

    def _versions(self, spec: NodeSpec, environment: Environment, imports: Iterable[str]) -> dict[str, str]:
        distributions = {environment.modules[name] for name in imports if name in environment.modules}
        tools = {*spec.node.tools, *distributions}
        return toolchain.versions(environment, sorted(tools)) if tools else {}


def _own_kinds(node: Any) -> list[Path]:
    """The files of the classes, the node's and those that it holds, which mobuild does not ship.

    Ours carry a `revision` that golden tests watch; nobody watches the others.
    """
    held = {type(getattr(node, spec.name)) for spec in fields_of(type(node))}
    classes = {cls for cls in {type(node), *held} if dataclasses.is_dataclass(cls)}
    files = {sys.modules[cls.__module__].__file__ for cls in classes if cls.__module__.partition(".")[0] != "mobuild"}
    return sorted(Path(file) for file in files if file)


def has_user_code(spec: NodeSpec) -> bool:
    """Whether Python of the user's runs in the node's own process."""
    return bool(code_references(spec.node) or _own_kinds(spec.node))


def runs_program(spec: NodeSpec) -> bool:
    """Whether the node runs a program of the user's, in a process below its own."""
    return bool(getattr(spec.node, "cmd", ""))


def _scripts(spec: NodeSpec) -> tuple[Path, ...]:
    """The project's files that a node runs by name (a command's scripts)."""
    files = getattr(spec.node, "files", None)
    return tuple(files(spec.root)) if callable(files) else ()
