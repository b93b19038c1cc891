"""What a node's key is made of besides its inputs: parameters, code, toolchain.

Reads files and folders, imports nothing of the user's and none of the heavy libraries.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobuild import interpreters, locked, programs, shell_text, toolchain
from mobuild.closure import Closure, closure
from mobuild.errors import ToolchainError
from mobuild.fingerprint import Fingerprint, digest_file, parameters
from mobuild.graph import NodeSpec
from mobuild.locked import Locked
from mobuild.node import code_references, inside, per_class
from mobuild.toolchain import Environment

_MAY_READ = re.compile(r"\$|environ|getenv|source\s|\.\s")  # of most commands: no


@dataclass(frozen=True)
class Traits:
    """The part of a fingerprint that is known before the inputs are."""

    params: Mapping[str, Any]
    code: Mapping[str, str]
    toolchain: Mapping[str, str]
    files: tuple[Path, ...]  # the first-party files behind `code`
    missing: frozenset[str]  # modules that the code imports and that are nowhere; the key changes when they come
    variables: frozenset[str] = frozenset()  # of the environment, that scripts read in a process which nobody watches
    places: Mapping[str, Path] = field(default_factory=dict)  # the files of `code`, by its names
    folders: frozenset[str] = frozenset()  # that its modules were looked for in

    def fingerprint(self, spec: NodeSpec, inputs: Mapping[str, str]) -> Fingerprint:
        node = spec.node
        return Fingerprint(node.kind, node.revision, self.params, inputs, self.code, self.toolchain)


class Keys:
    """Works out traits; remembers environments and closures for the length of one command."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._environments: dict[tuple[object, ...], Environment] = {}
        self._closures: dict[tuple[object, ...], Closure] = {}

    def environment(self, spec: NodeSpec) -> Environment:
        """Where a node runs; of a locked set and of an image only as much as can be known without them.

        Raises:
            ToolchainError: the interpreter is missing, too old, or does not start.
            ConfigError, SourceError: the locked set is none.
        """
        is_host = not (spec.python or spec.requirements or spec.container)
        place = () if is_host else (spec.python, spec.requirements, spec.container, spec.root)
        if place not in self._environments:
            self._environments[place] = self._environment(spec)
        return self._environments[place]

    def locked(self, spec: NodeSpec) -> tuple[Locked, Environment]:
        """The locked set of a node that has one, and the environment of the interpreter to make its own with."""
        assert spec.requirements
        base = self.environment(dataclasses.replace(spec, requirements=None))
        return locked.read(spec.requirements, base.version), base

    @property
    def environments(self) -> tuple[Environment, ...]:
        """All that were asked for until now."""
        return tuple(self._environments.values())

    def environment_of(self, spec: NodeSpec) -> Environment:
        """Where the user's Python of a node runs: under the interpreter that its command names, of any age, else where
        the node does.

        Raises:
            ToolchainError: as `environment` does. What a command names may also be none, which its run says.
        """
        own = self.environment(spec)
        named = getattr(spec.node, "interpreter", None)
        path = named(spec.root) if callable(named) and not spec.container else None
        if path is None:
            return own
        if (path, spec.root) not in self._environments:
            search = os.pathsep.join([str(own.python.parent), os.environ.get("PATH", os.defpath)])
            try:
                self._environments[path, spec.root] = self._probed(path, spec.root, search, oldest=(0,))
            except ToolchainError:
                self._environments[path, spec.root] = own
        return self._environments[path, spec.root]

    def _environment(self, spec: NodeSpec) -> Environment:
        if spec.container:
            return Environment(Path(spec.container.python), "", (), {}, {})
        if spec.requirements:
            wanted, base = self.locked(spec)
            return wanted.environment(base)
        return self._probed(spec.python, spec.root) if spec.python else toolchain.host()

    def _probed(self, python: Path, root: Path, search: str | None = None, **limits: Any) -> Environment:
        found = interpreters.find(python, root, search)
        environment = toolchain.probe(found.path, self._cache, **limits)
        return dataclasses.replace(environment, files=(*environment.files, *found.files), variables=found.variables)

    def traits(self, spec: NodeSpec) -> Traits:
        """The traits of a node as things stand now."""
        environment = self.environment_of(spec)
        references = code_references(spec.node)
        closures = [self._closure(reference, spec.folder, spec) for reference in references]
        code = {name: value for each in closures for name, value in each.modules.items()}
        places = {name: path for each in closures for name, path in each.places.items()}
        scripts = _scripts(spec)
        variables: set[str] = set(_named_by_cmd(spec))
        for path in scripts:
            name = str(path.relative_to(spec.root))
            if path.suffix == ".py":
                # Closures are asked for by file and attribute; which attribute makes no difference.
                closures.append(found := self._closure(f"{path.name}:main", path.parent, spec))
                code.update({f"{name} {module}": value for module, value in found.modules.items()})
                places.update({f"{name} {module}": path for module, path in found.places.items()})
                variables.update(found.variables)
            else:
                code[name], places[name] = digest_file(path), path
                variables.update(shell_text.of_file(path, _start(spec)))
        for path in _own_kinds(spec.node):
            closures.append(found := self._closure(f"{path.name}:main", path.parent, spec))
            code.update({f"kind {module}": value for module, value in found.modules.items()})
            places.update({f"kind {module}": path for module, path in found.places.items()})
        imports = {name for each in closures for name in each.imports}
        if spec.requirements:  # whose folders may not be there to be looked into
            imports |= {name.partition(".")[0] for each in closures for name in each.missing}
        files = tuple(path for each in closures for path in each.files) + scripts
        params = parameters(spec.node)
        if spec.env:
            params["env"] = dict(spec.env)
        runs_python = bool(closures) or programs.is_python(str(getattr(spec.node, "cmd", "")))
        missing = frozenset(name for each in closures for name in each.missing)
        versions = self._versions(spec, environment, imports, runs_python)
        folders = frozenset().union(*(each.folders for each in closures))
        return Traits(params, code, versions, files, missing, frozenset(variables - set(spec.env)), places, folders)

    def forget_code(self) -> None:
        """Read the user's code anew at the next question, as a node that ran may have seen other files."""
        self._closures.clear()

    def _closure(self, reference: str, folder: Path, spec: NodeSpec) -> Closure:
        environment = self.environment_of(spec)
        place = (reference, folder, spec.root, environment.python, bool(spec.requirements))
        if place not in self._closures:
            self._closures[place] = closure(reference, folder, spec.root, environment)
        return self._closures[place]

    def _versions(
        self, spec: NodeSpec, environment: Environment, imports: Iterable[str], runs_python: bool
    ) -> dict[str, str]:
        if spec.container:
            return {"image": spec.container.digest, "python": spec.container.python}
        distributions = {environment.modules[name] for name in imports if name in environment.modules}
        tools = {*spec.node.tools, *distributions}
        versions = toolchain.versions(environment, sorted(tools)) if tools else {}
        if runs_python:
            versions["python"] = ".".join(environment.version.split(".")[:2])
        return versions


