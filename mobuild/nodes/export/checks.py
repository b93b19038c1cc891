"""Is the file what the recipe asked for? Names, order, axes, opset, and the format itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed
from mobuild.nodes.export.exporters import DYNAMO_FIRST_OPSET, TORCHSCRIPT_OPSETS, opsets
from mobuild.nodes.export.shapes import Input
from mobuild.onnxmodel.summary import of_model


def assert_names_differ(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Input and output names occur once among all of them.

    The exporters rename repeats silently (`a.1`) or write one name twice, which is no valid graph.
    """
    seen: set[str] = set(inputs)
    for name in outputs:
        if name in seen:
            twin = "an input" if name in inputs else "another output"
            raise NodeFailed(
                f"output name {name!r} is also the name of {twin}",
                f"inputs: {', '.join(inputs)}; outputs: {', '.join(outputs)}; give each a name of its own",
            )
        seen.add(name)


def assert_as_asked(
    model: Any,
    inputs: Sequence[Input],
    outputs: Sequence[str],
    droppable: Sequence[str],
    opset: int,
    exporter: str,
) -> None:
    """The model has the asked opset, inputs, outputs and axes."""
    found = of_model(model)
    _assert_opset(opset, found["opsets"].get("ai.onnx", 0), exporter)
    shapes = {each["name"]: each["shape"] for each in found["inputs"]}
    kept = _kept(inputs, list(shapes), droppable, exporter)
    _assert_equal("inputs", [each.name for each in kept], list(shapes))
    _assert_equal("outputs", list(outputs), [each["name"] for each in found["outputs"]])
    for each in kept:
        _assert_shape(each, shapes[each.name])


def assert_output_shapes(asked: Mapping[str, Sequence[int | str]], found: Mapping[str, Sequence[int | str]]) -> None:
    """The asked shapes of outputs are those that the network has; names of its own axes are free."""
    for name, shape in asked.items():
        real = found[name]
        if len(shape) != len(real) or not all(_fits(name, shape[i], real[i]) for i in range(len(shape))):
            raise NodeFailed(f"output {name!r}: expected shape {list(shape)}, found {list(real)}")


def assert_valid(file: Path, opset: int, exporter: str) -> None:
    """The ONNX checker accepts the file; by path, because a model object ends at 2 GiB."""
    import onnx

    try:
        onnx.checker.check_model(str(file))
    except onnx.checker.ValidationError as error:
        first = str(error).strip().splitlines()[0]
        is_lowered = exporter == "dynamo" and opset < DYNAMO_FIRST_OPSET
        raise NodeFailed(
            f"the exported file is no valid ONNX model of opset {opset}: {first[:300]}",
            _of_lowered(opset, DYNAMO_FIRST_OPSET) if is_lowered else "another opset, or the other exporter, may do",
        ) from error


def _fits(name: str, asked: int | str, found: int | str) -> bool:
    own = isinstance(asked, str) and isinstance(found, str) and found.startswith(f"{name}_")
    return asked == found or own


def _assert_opset(asked: int, got: int, exporter: str) -> None:
    if asked == got:
        return
    if exporter == "dynamo" and asked in TORCHSCRIPT_OPSETS:
        hint = _of_lowered(asked, got)
    elif exporter == "torchscript" and asked >= DYNAMO_FIRST_OPSET:
        hint = f"exporter: dynamo meets opset {asked}; or ask for opset: {got}"
    else:
        hint = opsets()
    raise NodeFailed(f"asked for opset {asked}, got {got}: the {exporter} exporter does not meet it", hint)


def _of_lowered(asked: int, got: int) -> str:
    """What to do where the dynamo exporter does not convert its own opset down to an older one."""
    return f"exporter: torchscript meets opset {asked}; or ask for opset: {got}"


def _kept(inputs: Sequence[Input], found: Sequence[str], droppable: Sequence[str], exporter: str) -> list[Input]:
    dropped = [each.name for each in inputs if each.name not in found and each.name not in droppable]
    if dropped:
        names = ", ".join(map(repr, dropped))
        subject, it = (f"input {names} is", "it") if len(dropped) == 1 else (f"inputs {names} are", "them")
        raise NodeFailed(
            f"{subject} not in the file: the network does not use {it}, and the {exporter} "
            "exporter drops what is unused",
            f"remove {it} from `inputs` and from the network, or allow that: droppable: [{', '.join(dropped)}]",
        )
    return [each for each in inputs if each.name in found]


def _assert_equal(what: str, asked: Sequence[str], found: Sequence[str]) -> None:
    if list(asked) != list(found):
        raise NodeFailed(f"{what} of the file: expected {list(asked)}, found {list(found)}")


def _assert_shape(asked: Input, found: Sequence[Any] | None) -> None:
    real = list(found or ())
    if len(real) != len(asked.shape):
        raise NodeFailed(f"input {asked.name!r}: expected shape {list(asked.shape)}, found {real}")
    for i, want in enumerate(asked.shape):
        got = real[i]
        if want != got and isinstance(want, str):
            raise NodeFailed(
                f"input {asked.name!r}: axis {want!r} became {got} in the file",
                "the network works at that one size only; write the number, or mend the network",
            )
        if want != got:
            raise NodeFailed(f"input {asked.name!r}: expected shape {list(asked.shape)}, found {real}")
