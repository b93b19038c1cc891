"""Rules on the file's format: opset, IR version, names, types, size (R9, F1 to F6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from mobuild.contract.configuration import said, working_version
from mobuild.contract.findings import Finding, found
from mobuild.contract.request import Model
from mobuild.facts import Support
from mobuild.facts.frameworks import ir_for_opset, onnx_for_opset, ort_for_opset, ort_loads
from mobuild.facts.releases import lacks_type, release, takes_opset

_PROTOBUF_BYTES = 1 << 31
_DYNAMO_FIRST_OPSET = 18  # torch's newer exporter builds at 18 and beyond
_COPIES = 3  # of all weights, while a simplifier or a quantiser holds what it read and what it makes


def parser_reads(model: Model) -> tuple[Finding, ...]:
    """R9: the builder's parser takes the opset, and its runtime the IR version."""
    request, opset = model.request, model.summary["opsets"].get("ai.onnx")
    where = f"{model.where}, opset {opset}"
    if opset is None:
        return ()
    if request.backend == "tensorrt":
        row = release("tensorrt", request.backend_version)
        assert row.opset
        low, high = row.opset
        if low <= opset <= high:
            return ()
        answer = Support("no" if row.is_sure("opset") else "unverified")
        message = f"{request.product} takes opsets {low} to {high}, found {opset}"
        newer = working_version(request, lambda each: takes_opset(each, opset))
        hint = _with_opset(model, high if opset > high else low) + (f", or {said(newer)}" if newer else "")
        return found("R9", answer, where, message, hint)
    runtime = request.machine.runtime or request.backend_version
    if request.backend == "onnxruntime" and runtime:
        answer = ort_loads(runtime, opset, _ir(model))
        place = f"{model.where}, opset {opset}, IR version {model.summary['ir_version']}"
        return found("R9", answer, place, answer.why, _runtime_hint(model, runtime, opset))
    if request.is_tensorrt and not onnx_for_opset(opset):
        message = f"opset {opset} is newer than every ONNX in the table"
        return (Finding("R9", "warning", where, message, _with_opset(model)),)
    return ()


def names_are_single(model: Model) -> tuple[Finding, ...]:
    """F1: no two outputs of one name, and none called like an input."""
    inputs, outputs = ([each["name"] for each in model.summary[word]] for word in ("inputs", "outputs"))
    hint = f"nodes.{model.export}.outputs" if model.export else "export the file again, or rename them in it"
    return asked_names_are_single(inputs, outputs, model.where, hint)


def asked_names_are_single(
    inputs: Collection[str], outputs: Sequence[str], where: str, key: str
) -> tuple[Finding, ...]:
    """F1, of the names that a recipe asks an exporter for; `key` is what gives them."""
    reasons = [
        *(f"output {name!r} stands {count} times" for name, count in Counter(outputs).items() if count > 1),
        *(f"{name!r} is both an input and an output" for name in dict.fromkeys(outputs) if name in inputs),
    ]
    if not reasons:
        return ()
    hint = f"give every output a name of its own: {key}"
    return (Finding("F1", "error", where, "; ".join(reasons), hint),)


def types_are_known(model: Model) -> tuple[Finding, ...]:
    """F2: TensorRT's parsers have the types of the inputs and outputs."""
    if not model.request.is_tensorrt:
        return ()
    findings: tuple[Finding, ...] = ()
    for word in ("inputs", "outputs"):
        for each in model.summary[word]:
            where = f"{word[:-1]} {each['name']!r}"
            if lacks_type(each["dtype"]):
                message = f"{model.request.product} has no type {each['dtype']}"
                hint = "float32, float16, int32, int64 or bool; do the rest before the engine and after it"
                findings += (Finding("F2", "error", where, message, hint),)
            elif each["dtype"] == "float64":
                message = f"{model.request.product} computes float64 as float32"
                findings += (Finding("F2", "warning", where, message, "export the model in float32"),)
    return findings


def batch_is_dynamic(model: Model) -> tuple[Finding, ...]:
    """F3: an engine of a fixed batch takes that batch alone."""
    first = [each["shape"][0] for each in model.summary["inputs"] if each["shape"]]
    sizes = sorted({axis for axis in first if isinstance(axis, int)})
    if not first or len(sizes) != 1 or any(not isinstance(axis, int) for axis in first):
        return ()
    message = f"axis 0 of every input is {sizes[0]}: the engine takes no other batch"
    hint = "export the file with a dynamic axis 0"
    if model.export:
        hint = f"name the axis: nodes.{model.export}.inputs: {{{model.summary['inputs'][0]['name']}: [batch, …]}}"
    return (Finding("F3", "note", model.where, message, hint),)


def axes_are_named(model: Model) -> tuple[Finding, ...]:
    """F4: axes without a name are called after their input."""
    unnamed = [
        f"{each['name']}_{i}"
        for each in model.summary["inputs"]
        for i, axis in enumerate(each["shape"] or ())
        if axis is None
    ]
    if not unnamed:
        return ()
    message = f"dynamic axes without a name: shapes calls them {', '.join(unnamed)}"
    return (Finding("F4", "note", model.where, message),)


def size_is_held(model: Model) -> tuple[Finding, ...]:
    """F5: what is beyond protobuf's 2 GiB needs external data, and memory."""
    size_bytes = model.summary["initializer_bytes"]
    if size_bytes < _PROTOBUF_BYTES:
        return ()
    message = (
        f"{size_bytes / 2**30:.1f} GiB of weights, more than the 2 GiB of one protobuf message: they stay in external "
        f"data, and simplifying or quantising may need {_COPIES * size_bytes / 2**30:.0f} GiB of memory"
    )
    return (Finding("F5", "note", model.where, message),)


def something_is_computed(model: Model) -> tuple[Finding, ...]:
    """F6: a graph has outputs, and nodes that make them."""
    if model.summary["outputs"] and model.summary["nodes"]:
        return ()
    if not model.summary["outputs"]:
        return (Finding("F6", "error", model.where, "the graph has no outputs", "export it again, with outputs"),)
    message = "the graph has no nodes: its outputs can be inputs and constants alone"
    return (Finding("F6", "warning", model.where, message, "export it again"),)


def _with_opset(model: Model, opset: int = 0) -> str:
    """How the model is exported with an opset that is taken; what exports a file of the user's is not known."""
    if not model.export:
        return f"export the file with opset {opset}" if opset else "export the file with an older opset"
    if not opset:
        return f"export with an older opset: nodes.{model.export}.opset"
    other = f" nodes.{model.export}.exporter=torchscript" if opset < _DYNAMO_FIRST_OPSET else ""
    return f"nodes.{model.export}.opset={opset}{other}"


def _ir(model: Model) -> int:
    """The IR version that the engine's model will have: whatever writes it on the way lowers it to what it needs."""
    found: int = model.summary["ir_version"]
    return found if model.is_final else min(found, model.summary.get("ir_needed", found))


def _runtime_hint(model: Model, runtime: str, opset: int) -> str:
    ir = ir_for_opset(opset)
    if ir and ort_loads(runtime, opset, ir).word == "yes":
        return f"IR version {ir} is enough for opset {opset}: set model.ir_version, and save the file again"
    newer = ort_for_opset(opset)
    return f"ONNX Runtime {newer} loads opset {opset}" if newer else _with_opset(model)
