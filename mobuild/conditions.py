"""Observed inputs as conditions of a record.

What the user's code read beyond its declared inputs and its static closure is not in the key, since nobody
knew of it beforehand; it becomes a condition of the record, and a record is a hit only while all of its
conditions hold. Paths inside the project, or inside the Git checkout that it is a part of, are kept relative to its
root: a moved project still hits, and one in another checkout reads the files of that one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mobuild.closure import module_digest
from mobuild.declaring import how
from mobuild.errors import ConfigError, NodeFailed
from mobuild.executors.job import Observed
from mobuild.fingerprint import Change, sha256_file
from mobuild.firstparty import is_below, search_path
from mobuild.observers.environment import ABSENT, SECRET, WHOLE, names_digest, names_in, value_digest
from mobuild.observers.files import folder_digest
from mobuild.observers.native import CHANGING
from mobuild.observers.presence import is_there, link_digest
from mobuild.search import Search
from mobuild.store import Condition, StatCache
from mobuild.toolchain import Environment
from mobuild.values import value

_DECLARABLE = ("file", "folder", "presence", "link", "environment")
_MODULES = (".py", ".pyc", ".pyo", ".so")
_WHOLE = f"environment {WHOLE} (the code looks at all variables, so it counts which ones are set)"
_DIGITS = 12  # of a digest
_SHOWN = 6  # of the inputs that a warning names


@value
class Surroundings:
    """What conditions are compared with: a project, the recipe's folder and the interpreter's in which modules are
    found, and the folders that mobuild itself makes (`ignored`), which do not count in a folder's listing."""

    root: Path
    folder: Path
    environment: Environment
    ignored: Sequence[str] = ()

    def place(self, module: str) -> str:
        """Where the module of that name would be loaded from; `-` when nowhere."""
        return _name(self._search.place(module), self.root) or ABSENT

    def looked(self, modules: Iterable[str]) -> frozenset[str]:
        """The folders on which it depends where those modules would be loaded from."""
        for module in modules:
            self._search.place(module)
        return self._search.looked

    @functools.cached_property
    def _search(self) -> Search:
        return Search(search_path(str(self.folder), str(self.root), self.environment.paths))


def conditions(observed: Observed, here: Surroundings, keyed: Mapping[str, str]) -> tuple[Condition, ...]:
    """`observed` as sorted conditions; distributions that the key already holds (`keyed`) are left out."""
    root = here.root
    found = [Condition("file", _name(path, root), value) for path, value in observed.files.items()]
    found += [Condition("folder", _name(path, root), value) for path, value in observed.folders.items()]
    found += [Condition("presence", _name(path, root), value) for path, value in observed.presence.items()]
    found += [Condition("link", _name(path, root), value) for path, value in observed.links.items()]
    found += [Condition("environment", name, value) for name, value in observed.environment.items()]
    found += [Condition("module", _name(path, root), _module(path, observed)) for path in observed.modules.values()]
    found += [
        Condition("distribution", name, version)
        for name, version in {**observed.programs, **observed.distributions}.items()
        if name not in keyed
    ]
    found += _imports(observed, here)
    return tuple(sorted(set(found), key=lambda one: (one.kind, one.name)))


def _imports(observed: Observed, here: Surroundings) -> Iterator[Condition]:
    """Which file a module's name means, where the search path alone decides: another one may come before it."""
    wanted = {name: _name(path, here.root) for name, path in observed.modules.items() if name != path}
    for name, place in {**dict.fromkeys(observed.missing, ABSENT), **wanted}.items():
        if here.place(name) == place:
            yield Condition("import", name, place)


def undeclared(found: Sequence[Condition]) -> tuple[Condition, ...]:
    """Those of the conditions that a user could declare: files, folders, variables that are no secrets."""
    return tuple(one for one in found if one.kind in _DECLARABLE and one.value != SECRET and not _is_probe(one))


def _is_probe(one: Condition) -> bool:
    """Whether it is a module that is not there. Python 2.7 tries to open each that an import may mean."""
    return one.kind == "file" and one.value == ABSENT and one.name.endswith(_MODULES)


def unsure(observed: Observed, here: Surroundings) -> frozenset[Condition]:
    """The conditions on what others may have read."""
    paths = frozenset(observed.unsure)
    files = {path: digest for path, digest in observed.files.items() if path in paths}
    folders = {path: digest for path, digest in observed.folders.items() if path in paths}
    return frozenset(conditions(Observed(files, folders), here, {}))


