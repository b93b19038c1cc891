"""All first-party code that a reference to the user's code can reach, found without importing it.

Static: what is imported by name computed at run time is left to the observers, whose findings become
conditions of the record. Third-party code counts by distribution; here only its top-level names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mobuild import usercode
from mobuild.errors import ConfigError
from mobuild.fingerprint import digest_file
from mobuild.firstparty import search_path
from mobuild.search import Found, Search
from mobuild.syntax import Import, meaning
from mobuild.toolchain import Environment

DigestOf = Callable[[Path], str]


@dataclass(frozen=True)
class Closure:
    """The first-party modules by digest, their files, and what they import beyond."""

    modules: dict[str, str]  # name → digest of its normalised syntax; of its bytes when compiled
    files: tuple[Path, ...]
    imports: tuple[str, ...]  # third-party, top-level names
    missing: tuple[str, ...]  # found nowhere: optional, or only there when the code runs
    variables: tuple[str, ...]  # of the environment, that the modules read by name
    places: Mapping[str, Path] = field(default_factory=dict)  # of `modules`
    folders: frozenset[str] = frozenset()  # that modules were looked for in


def closure(
    reference: str,
    folder: Path,
    project: Path,
    environment: Environment,
    digest_of: DigestOf | None = None,
) -> Closure:
    """Follow the imports of `reference` (`file.py:attribute` or `package.module:attribute`).

    `digest_of` digests the bytes of compiled modules.

    Raises:
        ConfigError: no such file or module, or a syntax error in one of the user's files.
    """
    walk = _Walk(
        Search(search_path(str(folder), str(project), environment.paths)),
        digest_of or digest_file,
        _is_other(environment.version),
    )
    where, _ = usercode.split(reference)
    if usercode.is_file(where):
        walk.add_file(where[: -len(".py")], usercode.locate(reference, where, folder))
    elif not walk.add(where):
        raise ConfigError(
            f"user code {reference!r}: no module {where!r} for {environment.python}",
            f"looked in {str(folder)!r} and {str(project)!r}, in the interpreter's packages, and in the project's src/",
        )
    return walk.closure()


def module_digest(path: Path) -> str:
    """The digest under which the first-party module at `path` counts, here and as a condition; it has run already,
    perhaps under a newer Python."""
    return meaning(path, newer=True).digest if path.suffix == ".py" else digest_file(path)


@dataclass
class _Walk:
    """The search as it goes: what is found grows until no import leads further."""

    search: Search
    digest_of: DigestOf
    newer: bool
    modules: dict[str, str] = field(default_factory=dict)
    files: set[Path] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    places: dict[str, Path] = field(default_factory=dict)
    seen: dict[str, Found | None] = field(default_factory=dict)

    def add(self, name: str) -> bool:
        """Take in the module `name` and every package on the way to it; False when there is none."""
        parent, _, last = name.rpartition(".")
        if name not in self.seen:
            if parent and not self.add(parent):
                self.seen[name] = None
            else:
                self._enter(name, self._find(parent, last))
        return self.seen[name] is not None

    def add_file(self, name: str, path: Path) -> None:
        self._read(name, path, is_package=False)

    def closure(self) -> Closure:
        imports, missing, variables = (tuple(sorted(each)) for each in (self.imports, self.missing, self.variables))
        modules, files = dict(sorted(self.modules.items())), tuple(sorted(self.files))
        return Closure(modules, files, imports, missing, variables, self.places, self.search.looked)

    def _find(self, parent: str, last: str) -> Found | None:
        package = self.seen.get(parent)
        if package is None:
            return self.search.top_level(last)
        if package.party == "first":
            return self.search.below(package, last)
        return package  # what third-party packages hold inside does not matter

    def _enter(self, name: str, found: Found | None) -> None:
        self.seen[name] = found
        if found is None:
            return
        if found.party == "third":
            self.imports.add(name.partition(".")[0])
        elif found.party == "first" and found.file:
            self._read(name, found.file, is_package=bool(found.folders))

    def _read(self, name: str, path: Path, is_package: bool) -> None:
        # `train.py`, which is run or named by its path, may import from a package called `train`.
        label = name if self.places.get(name, path) == path else f"{name}/{path.name}"
        self.files.add(path)
        self.places[label] = path
        if path.suffix != ".py":
            self.modules[label] = self.digest_of(path)
            return
        found = meaning(path, self.newer)
        self.modules[label] = found.digest
        self.variables.update(found.variables)
        for statement in found.imports:
            self._follow(statement, name if is_package else name.rpartition(".")[0])

    def _follow(self, statement: Import, package: str) -> None:
        base = _absolute(statement, package)
        if base is None or not self.add(base):
            self.missing.add(base or "." * statement.level + statement.module)
            return
        holder = self.seen[base]
        if holder is not None and holder.party == "first" and holder.folders:
            for name in statement.names:  # `from p import x`: a submodule, or just a name in p
                self.add(f"{base}.{name}")


def _absolute(statement: Import, package: str) -> str | None:
    """The full name that an import means inside `package`; None when it leads out of the top."""
    if not statement.level:
        return statement.module
    parts = package.split(".") if package else []
    kept = len(parts) - (statement.level - 1)
    if kept < 1:
        return None
    return ".".join([*parts[:kept], *([statement.module] if statement.module else [])])


def _is_other(version: str) -> bool:
    """Whether code for a Python of that version may hold syntax that this one cannot read; empty: of any."""
    numbers = tuple(map(int, version.split(".")[:2])) if version else (0,)
    return numbers > sys.version_info[:2] or numbers < (3,)
