"""`onnxsim IN OUT`: a recipe whose target is the sanitized graph, with onnxsim's options as `raw`."""

from __future__ import annotations

from collections.abc import Sequence

from mobuild.adopt import shapes
from mobuild.adopt.options import MANY, ONE, SOME, SWITCH, Values
from mobuild.adopt.options import read as read_options
from mobuild.adopt.wishes import Wishes, whole
from mobuild.errors import ConfigError

_RAW = {  # switch → argument of onnxsim.simplify
    "--skip-fuse-bn": "skip_fuse_bn",
    "--skip-constant-folding": "skip_constant_folding",
    "--skip-shape-inference": "skip_shape_inference",
    "--include-subgraph": "include_subgraph",
    "--mutable-initializer": "mutable_initializer",
    "--inline-functions": "inline_functions",
}
_LISTS = {
    "--skip-optimization": "skipped_optimizers",
    "--skip-optimizer": "skipped_optimizers",
    "--enable-optimization": "extra_optimizers",
    "--unused-output": "unused_output",
}
_SHAPES = "--overwrite-input-shape, --input-shape"
_MEASURING: dict[str, int | str] = {
    **dict.fromkeys(("--check-rtol", "--check-atol", "--input-fill"), ONE),
    **dict.fromkeys(("--input-data-path", "--providers"), SOME),
    **dict.fromkeys(("--list-default-optimizers", "--list-other-optimizers", "--merge-ort-profile"), SWITCH),
    **dict.fromkeys(("--cuda", "-v, --version", "--certify", "--no-certify", "--graph-diff"), SWITCH),
}
_IGNORED: dict[str, tuple[int | str, str]] = {
    "--enable-fuse-bn": (SWITCH, "it is the default"),
    "--dynamic-input-shape": (SWITCH, "axes stay as they are"),
    "--save-as-external-data": (SWITCH, "kinds do it where a model is too large for one file"),
    "--external-data-threshold": (ONE, "kinds do it where a model is too large for one file"),
}
_QUANTIZE = "precision=fp16|bf16|int8 is the node 'quantized', with data to calibrate on"
_LOST: dict[str, int | str] = {
    **dict.fromkeys(("--custom-lib", "--calibration-dataset", "--calibration-samples", "--calibration-method"), ONE),
    **dict.fromkeys(("--emit-mlir", "--emit-coreml", "--emit-tflite", "--profile", "--ort-profile"), "?"),
    **dict.fromkeys(("--coreml-compute-units", "--coreml-format", "--coreml-io-dtype", "--fp8-format"), ONE),
    **dict.fromkeys(("--coreml-minimum-deployment-target", "--mlir-target", "--onnx-mlir"), ONE),
    **dict.fromkeys(("--tflite-backend", "--tflite-calibration-samples", "--tflite-edgetpu-compiler"), ONE),
    **dict.fromkeys(("--tflite-io-dtype", "--tflite-layout"), ONE),
    **dict.fromkeys(("--node-reduction-plot", "--tflite-edgetpu"), "?"),
    **dict.fromkeys(("--tflite-edgetpu-check", "--tflite-flex", "--tflite-int8", "--tflite-optimize"), SWITCH),
    **dict.fromkeys(("--initializers-as-non-constants", "--ternary-quantize", "--static-quantize-int16"), SWITCH),
    **dict.fromkeys((f"--weight-only-quantize-{each}" for each in ("int4", "int16", "int8-block")), SWITCH),
    **dict.fromkeys((f"--qoperator-quantize-{each}" for each in ("activation", "concat", "elementwise")), SWITCH),
    **dict.fromkeys((f"--qoperator-quantize-{each}" for each in ("gemm", "pool", "softmax", "where")), SWITCH),
    "--dynamic-quantize-matmul-integer-to-float": SWITCH,
    **dict.fromkeys(("--enable-onnxruntime-optimization", "--skip-schema-import"), SWITCH),
    **dict.fromkeys(("--dynamic-quantize", "--static-quantize", "--fp16-quantize", "--bf16-quantize"), SWITCH),
    **dict.fromkeys(("--fp8-quantize", "--weight-only-quantize", "--qoperator-quantize"), SWITCH),
}
KNOWN: dict[str, int | str] = {
    **dict.fromkeys(_RAW, SWITCH),
    **dict.fromkeys(_LISTS, SOME),
    "--skip-optimization": MANY,
    **dict.fromkeys((_SHAPES, "--test-input-shape"), SOME),
    "--target-opset": ONE,
    "--no-large-tensor": "?",
    **_MEASURING,
    **{name: count for name, (count, _) in _IGNORED.items()},
    **_LOST,
}


