"""Which code a node really ran: first-party modules by path, third-party ones by distribution.

First-party modules load through `Fresh`, without byte code: CPython trusts a `.pyc` whose source has
the same size and the same mtime in whole seconds, so an edit within a second would run the old code
under the new key.
"""

# ruff: noqa: PTH100, PTH117
# (paths stay text: there are thousands of them)

from __future__ import annotations

import hashlib
import os
import sys
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from typing import Any, Mapping

from mobuild.firstparty import is_first_party, is_installed

_read: dict[str, str] = {}  # source file → SHA-256 of the bytes that were executed

_AT_START = frozenset(sys.modules)


class Fresh(SourceFileLoader):
    """Loads a source file without reading or writing byte code, and digests the bytes as it reads."""

    def path_stats(self, path: Any) -> Any:
        raise OSError("byte code of first-party modules is never used")

    def set_data(self, path: Any, data: Any, **_: Any) -> None:
        """Write no byte code."""

    def get_data(self, path: Any) -> bytes:
        data = super().get_data(path)
        if str(path).endswith(".py"):
            _read[os.path.abspath(str(path))] = hashlib.sha256(data).hexdigest()
        return data


_finder = FileFinder.path_hook((ExtensionFileLoader, EXTENSION_SUFFIXES), (Fresh, SOURCE_SUFFIXES))


def _first_party_finder(path: str) -> Any:
    if not is_first_party(os.path.abspath(path)):
        raise ImportError("not first-party", path=path)
    return _finder(path)


def install() -> None:
    """Load first-party modules through `Fresh` from now on; once per process."""
    if _first_party_finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _first_party_finder)
        sys.path_importer_cache.clear()


def first_party(known: frozenset[str]) -> dict[str, str]:
    """Name → absolute path of each loaded first-party module whose file is not in `known`."""
    paths = {name: file_of(module) for name, module in list(sys.modules.items())}
    return {
        name: path
        for name, path in sorted(paths.items())
        if is_first_party(path) and path not in known and os.path.realpath(path) not in known
    }


def sources(modules: Mapping[str, str]) -> dict[str, str]:
    """Path → SHA-256 of the bytes that ran, for those of `modules` that came from source."""
    return {path: _read[path] for path in sorted(modules.values()) if path in _read}


def distributions() -> dict[str, str]:
    """Name → version of the distributions that have a module loaded, beyond what the interpreter loads
    when it starts."""
    from mobuild.distributions import Providers, installed

    versions, providers = installed(sys.path), Providers(sys.path)
    tops = {name.partition(".")[0] for name in sys.modules} - _AT_START - {"mobuild"}
    owners = {providers.get(name) for name in tops if is_installed(_place_of(sys.modules.get(name)))}
    return {name: versions[name] for name in sorted(filter(None, owners)) if name in versions}


def file_of(module: Any) -> str:
    """Absolute path of a module's file; empty for built-in modules and namespace packages, and for
    objects that only pose as a module (`torch._classes` says `_classes.py`)."""
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) and os.path.isabs(file) else ""


def _place_of(module: Any) -> str:
    """Where a module lies: its file, or a namespace package's first folder."""
    folders = list(getattr(module, "__path__", ()))
    return file_of(module) or (str(folders[0]) if folders else "")
