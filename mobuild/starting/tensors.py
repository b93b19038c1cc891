"""Inputs and tensors as they are read from files: names, types, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mobuild.starting.pickles import Made, Name, Stored

_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
_PARAMETERS = ("_rebuild_parameter", "_rebuild_parameter_with_state")
_DEPTH = 40  # of networks within networks


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file. The type is empty where the file does not say it plainly."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """One input of a network: ints are fixed sizes, names dynamic axes. `note` says what was guessed."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str = "float32"
    range: tuple[int, int] | None = None
    note: str = ""


def tensor_of(value: Any) -> Tensor | None:
    """The tensor that a part of a pickle makes; None when it makes something else."""
    if not isinstance(value, Made) or value.function.module != "torch._utils":
        return None
    if value.function.name in _PARAMETERS and value.arguments:
        return tensor_of(value.arguments[0])
    if not value.function.name.startswith("_rebuild") or len(value.arguments) < 4:
        return None
    storage, _, shape = value.arguments[:3]
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        return None
    named = [each for each in value.arguments[4:] if isinstance(each, Name) and each.module == "torch"]
    return Tensor(named[0].name if named else _stored(storage), shape)


def tensors_of(value: Any) -> dict[str, Tensor]:
    """The tensors of a mapping by name, when it holds little else; else none."""
    if not isinstance(value, Mapping) or not value:
        return {}
    found = {str(name): tensor for name, each in value.items() if (tensor := tensor_of(each))}
    return found if 2 * len(found) > len(value) else {}


def inside(value: Any, prefix: str = "", depth: int = 0) -> dict[str, Tensor]:
    """The tensors of a network that was saved as an object, by the names that its state would have."""
    if not isinstance(value, Made) or not isinstance(value.state, Mapping) or depth > _DEPTH:
        return {}
    found: dict[str, Tensor] = {}
    for name, each in value.state.items():
        if tensor := tensor_of(each):
            found[f"{prefix}{name}"] = tensor
        else:
            found.update(inside(each, f"{prefix}{name}.", depth + 1))
    return found


def _stored(storage: Any) -> str:
    parts = storage.id if isinstance(storage, Stored) and isinstance(storage.id, tuple) else ()
    return next((_STORAGES.get(each.name, "") for each in parts if isinstance(each, Name)), "")
