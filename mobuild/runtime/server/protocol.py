"""Inference requests and responses of the Open Inference Protocol v2, with the binary tensor data extension.

Sources: KServe's open-inference-protocol, `inference_rest.md`; Triton, `extension_binary_data.md`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from ..model import Model
from ..tensors import DATATYPES, Malformed, from_bytes, from_list, to_bytes, to_list
from . import sizes

HEADER_LENGTH = "Inference-Header-Content-Length"
_KNOWN = frozenset(DATATYPES.values())
_NOT_SERVED = ("shared_memory_region", "classification")  # extensions of Triton that would change the meaning


@dataclass(frozen=True)
class Inference:
    """A request that the model takes: arrays by name, and the outputs wanted, each as raw bytes or not."""

    feeds: Mapping[str, Any]
    outputs: Mapping[str, bool]
    id: str | None = None


def parse(model: Model, body: Any, header_length: str | None) -> Inference:
    """The request in a body, whose JSON ends after `header_length` bytes if raw tensors follow.

    Raises:
        Malformed: what is wrong, where, and what is expected.
    """
    end = _header_end(header_length, len(body))
    document = _object(_json(body[:end] if end < len(body) else body), "the request")
    inputs = {}
    for number, each in enumerate(_list(document, "inputs", "the request")):
        told = _object(each, f"inputs[{number}]")
        name = told.get("name")
        if not isinstance(name, str):
            raise Malformed(f"inputs[{number}]: expected a text as 'name', found {_short(name)}")
        if name in inputs:
            raise Malformed(f"input {name!r} is there twice")
        inputs[name] = told
    shapes = {name: _shape(told, name) for name, told in inputs.items()}
    sizes.check(model, shapes, {name: _datatype(told, name) for name, told in inputs.items()})
    feeds = _arrays(inputs, shapes, memoryview(body)[end:])
    given = document.get("id")
    if given is not None and not isinstance(given, str):
        raise Malformed(f"expected a text as 'id', found {_short(given)}")
    return Inference(feeds, _wanted(model, document), given)


def respond(model: Model, inference: Inference, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, str]]:
    """(the parts of the body, headers) of the response with these outputs."""
    outputs, raw = [], []
    for name, is_raw in inference.outputs.items():
        array = arrays[name]
        told: dict[str, Any] = {"name": name, "datatype": DATATYPES[str(array.dtype)], "shape": list(array.shape)}
        if is_raw:
            data = to_bytes(array)
            raw.append(data)
            told["parameters"] = {"binary_data_size": len(data)}
        else:
            try:
                told["data"] = to_list(array)
            except Malformed as error:
                raise Malformed(f"output {name!r}: {error}") from error
        outputs.append(told)
    document: dict[str, Any] = {"model_name": model.name, "model_version": model.version, "outputs": outputs}
    if inference.id is not None:
        document["id"] = inference.id
    head = json.dumps(document).encode()
    return [head, *raw], ({HEADER_LENGTH: str(len(head))} if raw else {})


def _header_end(text: str | None, length: int) -> int:
    if text is None:
        return length
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and 0 < int(text) <= length):
        raise Malformed(f"{HEADER_LENGTH}: expected a number from 1 to {length}, found {text[:40]!r}")
    return int(text)


def _json(body: Any) -> Any:
    def refuse(token: str) -> None:
        raise Malformed(f"the request is no JSON: {token} is no number there; send such values as raw bytes")

    try:
        return json.loads(body, parse_constant=refuse)
    except Malformed:
        raise
    except RecursionError as error:
        raise Malformed("the request is no JSON that is read here: it is nested too deeply") from error
    except ValueError as error:
        raise Malformed(f"the request is no JSON: {error}") from error


def _arrays(inputs: Mapping[str, Any], shapes: Mapping[str, list[int]], raw: memoryview) -> dict[str, Any]:
    """The data of all inputs; raw bytes lie one behind the other, in the order of the inputs."""
    arrays, place = {}, 0
    for name, told in inputs.items():
        size = _parameters(told, f"input {name!r}").get("binary_data_size")
        if (size is None) == (told.get("data") is None):
            raise Malformed(f"input {name!r}: expected one of 'data' and the parameter 'binary_data_size'")
        try:
            if size is None:
                arrays[name] = from_list(told["datatype"], shapes[name], told["data"])
                continue
            if type(size) is not int or not 0 <= size <= len(raw) - place:
                raise Malformed(f"binary_data_size is {_short(size)}, and {len(raw) - place} bytes are there")
            arrays[name] = from_bytes(told["datatype"], shapes[name], raw[place : place + size])
        except Malformed as error:
            raise Malformed(f"input {name!r}: {error}") from error
        place += size
    if place < len(raw):
        raise Malformed(f"{len(raw) - place} bytes follow the data of the inputs")
    return arrays


def _wanted(model: Model, document: Mapping[str, Any]) -> dict[str, bool]:
    """The outputs to give, each with whether as raw bytes."""
    names = [tensor.name for tensor in model.outputs]
    default = _flag(_parameters(document, "the request"), "binary_data_output", False)
    if not document.get("outputs"):
        return dict.fromkeys(names, default)
    wanted = {}
    for number, each in enumerate(_list(document, "outputs", "the request")):
        told = _object(each, f"outputs[{number}]")
        name = told.get("name")
        if name not in names:
            raise Malformed(f"there is no output {_short(name)}: the model gives {', '.join(names)}")
        wanted[str(name)] = _flag(_parameters(told, f"output {name!r}"), "binary_data", default)
    return wanted


def _parameters(told: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    given = told.get("parameters")
    found = _object({} if given is None else given, f"{place}: parameters")  # clients write null for what they lack
    for name in _NOT_SERVED:
        if name in found:
            raise Malformed(f"{place}: this server does not have the extension of {name!r}")
    return found


def _flag(parameters: Mapping[str, Any], name: str, default: bool) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise Malformed(f"{name}: expected true or false, found {_short(value)}")
    return value


def _shape(told: Mapping[str, Any], name: str) -> list[int]:
    shape = told.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise Malformed(f"input {name!r}: expected a list of sizes as 'shape', found {_short(shape)}")
    return shape


def _datatype(told: Mapping[str, Any], name: str) -> str:
    datatype = told.get("datatype")
    if not isinstance(datatype, str) or datatype not in _KNOWN:
        raise Malformed(f"input {name!r}: expected a datatype ({', '.join(sorted(_KNOWN))}), found {_short(datatype)}")
    return datatype


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Malformed(f"{place}: expected an object of JSON, found {_short(value)}")
    return value


def _list(document: Mapping[str, Any], name: str, place: str) -> Sequence[Any]:
    value = document.get(name)
    if not isinstance(value, list):
        raise Malformed(f"{place}: expected a list as {name!r}, found {_short(value)}")
    return value


def _short(value: Any) -> str:
    """What was found, short enough for a message."""
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
