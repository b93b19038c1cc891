"""Which code a node really ran: first-party modules by path, third-party ones by distribution.

First-party modules are loaded without byte code, whoever loads them: CPython trusts a `.pyc` whose source
has the same size and the same mtime in whole seconds, so an edit within a second would run the old code
under the new key.
"""

# ruff: noqa: PTH100, PTH110, PTH118, PTH120
# (paths stay text: there are thousands of them)

from __future__ import annotations

import hashlib
import os
import sys
from importlib.machinery import SourceFileLoader
from typing import Any, Collection, Iterable, Mapping

from mobuild.firstparty import is_first_party, is_installed
from mobuild.observers.readers import is_users_import

_missing: set[str] = set()  # asked for by the user's code and found by nobody
_read: dict[str, str] = {}  # source file → SHA-256 of the bytes that were executed
_others: dict[str, Any] = {}  # modules that were looked at before and are nobody's or another's

_AT_START = frozenset(sys.modules)
_searched: frozenset[str] = frozenset()  # the folders of the search path before the node began
_installed = False


def install() -> None:
    """Load first-party modules from their sources alone from now on, and note which; once per process.

    The methods of the loader's class are replaced, since code may be loaded by path (`spec_from_file_location`)
    as well as by name, and need not stay in `sys.modules`.
    """
    global _installed, _searched
    _searched = frozenset(map(os.path.abspath, sys.path))
    if _installed:
        return
    _installed = True
    path_stats, get_data = SourceFileLoader.path_stats, SourceFileLoader.get_data

    def fresh_path_stats(self: SourceFileLoader, path: Any) -> Any:
        if is_first_party(os.path.abspath(path)):
            raise OSError("byte code of first-party modules is neither read nor written")
        return path_stats(self, path)

    def noted_data(self: SourceFileLoader, path: Any) -> bytes:
        data = get_data(self, path)
        place = os.path.abspath(str(path))
        if place == os.path.abspath(self.path) and is_first_party(place):  # not data that it finds beside it
            _read[place] = hashlib.sha256(data).hexdigest()
        return data

    SourceFileLoader.path_stats = fresh_path_stats  # type: ignore[method-assign]
    SourceFileLoader.get_data = noted_data  # type: ignore[method-assign, assignment]
    sys.meta_path.append(_Last)


class _Last:
    """The finder that is asked when no other one found a module, and only notes that."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if is_users_import():
            _missing.add(name)


def missing() -> list[str]:
    """The modules that the user's code asked for and that are not there."""
    return sorted(name for name in _missing if name not in sys.modules)


def first_party(loaded: Mapping[str, str], known: frozenset[str]) -> dict[str, str]:
    """Name → absolute path of each first-party module that was `loaded` and whose file is not in `known`.

    One that is no longer in `sys.modules`, or never was, goes by its path.
    """
    all_read = {**loaded, **{path: path for path in _read.keys() - set(loaded.values())}}
    return {
        name: path
        for name, path in sorted(all_read.items())
        if path not in known and os.path.realpath(path) not in known
    }


def absent(loaded: Mapping[str, str]) -> list[str]:
    """Files that are not there, and from which a module of the user's would be loaded if they were, where the node
    itself changed the search path: the plan knows the folders of another one."""
    if not (wanted := {**dict.fromkeys(missing(), ""), **loaded}):
        return []
    folders = list(map(os.path.abspath, sys.path))
    added = [folder for folder in folders if folder not in _searched and is_first_party(folder)]
    found: list[str] = []
    for name, path in wanted.items():
        package, _, last = name.rpartition(".")
        is_in_added = any(_is_in(path, folder, last) for folder in added)
        for folder in getattr(sys.modules.get(package), "__path__", ()) if package else folders:
            if _is_in(path, folder, last):
                break
            if is_first_party(folder) and (package or is_in_added or folder in added):
                found += [os.path.join(folder, last + ".py"), os.path.join(folder, last, "__init__.py")]
    return [path for path in dict.fromkeys(found) if not os.path.exists(path)]


def _is_in(path: str, folder: str, last: str) -> bool:
    """Whether the module at `path`, of that last name, was found in `folder`."""
    return os.path.dirname(path) in (folder, os.path.join(folder, last))


def is_any_first_party(loaded: Mapping[str, str]) -> bool:
    """Whether there is one, as `first_party` knows them."""
    return bool(_read or loaded)


def loaded() -> dict[str, str]:
    """Name → path of the first-party modules in `sys.modules`, of which there are thousands: to be asked once."""
    found = {}
    for name, module in list(sys.modules.items()):
        if _others.get(name) is module:  # nearly all, in a process that stays warm
            continue
        if is_first_party(path := file_of(module)):
            found[name] = path
        else:
            _others[name] = module
    return found


def sources(modules: Mapping[str, str]) -> dict[str, str]:
    """Path → SHA-256 of the bytes that ran, for those of `modules` that came from source."""
    return {path: _read[path] for path in sorted(modules.values()) if path in _read}


def distributions(read: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Name → version of the distributions that have a module loaded, beyond what the interpreter loads when it starts;
    and of those whose top-level modules others `read`."""
    from mobuild.distributions import Providers, installed

    versions, providers = installed(sys.path), Providers(sys.path)
    tops = {name.partition(".")[0] for name in sys.modules} - _AT_START - {"mobuild"}
    loaded = [name for name in tops if is_installed(_place_of(sys.modules.get(name)))]

    def owners(names: Iterable[str]) -> dict[str, str]:
        found = {providers.get(name) for name in names}
        return {name: versions[name] for name in sorted(filter(None, found)) if name in versions}

    return owners(loaded), owners(set(read) - _AT_START - {"mobuild"})


def file_of(module: Any) -> str:
    """Absolute path of a module's file; empty for built-in modules and namespace packages, and for
    objects that only pose as a module (`torch._classes` says `_classes.py`)."""
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) and file.startswith(os.sep) else ""


def _place_of(module: Any) -> str:
    """Where a module lies: its file, or a namespace package's first folder."""
    folders = list(getattr(module, "__path__", ()))
    return file_of(module) or (str(folders[0]) if folders else "")
