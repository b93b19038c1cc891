"""Who reads: the user's code, the machinery around it, or a library for itself, told by the frames on the stack."""

# ruff: noqa: PTH118
# (paths stay text: there are thousands of them)

from __future__ import annotations

import os
import sys

from mobuild.firstparty import PACKAGE, is_first_party, is_installed, is_stdlib

_IMPORTERS = tuple(os.path.join("importlib", name) for name in ("__init__.py", "util.py"))
_METADATA = os.path.join("importlib", "metadata", "__init__.py")  # looks for distributions along the search path
_SOURCES = os.sep + "linecache.py"
_HERE = os.path.join(PACKAGE, "observers", "")
_REMOVER, _WALKER = "_rmtree", "_fwalk"  # of shutil and os: they open names below a folder that no event tells


def nearest_reader(event: str) -> str:
    """`user`, `import` or `descriptor`, whichever frame is nearest; without one `library` when a package is on the
    stack, else empty."""
    frame = sys._getframe(1)
    found = ""
    shows_source = False  # torch looks at the source of whoever imports it
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            if found and event == "open" and not shows_source:  # a package reads its configuration at import
                return found
            if frame.f_code.co_name != "get_data":  # pkgutil.get_data reads data, not code
                return "import"
        elif is_first_party(file):
            return "user"
        elif _goes_by_descriptor(frame.f_code.co_name, event) and is_stdlib(file):
            return "descriptor"
        elif event != "open" and file.endswith(_METADATA):
            return "import"
        elif is_installed(file):
            found = "library"
        elif file.endswith(_SOURCES):
            shows_source = True
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _goes_by_descriptor(function: str, event: str) -> bool:
    return function.startswith(_REMOVER) or (function.startswith(_WALKER) and event == "open")


def is_users_own() -> bool:
    """Whether code of the user's asks itself, through the standard library at most. What libraries look for outside of
    the project (caches, fonts, settings) is theirs, whoever calls them."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return False
        if not (file.startswith(("<frozen", _HERE)) or is_stdlib(file)):
            return is_first_party(file)
        frame = frame.f_back  # type: ignore[assignment]
    return False


def is_users_import() -> bool:
    """Whether the finder that calls this is asked by the user's code, the nearest outside the import machinery."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<frozen importlib") and not file.endswith(_IMPORTERS):
            return is_first_party(file)
        frame = frame.f_back  # type: ignore[assignment]
    return False
