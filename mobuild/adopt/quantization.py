"""The command lines of `onnxruntime.quantization`: `preprocess` and `static_quantize_runner`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mobuild.adopt.options import ONE, SOME, SWITCH, Values
from mobuild.adopt.options import read as read_options
from mobuild.adopt.wishes import Wishes, choice, number
from mobuild.errors import ConfigError

PREPROCESS: dict[str, int | str] = {
    **dict.fromkeys(("--input", "--output", "--skip_optimization", "--skip_onnx_shape", "--skip_symbolic_shape"), ONE),
    **dict.fromkeys(("--int_max", "--verbose", "--external_data_location", "--external_data_size_threshold"), ONE),
    **dict.fromkeys(("--auto_merge", "--guess_output_rank", "--save_as_external_data"), SWITCH),
    "--all_tensors_to_one_file": SWITCH,
}
_SKIPPED = {  # option → fields of `sanitized` that it switches off
    "--skip_optimization": ("fold", "simplify"),
    "--skip_onnx_shape": ("infer_shapes",),
}
_RAW = {  # option → extra option of ONNX Runtime's quantiser
    "--enable_subgraph": "EnableSubgraph",
    "--force_quantize_no_input_check": "ForceQuantizeNoInputCheck",
    "--matmul_const_b_only": "MatMulConstBOnly",
    "--dedicated_qdq_pair": "DedicatedQDQPair",
    "--use_qdq_contrib_ops": "UseQDQContribOps",
    "--qdq_keep_removable_activations": "QDQKeepRemovableActivations",
    "--qdq_disable_weight_adjust_for_int32_bias": "QDQDisableWeightAdjustForInt32Bias",
}
STATIC: dict[str, int | str] = {
    **dict.fromkeys(("-i, --input_model_path", "-o, --output_quantized_model_path", "--quant_format"), ONE),
    **dict.fromkeys(("--activation_type", "--weight_type", "--calibration_method", "--minimum_real_range"), ONE),
    "--tensor_quant_overrides": ONE,
    **dict.fromkeys((*_RAW, "--add_qdq_pair_to_weight", "--calib_tensor_range_symmetric", "--per_channel"), SWITCH),
    **dict.fromkeys(("--calib_moving_average", "--disable_quantize_bias"), SWITCH),
    **dict.fromkeys(("--op_types_to_exclude_output_quantization", "--nodes_to_quantize", "--nodes_to_exclude"), SOME),
    "--op_per_channel_axis": 2,
}
_AS_IS = {
    "--calib_tensor_range_symmetric": "ranges are symmetric anyway",
    "--disable_quantize_bias": "biases stay as they are anyway",
}


def read(tool: str, arguments: Sequence[str], version: str) -> Wishes:
    """What a line of one of the tools asks for.

    Raises:
        ConfigError: another tool, an option that it does not have, or no model.
    """
    name = tool.rpartition(".")[2]
    if name == "preprocess":
        return _preprocess(tool, arguments, version)
    if name == "static_quantize_runner":
        return _static(tool, arguments, version)
    raise ConfigError(
        f"adopt: {tool}: is adopted for preprocess and static_quantize_runner alone",
        f'keep it as a node of kind command: {{kind: command, cmd: "python -m {tool} …", needs: {{model: onnx}}, '
        "out: .onnx}",
    )


def _preprocess(tool: str, arguments: Sequence[str], version: str) -> Wishes:
    wishes, found = _begun(tool, PREPROCESS, arguments, version, ("--input", "--output"), "sanitized")
    fields: dict[str, Any] = {}
    for name, values in found:
        is_on = bool(values) and values[0].lower() not in ("false", "0", "")
        if name in _SKIPPED and is_on:
            fields.update(dict.fromkeys(_SKIPPED[name], False))
            key = ", ".join(f"nodes.sanitized.{field}: false" for field in _SKIPPED[name])
            wishes.say(name, values[0], "mapped", key)
        elif name == "--verbose":
            wishes.say(name, values[0], "measuring")
        elif name not in ("--input", "--output"):
            wishes.say(name, " ".join(values), "ignored", note="kind sanitize infers shapes with onnx's own inference")
    if fields:
        wishes.nodes["sanitized"] = fields
    return wishes


def _static(tool: str, arguments: Sequence[str], version: str) -> Wishes:
    ends = ("-i", "-o")
    wishes, found = _begun(tool, STATIC, arguments, version, ends, "quantized")
    wishes.precision = "int8"
    given = dict(found)
    quantized: dict[str, Any] = {"per_channel": "--per_channel" in given}
    if "--add_qdq_pair_to_weight" not in given:
        quantized["weights_stored"] = "int8"
    raw: dict[str, Any] = {}
    for name, values in found:
        if name not in ends:
            _static_option(wishes, quantized, raw, name, values)
    wishes.nodes["quantized"] = {**quantized, **({"raw": raw} if raw else {})}
    wishes.nodes.setdefault("calibration", {"method": "minmax"})
    wishes.notes.append("int8 is symmetric, without zero points and integer biases, so that TensorRT takes it as well")
    wishes.notes.append(
        "the tool calibrates on test_data_set_*/input_*.pb beside the model: give the samples as nodes.calibration.data"
    )
    return wishes


def _static_option(wishes: Wishes, quantized: dict[str, Any], raw: dict[str, Any], name: str, values: Values) -> None:
    text = " ".join(values)
    if name == "--per_channel":
        wishes.say(name, text, "mapped", "nodes.quantized.per_channel: true")
    elif name == "--add_qdq_pair_to_weight":
        wishes.say(name, text, "mapped", "nodes.quantized.weights_stored: fp32")
    elif name == "--nodes_to_exclude":
        quantized["exclude"] = list(values)
        wishes.say(name, text, "mapped", "nodes.quantized.exclude")
    elif name == "--calibration_method" and text != "distribution":
        method = choice(name, text, {each: each for each in ("minmax", "entropy", "percentile", "distribution")})
        wishes.nodes["calibration"] = {"method": method}
        wishes.say(name, text, "mapped", f"nodes.calibration.method: {method}")
    elif name in _RAW:
        raw[_RAW[name]] = True
        wishes.say(name, text, "raw", f"nodes.quantized.raw.{_RAW[name]}: true")
    elif name == "--minimum_real_range":
        raw["MinimumRealRange"] = number(name, text)
        wishes.say(name, text, "raw", f"nodes.quantized.raw.MinimumRealRange: {text}")
    elif name in _AS_IS or (name, text) in (("--quant_format", "qdq"), ("--weight_type", "qint8")):
        wishes.say(name, text, "ignored", note=_AS_IS.get(name, "the default"))
    elif (name, text) == ("--activation_type", "qint8"):
        wishes.say(name, text, "mapped", "precision: int8")
    else:
        wishes.say(name, text, "lost", note="no key of a recipe carries it")


def _begun(
    tool: str, known: dict[str, int | str], arguments: Sequence[str], version: str, ends: tuple[str, str], target: str
) -> tuple[Wishes, list[tuple[str, Values]]]:
    found, words = read_options(tool, known, arguments)
    given = dict(found)
    if words:
        raise ConfigError(f"adopt: {tool}: what is {words[0]!r}?", f"{ends[0]} {words[0]}, for one")
    if ends[0] not in given:
        raise ConfigError(f"adopt: {tool}: expected {ends[0]}, found no model", f"{ends[0]} det.onnx")
    wishes = Wishes(tool, version, target=target)
    wishes.set_model(given[ends[0]][0], ends[0])
    wishes.say(ends[0], given[ends[0]][0], "mapped", "nodes.onnx.uri")
    if ends[1] in given:
        wishes.say(ends[1], given[ends[1]][0], "mapped", f"target: {target}", f"its place: mobuild path {target}")
    return wishes, found