def reads(found: Sequence[Condition]) -> str:
    """Names what the user's code read without declaring it."""
    return f"the code read {_names(undeclared(found))}, which is declared nowhere"


def perhaps_read(found: Sequence[Condition]) -> str:
    """Names what was read, declared nowhere, by the user's code or by others."""
    names = _names(undeclared(found))
    return (
        f"the code, or others beside it, read {names}, which is declared nowhere (inotify cannot tell whose a read is)"
    )


def _names(found: Sequence[Condition]) -> str:
    names = [f"{one.kind} {one.name}" for one in found]
    more = f" and {len(names) - _SHOWN} more (all of them in the artifact's .json)" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def undeclared_inputs(node: str, found: Sequence[Condition]) -> NodeFailed:
    """What `cache.strict` makes of undeclared inputs."""
    return NodeFailed(f"node {node!r}: {reads(found)}", how(node, found))


def broken(wanted: Sequence[Condition], here: Surroundings, files: StatCache) -> tuple[Change, ...]:
    """The conditions that do not hold now, as changes from what the record saw."""
    pairs = ((one, _current(one, here, files)) for one in wanted)
    return tuple(difference(one.kind, one.name, one.value, now) for one, now in pairs if now != one.value)


def changed(
    wanted: Sequence[Condition], before: Surroundings, now: Surroundings, files: StatCache
) -> tuple[Change, ...]:
    """The conditions whose subjects are not the same in two states of a project."""
    found = ((one, _current(one, before, files), _current(one, now, files)) for one in wanted)
    return tuple(difference(one.kind, one.name, old, new) for one, old, new in found if old != new)


def difference(kind: str, name: str, old: str, new: str) -> Change:
    """One condition that is not what it was, in words for people."""
    if (kind, name) == ("environment", WHOLE):
        before, after = names_in(old), names_in(new)
        if before is None or after is None:  # a digest alone, of an older mobuild, or never read
            return Change(_WHOLE, old[:_DIGITS], new[:_DIGITS])
        gone, come = (", ".join(sorted(one)) or ABSENT for one in (before - after, after - before))
        return Change(_WHOLE, gone, come)
    old, new = (value if kind == "import" else value[:_DIGITS] for value in (old, new))
    return Change(f"{kind} {name}", old, new)


def _current(one: Condition, here: Surroundings, files: StatCache) -> str:
    """What a condition's subject is now; `-` when it is absent, empty when it is there and cannot be looked at."""
    if one.kind == "environment":
        return _variable(one)
    if one.kind == "distribution":
        return here.environment.distributions.get(one.name, ABSENT)
    if one.kind == "import":
        return here.place(one.name)
    path = here.root / one.name
    try:
        if one.kind == "presence":
            return is_there(path)
        if one.kind == "link":
            return link_digest(path)
        if one.kind == "folder":
            return folder_digest(str(path), here.ignored)
        if not path.is_file():
            return "" if path.exists() else ABSENT
        return module_digest(path) if one.kind == "module" else files.sha256(path)
    except (OSError, ValueError):  # no permission, or no name that a file can have
        return ABSENT
    except ConfigError:  # a module with a syntax error: whether the node still wants it, its next run shows
        return ""


def _variable(one: Condition) -> str:
    if one.value == SECRET:
        return SECRET  # recorded by name only
    if one.name != WHOLE:
        return value_digest(os.environ.get(one.name))
    now = names_digest(list(os.environ))
    return now if names_in(one.value) is not None else now.partition(" ")[0]


def _module(path: str, observed: Observed) -> str:
    """The digest of a module as it ran, which the file may not be any more."""
    try:
        digest, ran = module_digest(Path(path)), observed.sources.get(path)
        return CHANGING if ran and ran != sha256_file(Path(path)) else digest
    except OSError:
        return CHANGING


def _name(path: str, root: Path) -> str:
    try:
        return Path(path).relative_to(root).as_posix()
    except ValueError:
        return os.path.relpath(path, root) if is_below(path, _checkout(root)) else path


@functools.lru_cache
def _checkout(root: Path) -> str:
    """The Git checkout around a project; the project itself where there is none, or where `..` leads elsewhere."""
    is_real = root == root.resolve()
    found = (folder for folder in (root, *root.parents) if (folder / ".git").exists())  # a file in a worktree
    return str(next(found, root) if is_real else root)
