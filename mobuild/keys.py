"""What a node's key is made of besides its inputs: parameters, code, toolchain.

Reads files and folders, imports nothing of the user's and none of the heavy libraries.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobuild import interpreters, locked, programs, shell_text, toolchain
from mobuild.closure import Closure, closure
from mobuild.errors import ToolchainError
from mobuild.fingerprint import Fingerprint, parameters
from mobuild.graph import NodeSpec
from mobuild.locked import Locked
from mobuild.node import inside, per_class, references_of
from mobuild.store import StatCache
from mobuild.toolchain import Environment
from mobuild.values import value

_MAY_READ = re.compile(r"\$|environ|getenv|source\s|\.\s")  # of most commands: no


@value
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
    is_watched: bool = False  # whether code or a program of the user's runs, of which records have conditions

    def fingerprint(self, spec: NodeSpec, inputs: Mapping[str, str]) -> Fingerprint:
        node = spec.node
        return Fingerprint(node.kind, node.revision, self.params, inputs, self.code, self.toolchain)


@dataclass
class _Code:
    """The user's code behind a node, closure by closure."""

    modules: dict[str, str] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    is_any: bool = False

    def add(self, prefix: str, found: Closure) -> None:
        """`prefix` tells the modules of a closure from those of others."""
        self.is_any = True
        self.modules.update({f"{prefix}{name}": digest for name, digest in found.modules.items()})
        self.places.update({f"{prefix}{name}": path for name, path in found.places.items()})
        self.files += found.files
        self.imports.update(found.imports)
        self.missing.update(found.missing)
        self.folders.update(found.folders)


class Keys:
    """Works out traits; remembers environments and closures for the length of one command."""

    def __init__(self, local: Path, files: StatCache) -> None:
        """`local` is the machine's part of the store, where interpreters are remembered."""
        self._local, self._files = local, files
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
        environment = toolchain.probe(found.path, self._local, **limits)
        return dataclasses.replace(environment, files=(*environment.files, *found.files), variables=found.variables)

    def traits(self, spec: NodeSpec) -> Traits:
        """The traits of a node as things stand now."""
        environment, held, found = self.environment_of(spec), inside(spec.node), _Code()
        for reference in references_of(held):
            found.add("", self._closure(reference, spec.folder, spec))
        for path in _own_kinds(held):
            found.add("kind ", self._closure_of(path, spec))
        scripts, variables = _scripts(spec), {*_named_by_cmd(spec)}
        for path in scripts:
            name = str(path.relative_to(spec.root))
            if path.suffix == ".py":
                found.add(f"{name} ", of_script := self._closure_of(path, spec))
                variables.update(of_script.variables)
            else:
                found.modules[name], found.places[name] = self._files.digest(path), path
                variables.update(shell_text.of_file(path, _start(spec)))
        imports = found.imports
        if spec.requirements:  # whose folders may not be there to be looked into
            imports |= {name.partition(".")[0] for name in found.missing}
        params = parameters(spec.node)
        if spec.env:
            params["env"] = dict(spec.env)
        runs_python = found.is_any or programs.is_python(str(getattr(spec.node, "cmd", "")))
        return Traits(
            params,
            found.modules,
            self._versions(spec, environment, imports, runs_python),
            (*found.files, *scripts),
            frozenset(found.missing),
            frozenset(variables - spec.env.keys()),
            found.places,
            frozenset(found.folders),
            found.is_any or runs_program(spec),
        )

    def forget_code(self) -> None:
        """Read the user's code anew at the next question, as a node that ran may have seen other files."""
        self._closures.clear()

    def _closure(self, reference: str, folder: Path, spec: NodeSpec) -> Closure:
        environment = self.environment_of(spec)
        place = (reference, folder, spec.root, environment.python, bool(spec.requirements))
        if place not in self._closures:
            self._closures[place] = closure(reference, folder, spec.root, environment, self._files.digest)
        return self._closures[place]

    def _closure_of(self, path: Path, spec: NodeSpec) -> Closure:
        """Of a file; closures are asked for with an attribute, and which one makes no difference."""
        return self._closure(f"{path.name}:main", path.parent, spec)

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


def _own_kinds(held: Sequence[Any]) -> list[Path]:
    """The files of those classes, a node's and those that it holds, which mobuild does not ship.

    Ours carry a `revision` that golden tests watch; nobody watches the others.
    """
    return sorted({Path(file) for one in held if (file := _own_file(type(one)))})


@per_class
def _own_file(cls: type) -> str | None:
    return None if cls.__module__.partition(".")[0] == "mobuild" else sys.modules[cls.__module__].__file__


def has_user_code(spec: NodeSpec) -> bool:
    """Whether Python of the user's runs in the node's own process."""
    held = inside(spec.node)
    return bool(references_of(held) or _own_kinds(held))


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
