"""The configuration of one model for Triton: what its engine takes, in the fields of `ModelConfig`.

Where every input and output begins with an axis of any size, that axis is the batch, which Triton fills by itself;
`dims` are without it then. Fields: model_config.proto of triton-inference-server/common.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from mobuild.backend import Profile
from mobuild.errors import NodeFailed, Refused
from mobuild.runtime.tensors import DATATYPES

PLATFORMS = {"onnxruntime": "onnxruntime_onnx", "tensorrt": "tensorrt_plan"}
_TEXTS = ("string", "object")


def datatype(dtype: str, name: str) -> str:
    """Triton's name for the type of a tensor."""
    if dtype in _TEXTS:
        return "TYPE_STRING"
    if dtype not in DATATYPES:
        raise NodeFailed(f"tensor {name!r}: Triton has no type for {dtype}", "cast it in the graph")
    return f"TYPE_{DATATYPES[dtype]}"


def largest_batch(summary: Mapping[str, Any], profiles: Sequence[Profile], asked: int | None) -> int:
    """`max_batch_size`: what was `asked`, else what the profiles allow; 0 where nothing can be batched.

    Raises:
        Refused: more is asked than the engine takes, or it does not take a batch of one, which Triton sends.
    """
    why = _no_batch(summary)
    if asked == 0 or (why and asked is None):
        return 0
    if why:
        raise Refused(f"max_batch: {asked} asked, and {why}", "max_batch: 0, or export the model with a batch axis")
    smallest = min((low[0] for profile in profiles for low, _, _ in profile.values()), default=1)
    if smallest > 1:
        if asked is None:
            return 0
        raise Refused(
            f"max_batch: the engine takes batches from {smallest}, and Triton sends one request alone, too",
            "let shapes begin at 1",
        )
    most = max((min(high[0] for _, _, high in profile.values()) for profile in profiles), default=None)
    if asked is not None and most is not None and asked > most:
        raise Refused(f"max_batch: {asked} asked, and the engine takes at most {most}", "build it with larger shapes")
    return asked if asked is not None else most or 0


def _no_batch(summary: Mapping[str, Any]) -> str:
    """Why the model has no batch axis that Triton could fill; empty when it has."""
    for tensor in (*summary["inputs"], *summary["outputs"]):
        shape = tensor["shape"]
        if not shape or isinstance(shape[0], int):
            return f"tensor {tensor['name']!r} does not begin with an axis of any size"
    return ""


def tensors(found: Sequence[Mapping[str, Any]], has_batch: bool, held: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The `input` or `output` fields; `held` are the inputs that themselves hold sizes."""
    return [
        {
            "name": each["name"],
            "data_type": datatype(each["dtype"], each["name"]),
            **_dims(each, has_batch),
            **({"is_shape_tensor": True} if each["name"] in held else {}),
        }
        for each in found
    ]


def _dims(tensor: Mapping[str, Any], has_batch: bool) -> dict[str, Any]:
    """`dims`, which may not be empty: a scalar is one element that Triton reshapes."""
    if tensor["shape"] is None:
        raise NodeFailed(f"tensor {tensor['name']!r} has no declared shape, which Triton needs", "declare it on export")
    dims = [size if isinstance(size, int) else -1 for size in tensor["shape"]][1 if has_batch else 0 :]
    return {"dims": dims} if dims else {"dims": [1], "reshape": {"shape": []}}


def warmup(summary: Mapping[str, Any], profiles: Sequence[Profile], max_batch: int) -> Iterator[dict[str, Any]]:
    """A request at the usual sizes of each profile, which Triton runs before the model is ready."""
    types = {each["name"]: datatype(each["dtype"], each["name"]) for each in summary["inputs"]}
    for number, profile in enumerate(profiles or (_static(summary),)):
        if not profile or getattr(profile, "contents", {}):
            continue  # zeros are no sizes to resize to
        inputs = []
        batch = 0
        for name, (_, usual, _) in profile.items():
            batch = min(usual[0], max_batch) if max_batch else 0
            dims = list(usual[1:] if max_batch else usual) or [1]
            # An index into a table must be one that the table has.
            filled = "random_data" if types[name] in ("TYPE_FP32", "TYPE_FP16", "TYPE_FP64") else "zero_data"
            inputs.append({"key": name, "value": {"data_type": types[name], "dims": dims, filled: True}})
        yield {"name": f"profile {number}", **({"batch_size": batch} if max_batch else {}), "inputs": inputs}


def _static(summary: Mapping[str, Any]) -> Profile:
    """The sizes of a model without dynamic axes; empty for another."""
    shapes = {each["name"]: tuple(each["shape"] or ()) for each in summary["inputs"]}
    if not all(isinstance(size, int) for shape in shapes.values() for size in shape):
        return Profile({})
    return Profile({name: (shape, shape, shape) for name, shape in shapes.items()})


def instances(backend: Any, count: int, profiles: Sequence[Profile]) -> dict[str, Any]:
    """`instance_group`; with several profiles each needs to be named, or Triton uses the first alone."""
    is_cpu = backend.runtime == "onnxruntime" and backend.provider == "CPUExecutionProvider"
    several = backend.runtime == "tensorrt" and len(profiles) > 1
    named = {"profile": [str(number) for number in range(len(profiles))]} if several else {}
    return {"count": count, "kind": "KIND_CPU" if is_cpu else "KIND_GPU", **named}
