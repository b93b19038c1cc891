"""Opens the engine that a `model.json` describes, on the card that it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from .errors import EngineError
from .model import FILE, Model
from .runner import Engine, Tensor, open_engine, shape_text

_SHARED_BY_THREADS = ("onnxruntime",)  # its documentation: Run may be called by several threads at once


def open_model(folder: Path, model: Model, count: int = 1) -> list[Engine]:
    """`count` engines for as many threads; the same one several times where its runtime lets threads share it.

    Raises:
        RuntimeMissing: the GPU here is another one, or the runtime is not here.
        EngineError: it cannot be opened, or is not what the document describes.
    """
    model.target.refuse_other_card()
    opened = [open_engine(folder / model.engine, model.runtime, **model.options)]
    _refuse_other(model, opened[0])
    if model.runtime in _SHARED_BY_THREADS:
        return opened * count
    return opened + [open_engine(folder / model.engine, model.runtime, **model.options) for _ in range(count - 1)]


def _refuse_other(model: Model, engine: Engine) -> None:
    for role, told, found in (("inputs", model.inputs, engine.inputs), ("outputs", model.outputs, engine.outputs)):
        if _signature(told) != _signature(found):
            raise EngineError(
                f"{FILE} and the engine differ in their {role}: expected {_text(told)}, the engine has {_text(found)}"
            )


def _signature(tensors: Sequence[Tensor]) -> list[tuple[str, str, int]]:
    return sorted((tensor.name, tensor.dtype, len(tensor.shape)) for tensor in tensors)


def _text(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{tensor.name}: {tensor.dtype} {shape_text(tensor.shape)}" for tensor in tensors)