def read(arguments: Sequence[str], version: str) -> Wishes:
    """What a line of onnxsim asks for.

    Raises:
        ConfigError: an option that it does not have, or no model.
    """
    found, words = read_options("onnxsim", KNOWN, arguments)
    if len(words) < 2:
        raise ConfigError("adopt: onnxsim: expected two files, a model and where to write", "onnxsim det.onnx out.onnx")
    wishes = Wishes("onnxsim", version, target="sanitized")
    wishes.set_model(words[0], "onnxsim")
    wishes.say(words[0], "", "mapped", "nodes.onnx.uri")
    wishes.say(words[1], "", "mapped", "target: sanitized", "its place is told by: mobuild path sanitized")
    for word in words[2:]:
        wishes.say(word, "", "measuring", note="kind sanitize always compares, at two sizes")
    raw: dict[str, object] = {}
    for name, values in found:
        _read_option(wishes, raw, name, values)
    if raw:
        wishes.nodes["sanitized"] = {"raw": {"onnxsim": raw}}
    wishes.notes.append(
        "kind sanitize infers shapes and folds constants before that: infer_shapes: false, fold: false leave them out"
    )
    return wishes


def _read_option(wishes: Wishes, raw: dict[str, object], name: str, values: Values) -> None:
    text = " ".join(values)
    if name in _RAW or (name == "--skip-optimization" and not values):
        argument, wanted = (_RAW[name], True) if name in _RAW else ("perform_optimization", False)
        _raw(wishes, raw, name, text, argument, wanted)
    elif name in _LISTS:
        _raw(wishes, raw, name, text, _LISTS[name], list(values))
    elif name == "--target-opset":
        _raw(wishes, raw, name, text, "target_opset_version", whole(name, text))
    elif name == "--no-large-tensor":
        _raw(wishes, raw, name, text, "tensor_size_threshold", text or "1KB")
    elif name == "--test-input-shape":
        sizes = {tensor: list(dims) for tensor, dims in _shapes(name, values).items()}
        _raw(wishes, raw, name, text, "test_input_shapes", sizes)
    elif name == _SHAPES.split(",")[0]:
        wishes.shapes = _shapes(name, values)
        wishes.say(name, text, "mapped", "shapes", "the axes keep their names, and an engine takes these sizes alone")
    elif name in _MEASURING or name == "-v":
        wishes.say(name, text, "measuring")
    elif name in _IGNORED:
        wishes.say(name, text, "ignored", note=_IGNORED[name][1])
    else:
        wishes.say(name, text, "lost", note=_QUANTIZE if "quantize" in name else "no key of a recipe carries it")


def _shapes(name: str, values: Values) -> dict[str, tuple[int, ...]]:
    """`data:1,3,224,224`; a shape without a name is that of the only input, here called *."""
    return shapes.of_polygraphy(name, [word if ":" in word else f"*:{word}" for word in values])


def _raw(wishes: Wishes, raw: dict[str, object], name: str, text: str, argument: str, wanted: object) -> None:
    raw[argument] = wanted
    shown = str(wanted).lower() if isinstance(wanted, bool) else wanted
    wishes.say(name, text, "raw", f"nodes.sanitized.raw.onnxsim.{argument}: {shown}")