def _own_kinds(node: Any) -> list[Path]:
    """The files of the classes, the node's and those that it holds, which mobuild does not ship.

    Ours carry a `revision` that golden tests watch; nobody watches the others.
    """
    return sorted({Path(file) for one in inside(node) if (file := _own_file(type(one)))})


@per_class
def _own_file(cls: type) -> str | None:
    return None if cls.__module__.partition(".")[0] == "mobuild" else sys.modules[cls.__module__].__file__


def has_user_code(spec: NodeSpec) -> bool:
    """Whether Python of the user's runs in the node's own process."""
    return bool(code_references(spec.node) or _own_kinds(spec.node))


def runs_program(spec: NodeSpec) -> bool:
    """Whether the node runs a program of the user's, in a process below its own."""
    return bool(getattr(spec.node, "cmd", ""))


def _named_by_cmd(spec: NodeSpec) -> frozenset[str]:
    """The variables that a shell, or a Python, reads by the text of the command line itself."""
    cmd = str(getattr(spec.node, "cmd", ""))
    if not _MAY_READ.search(cmd):
        return frozenset()
    if getattr(spec.node, "shell", False):
        return shell_text.variables(cmd, _start(spec))
    return shell_text.of_command(programs.split(cmd), _start(spec))


def _start(spec: NodeSpec) -> Path:
    """Where the relative paths of a command begin."""
    return spec.root / str(getattr(spec.node, "cwd", ""))


def _scripts(spec: NodeSpec) -> tuple[Path, ...]:
    """The project's files that a node runs by name (a command's scripts)."""
    files = getattr(spec.node, "files", None)
    return tuple(files(spec.root)) if callable(files) else ()
