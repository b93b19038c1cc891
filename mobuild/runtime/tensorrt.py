"""Engines of TensorRT."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from .errors import RuntimeMissing
from .plans import PlanEngine, open_plan


def module() -> Any:
    """The package `tensorrt`."""
    if importlib.util.find_spec("tensorrt") is None:
        raise RuntimeMissing("TensorRT is not installed here", "pip install tensorrt")
    try:
        return importlib.import_module("tensorrt")  # by name: here, `tensorrt` would be this module
    except ImportError as error:
        raise RuntimeMissing(
            f"tensorrt is installed, its libraries are not: {error}",
            "install libnvinfer and libnvonnxparser of the same version, or use NVIDIA's TensorRT container",
        ) from error


def open_engine(path: Path, host_code: bool = False) -> PlanEngine:
    """Open a plan; `host_code` as `PlanEngine` takes it.

    Raises:
        RuntimeMissing: no package, no driver, no card.
        EngineError: TensorRT refuses the plan: no plan, another version, another card.
    """
    trt = module()
    return open_plan(trt, "TensorRT", path, host_code=host_code)
