"""Engines of TensorRT-RTX."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from .errors import RuntimeMissing
from .plans import PlanEngine, open_plan, package


def module() -> Any:
    """The package `tensorrt_rtx`."""
    try:
        return importlib.import_module(package("tensorrt_rtx"))
    except ImportError as error:
        raise RuntimeMissing(
            f"tensorrt_rtx cannot be imported: {error}", "pip install 'mobuild[tensorrt-rtx]'"
        ) from error


def open_engine(path: Path) -> PlanEngine:
    """Open a plan.

    Raises:
        RuntimeMissing: no package, no driver, no card.
        EngineError: TensorRT-RTX refuses the plan: no plan, another version, another card.
    """
    return open_plan(module(), "TensorRT-RTX", path)
