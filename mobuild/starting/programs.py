"""The inputs of networks that torch saved with their code: exported programs and TorchScript."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mobuild.errors import SourceError
from mobuild.starting.guesses import guessed
from mobuild.starting.pickles import Made
from mobuild.starting.tensors import Input, Tensor, tensor_of

MEMBERS = ("serialized_exported_program.json", "models/model.json")  # of a `.pt2`, by releases of torch
# torch._export.serde.schema.ScalarType
_TYPES = (
    "",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "",
    "",
    "",
    "bool",
    "bfloat16",
)
_SYMBOL = re.compile(r"Symbol\('(\w+)'")
_FORWARD = re.compile(r"def forward\(\w+: (?P<cls>[\w.]+)(?P<rest>.*?)\) -> (?P<returns>[^\n]+):\n", re.DOTALL)
_TENSOR = re.compile(r"(\w+): Tensor\b")
_OUTPUT = re.compile(r"\bTensor\b")


def program(document: bytes, shown: str) -> tuple[list[Input], int]:
    """The inputs of an exported program, with its dynamic axes, and the number of its outputs.

    Raises:
        SourceError: it is written in another way than this reads.
    """
    try:
        found = json.loads(document)
        graph, signature = found["graph_module"]["graph"], found["graph_module"]["signature"]
        arguments = [each["user_input"]["arg"] for each in signature["input_specs"] if "user_input" in each]
        names = [each["as_tensor"]["name"] for each in arguments if "as_tensor" in each]
        axes: dict[str, str] = {}
        inputs = [_input(name, graph["tensor_values"][name], axes) for name in names]
        return inputs, sum("user_output" in each for each in signature["output_specs"])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise SourceError(
            f"source {shown!r}: is an exported program in a form that is not known: {error!r:.200}",
            "save it again with the torch that is installed: torch.export.save",
        ) from error


def _input(name: str, value: Mapping[str, Any], axes: dict[str, str]) -> Input:
    """`axes` are the names that symbols got so far."""
    shape: list[int | str] = []
    for i, size in enumerate(value["sizes"]):
        if "as_int" in size:
            shape.append(int(size["as_int"]))
            continue
        text = str(size["as_expr"]["expr_str"])
        symbol = found.group(1) if (found := _SYMBOL.search(text)) else text
        shape.append(axes.setdefault(symbol, "batch" if i == 0 and "batch" not in axes.values() else f"{name}_{i}"))
    dtype = _TYPES[value["dtype"]]
    return Input(name, tuple(shape), dtype, (0, 1) if "int" in dtype else None)


def script(
    network: Any, code: Mapping[str, bytes], sample: Any, tensors: Mapping[str, Tensor]
) -> tuple[list[Input], int]:
    """The inputs of a TorchScript network, and the number of its outputs (0: not told).

    Names come from its code, sizes from the inputs that it was traced with; of one that was compiled, from the sizes
    of its first weights.
    """
    names, outputs = _signature(network, code)
    traced = [tensor for tensor in map(tensor_of, _traced(sample)) if tensor]
    if traced and len(traced) == len(names or traced):
        names = names or [f"input_{i}" for i in range(len(traced))]
        return [_like(name, tensor) for name, tensor in zip(names, traced, strict=True)], outputs
    return guessed(names or ["input"], tensors), outputs


def _like(name: str, tensor: Tensor) -> Input:
    """An input as the network was traced with, its first axis the batch."""
    shape: tuple[int | str, ...] = ("batch", *tensor.shape[1:]) if tensor.shape else ()
    dtype = tensor.dtype or "float32"
    return Input(name, shape, dtype, (0, 1) if "int" in dtype else None, "the sizes that it was traced with")


def _traced(sample: Any) -> list[Any]:
    """The example inputs that tracing keeps: method → list."""
    while isinstance(sample, Made) and sample.function.name == "restore_type_tag" and sample.arguments:
        sample = sample.arguments[0]
        if isinstance(sample, Mapping):
            sample = sample.get("forward")
    return list(sample) if isinstance(sample, list | tuple) else []


def _signature(network: Any, code: Mapping[str, bytes]) -> tuple[list[str], int]:
    """The tensors that `forward` takes, and how many it gives."""
    if not isinstance(network, Made):
        return [], 0
    place = network.function.module.replace(".", "/")
    text = code.get(place, b"").decode("utf-8", "replace")
    for part in re.split(r"^class ", text, flags=re.MULTILINE):
        if part.startswith(f"{network.function.name}(") and (found := _FORWARD.search(part)):
            returns = found.group("returns")
            count = len(_OUTPUT.findall(returns)) if returns.startswith(("Tensor", "Tuple[")) else 0
            return _TENSOR.findall(found.group("rest")), count
    return [], 0
