"""mobuild: make for models.

`import mobuild` costs nothing; `mobuild.build("engine", hardware="l20")` composes and builds as the command
line does, and `mobuild.load(path)` gives what it built as something to call.
"""

from __future__ import annotations

__all__ = ["__version__", "build", "load"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "build":
        from mobuild.api import build

        return build
    if name == "load":
        from mobuild.runtime.loading import load

        return load
    raise AttributeError(f"module 'mobuild' has no attribute {name!r}")
