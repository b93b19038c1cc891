"""Engines of TensorRT that are version-compatible, in TensorRT's lean runtime."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from .errors import RuntimeMissing
from .plans import PlanEngine, open_plan, package


def module() -> Any:
    """The package `tensorrt_lean`."""
    try:
        return importlib.import_module(package("tensorrt_lean"))  # by name: here, `tensorrt_lean` would be this module
    except ImportError as error:
        raise RuntimeMissing(f"tensorrt_lean cannot be imported: {error}", "pip install tensorrt-lean") from error


def open_engine(path: Path, host_code: bool = False) -> PlanEngine:
    """Open a plan that was built version-compatible; `host_code` as `PlanEngine` takes it.

    Raises:
        RuntimeMissing: no package, no driver, no card.
        EngineError: TensorRT refuses the plan: no plan, not compatible, another card.
    """
    return open_plan(module(), "TensorRT lean", path, host_code=host_code)
