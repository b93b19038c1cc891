"""Signs: what single nodes of a model are like, where that decides whether a builder takes them.

A sign is a word of ours for a trait that some builder is known to refuse; which one does, and from which
version on, is the business of facts and rules. Nodes are named as `node_name` names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mobuild.onnxmodel import branches
from mobuild.onnxmodel.origins import CONSTANT, Origins
from mobuild.onnxmodel.qdq import refused
from mobuild.onnxmodel.walk import is_onnx, node_name, nodes, type_name

_RESIZED_BY = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners")
_UINT8_TAKERS = ("Cast", "CastLike", "Identity", "Shape", "Size")
_LARGEST_K = 3840
_UINT8 = 2  # onnx.TensorProto.UINT8
_QUANTISED = {"zero": "zero_point", "bias": "integer_bias"}


def signs(model: Any) -> dict[str, dict[str, str]]:
    """Sign → node → what was found there, both sorted; without the signs that no node has."""
    found: dict[str, dict[str, str]] = {}
    origins = Origins(model)
    inputs, outputs = _uint8_inputs(model), {each.name for each in model.graph.output}
    for node in nodes(model):
        look = _LOOKS.get(node.op_type)
        signed = [*(look(node, origins) if look and is_onnx(node) else ())]
        if is_onnx(node) and _value(node, "broadcast", 0):  # of opsets before 7
            signed.append(("legacy_broadcast", node.op_type))
        if inputs.intersection(node.input) and node.op_type not in _UINT8_TAKERS:
            signed.append(("uint8_compute", node.op_type))
        if _makes_uint8(node, origins) and not outputs.issuperset(node.output):
            signed.append(("uint8_compute", "a Cast to uint8 inside of the model"))
        for sign, detail in signed:
            found.setdefault(sign, {})[node_name(node)] = detail
    for kind, name, words in refused(model):
        if not kind.startswith("integer "):  # by their operators, those are seen already
            found.setdefault(_QUANTISED.get(kind, "quantised_type"), {})[name] = words
    for sign, name, detail in branches.signs(model, origins):
        found.setdefault(sign, {})[name] = detail
    return {sign: dict(sorted(found[sign].items())) for sign in sorted(found)}


def _uint8_inputs(model: Any) -> set[str]:
    """The inputs of uint8, by every name that `Identity` nodes give them."""
    found = {each.name for each in model.graph.input if each.type.tensor_type.elem_type == _UINT8}
    for node in nodes(model):  # in the order of the graph
        if node.op_type == "Identity" and found.intersection(node.input):
            found.update(node.output)
    return found


def _makes_uint8(node: Any, origins: Origins) -> bool:
    """Whether it is a Cast to uint8 of what no simplifier folds."""
    is_cast = node.op_type == "Cast" and is_onnx(node) and _value(node, "to", 1) == _UINT8
    return is_cast and origins.of(node.input[0]) != CONSTANT


def _value(node: Any, name: str, default: Any = None) -> Any:
    """The value of an attribute; `default` where it is left out, or comes from the call of a function."""
    import onnx

    for each in node.attribute:
        if each.name == name and not each.ref_attr_name:
            value = onnx.helper.get_attribute_value(each)
            return value.decode(errors="replace") if isinstance(value, bytes) else value
    return default


def _given(node: Any, index: int) -> str:
    """The name of an input; empty when it is left out."""
    return node.input[index] if len(node.input) > index else ""


def _more_outputs(node: Any) -> int:
    return sum(bool(name) for name in node.output[1:])


def _attention(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    if _more_outputs(node) or _given(node, 4) or _given(node, 5):
        yield "attention_cache", "past, present or scores"
    if _value(node, "softcap", 0.0):
        yield "attention_softcap", f"softcap {_value(node, 'softcap'):g}"


def _top_k(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    k = _number(origins.constants.get(_given(node, 1)))
    if k is not None and k > _LARGEST_K:
        yield "topk_large", f"K {k}"


def _resize(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    for name, usual in (("antialias", 0), ("keep_aspect_ratio_policy", "stretch")):
        if _value(node, name, usual) != usual:
            yield "resize_mode", f"{name} {_value(node, name)}"
    by = _value(node, "coordinate_transformation_mode", _RESIZED_BY[0])
    if by not in _RESIZED_BY:
        yield "resize_mode", f"coordinate_transformation_mode {by}"


def _pool(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    if any(each != 1 for each in _value(node, "dilations", ())):
        yield "pool_dilations", f"dilations {list(_value(node, 'dilations'))}"
    if node.op_type == "MaxPool" and _more_outputs(node):
        yield "maxpool_indices", f"output {node.output[1]!r}"


def _layer_normalization(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    if _more_outputs(node):
        yield "layernorm_outputs", f"{1 + _more_outputs(node)} outputs"


def _scatter(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    if _value(node, "reduction", "none") != "none":
        yield "scatter_reduction", f"reduction {_value(node, 'reduction')}"


def _batch_normalization(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    if _value(node, "training_mode", 0):
        yield "training_mode", "training_mode 1"


def _reduce(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    if _given(node, 1) and origins.of(node.input[1]) != CONSTANT:
        yield "reduce_axes", f"axes {_given(node, 1)!r}"


def _slice(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    if _given(node, 3) and origins.of(node.input[3]) != CONSTANT:
        yield "slice_axes", f"axes {_given(node, 3)!r}"


def _cast(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    name = type_name(_value(node, "to", 1))
    if name in ("STRING", "UINT16", "UINT32", "UINT64", "INT16", "COMPLEX64", "COMPLEX128"):
        yield "cast_type", f"to {name.lower()}"


def _random(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    if _value(node, "seed") is not None:
        yield "random_seed", f"seed {_value(node, 'seed'):g}"


def _lp_pool(node: Any, origins: Origins) -> Iterator[tuple[str, str]]:
    yield from _pool(node, origins)
    if _value(node, "p", 2) not in (1, 2):
        yield "lp_norm", f"p {_value(node, 'p')}"


_LOOKS = {
    "Attention": _attention,
    "TopK": _top_k,
    "Resize": _resize,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _lp_pool,
    "LayerNormalization": _layer_normalization,
    "ScatterND": _scatter,
    "ScatterElements": _scatter,
    "BatchNormalization": _batch_normalization,
    "Slice": _slice,
    "Cast": _cast,
    **{f"Reduce{each}": _reduce for each in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")},
    "ReduceSumSquare": _reduce,
    **{f"Random{each}": _random for each in ("Normal", "NormalLike", "Uniform", "UniformLike")},
}


def _number(constant: Any) -> Any:
    """The one number of a constant tensor; None when it is not to be had without its data file."""
    import onnx

    if isinstance(constant, onnx.AttributeProto) and constant.name in ("value_int", "value_ints"):
        values = constant.ints or [constant.i]
        return values[0] if len(values) == 1 else None
    if isinstance(constant, onnx.AttributeProto):
        constant = constant.t if constant.HasField("t") else None
    if constant is None or constant.data_location == constant.EXTERNAL:
        return None
    values = onnx.numpy_helper.to_array(constant).ravel()
    return values[0].item() if len(values) == 1 else None
