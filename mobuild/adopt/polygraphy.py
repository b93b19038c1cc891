"""`polygraphy convert` to an engine, and `polygraphy run --save-engine`: what their options mean for a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from mobuild.adopt import shapes
from mobuild.adopt.options import MANY, ONE, SOME, SWITCH, Values
from mobuild.adopt.options import read as read_options
from mobuild.adopt.sizes import size
from mobuild.adopt.wishes import Wishes, choice, whole
from mobuild.errors import ConfigError
from mobuild.facts.builder_flags import CHOICES

_RAW = {
    "--sparse-weights": "SPARSE_WEIGHTS",
    "--error-on-timing-cache-miss": "ERROR_ON_TIMING_CACHE_MISS",
    "--disable-compilation-cache": "DISABLE_COMPILATION_CACHE",
    "--refittable": "REFIT",
    "--strip-plan": "STRIP_PLAN",
    "--weight-streaming": "WEIGHT_STREAMING",
    "--direct-io": "DIRECT_IO",
    "--allow-gpu-fallback": "GPU_FALLBACK",
    "--trt-safety-restricted": "SAFETY_SCOPE",
}
_OPTIONS = {"--version-compatible": "version_compatible", "--exclude-lean-runtime": "exclude_lean_runtime"}
_CHOICES = {
    "--profiling-verbosity": "profiling_verbosity",
    "--tiling-optimization-level": "tiling_optimization_level",
    "--runtime-platform": "runtime_platform",
}
_CORNERS = {f"--trt-{corner}-shapes": corner for corner in shapes.CORNERS}
_TYPES = ("fp16", "bf16", "fp8", "int8")
_LEVELS = ("none", "ampere_plus", "same_compute_capability")
_POOLS = ("workspace", "dla_managed_sram", "dla_local_dram", "dla_global_dram", "tactic_dram", "tactic_shared_memory")
_SHAPES = "--input-shapes"
_MEASURING: dict[str, int | str] = {
    **dict.fromkeys(("--gen, --gen-script", "--log-file", "--optimization-profile", "--seed"), ONE),
    **dict.fromkeys(("--iterations, --iters", "--warm-up", "--data-loader-backend-module", "--load-runtime"), ONE),
    **dict.fromkeys(("--data-loader-script", "--save-inputs, --save-input-data", "--save-onnx"), ONE),
    **dict.fromkeys(("--save-outputs, --save-results", "--weight-streaming-budget", "--allocation-strategy"), ONE),
    **dict.fromkeys(("--verbosity", "--log-format", "--val-range", "--rtol, --rel-tol", "--atol, --abs-tol"), SOME),
    **dict.fromkeys(("--load-inputs, --load-input-data", "--load-outputs, --load-results", "--check-error-stat"), SOME),
    **dict.fromkeys(("--compare", "--providers, --execution-providers"), SOME),
    **dict.fromkeys(
        ("-v, --verbose", "-q, --quiet", "--silent", "--trt", "--onnxrt", "--validate", "--fail-fast"), SWITCH
    ),
    **dict.fromkeys(("--use-subprocess", "--no-shape-check", "--infinities-compare-equal"), SWITCH),
}
_IGNORED: dict[str, tuple[int | str, str]] = {
    "--model-type": (ONE, "told by the file's name"),
    "--convert-to": (ONE, "told by the target"),
    "--shape-inference, --do-shape-inference": (SWITCH, "kind sanitize does it"),
    "--no-onnxruntime-shape-inference": (SWITCH, "kind sanitize uses onnx's own"),
    "--save-timing-cache": (ONE, "mobuild keeps one cache for each machine: timing_cache: shared"),
    "--calib-base-cls, --calibration-base-class": (ONE, "the cache names its algorithm"),
    "--quantile": (ONE, "of a calibration; nodes.calibration has its own"),
    "--regression-cutoff": (ONE, "of a calibration; nodes.calibration has its own"),
}
_LOST: dict[str, int | str] = {
    **dict.fromkeys(
        ("--external-data-dir, --load-external-data, --ext", "--opset", "--save-tactics, --save-tactic-replay"), ONE
    ),
    **dict.fromkeys(("--load-tactics, --load-tactic-replay", "--trt-config-script", "--engine-capability"), ONE),
    **dict.fromkeys(("--trt-config-postprocess-script, --trt-cpps", "--precision-constraints"), ONE),
    **dict.fromkeys(("--all-tensor-dtypes, --all-tensor-datatypes", "--dla-workspace-allocation-strategy"), ONE),
    **dict.fromkeys(("--onnx-outputs", "--onnx-exclude-outputs", "--onnx-outputs-by-type", "--trt-outputs"), SOME),
    **dict.fromkeys(("--trt-exclude-outputs", "--trt-outputs-by-type", "--layer-precisions", "--mark-debug"), SOME),
    **dict.fromkeys(("--tensor-dtypes, --tensor-datatypes", "--tensor-formats", "--all-tensor-formats"), SOME),
    **dict.fromkeys(("--trt-network-postprocess-script, --trt-npps", "--onnx-flags"), SOME),
    **dict.fromkeys(("--tactic-sources", "--preview-features", "--quantization-flags"), MANY),
    **dict.fromkeys(
        ("--fp-to-fp16", "--ignore-external-data", "--plugin-instancenorm", "--decomposable-attentions"), SWITCH
    ),
    **dict.fromkeys(("--mark-unfused-tensors-as-debug-tensors", "--enable-uint8-asymmetric-quantization-dla"), SWITCH),
}
_KNOWN: dict[str, int | str] = {
    **dict.fromkeys(
        (*_RAW, *_OPTIONS, *(f"--{each}" for each in _TYPES), "--tf32", "--strongly-typed", "--use-dla"), SWITCH
    ),
    **dict.fromkeys((*_CHOICES, "--load-timing-cache", "--calibration-cache", "--builder-optimization-level"), ONE),
    **dict.fromkeys(("--hardware-compatibility-level", "--max-aux-streams", "-o, --output", "--save-engine"), ONE),
    **dict.fromkeys((*_CORNERS, f"{_SHAPES}, --inputs", "--plugins", "--compute-capabilities"), SOME),
    "--pool-limit, --memory-pool-limit": SOME,
    **_MEASURING,
    **{names: count for names, (count, _) in _IGNORED.items()},
    **_LOST,
}
_NOTES = {names.split(", ")[0]: note for names, (_, note) in _IGNORED.items()}
_MEASURES = {names.split(", ")[0] for names in _MEASURING}


def read(tool: str, arguments: Sequence[str], version: str, rtx: bool) -> Wishes:
    """What a line of Polygraphy asks for; `rtx`: it works with TensorRT-RTX.

    Raises:
        ConfigError: an option that it does not have, no model, or nothing that is built.
    """
    found, words = read_options(tool, _KNOWN, arguments)
    given = dict(found)
    rtx = rtx or "--compute-capabilities" in given
    wishes = Wishes(tool, version, "tensorrt_rtx" if rtx else "tensorrt")
    for word in words:
        wishes.set_model(word, "model")
    if not wishes.model:
        raise ConfigError(f"adopt: {tool}: expected the path of an ONNX file, found no model", f"{tool} det.onnx …")
    _refuse_no_engine(tool, given)
    wishes.say(wishes.model, "", "mapped", "nodes.onnx.uri")
    for name, values in found:
        _read_option(wishes, name, values)
    wishes.profiles = [shapes.filled(each) for each in wishes.profiles]
    _defaults(wishes, given)
    return wishes


def _read_option(wishes: Wishes, name: str, values: Values) -> None:
    value = " ".join(values)
    if name in _HANDLERS:
        _HANDLERS[name](wishes, name, values)
    elif name in _CORNERS:
        _corner(wishes, name, values)
    elif name in _RAW:
        wishes.set_raw(name, value, _RAW[name], True)
    elif name in _OPTIONS:
        wishes.set_option(name, value, _OPTIONS[name], True)
    elif name in _CHOICES:
        members = {member.lower(): member for member in CHOICES[_CHOICES[name]][1]}
        wishes.set_raw(name, value, _CHOICES[name], choice(name, value.lower(), members))
    elif name[2:] in _TYPES:
        wishes.allow(name, value, name[2:])
    elif name in _MEASURES:
        wishes.say(name, value, "measuring")
    elif name in _NOTES:
        wishes.say(name, value, "ignored", note=_NOTES[name])
    else:
        wishes.say(name, value, "lost", note="no key of a recipe carries it")


def _corner(wishes: Wishes, name: str, values: Values) -> None:
    """Each corner once for each profile, in their order."""
    corner = _CORNERS[name]
    shape = shapes.of_polygraphy(name, values)
    number = sum(corner in each for each in wishes.profiles)
    if number == len(wishes.profiles):
        wishes.profiles.append({})
    wishes.profiles[number][corner] = shape
    wishes.say(name, " ".join(values), "mapped", "shapes")


def _inputs(wishes: Wishes, name: str, values: Values) -> None:
    wishes.shapes = shapes.of_polygraphy(name, values)
    wishes.say(name, " ".join(values), "mapped", "shapes")


def _pools(wishes: Wishes, name: str, values: Values) -> None:
    keys = []
    for word in values:
        pool, _, text = word.rpartition(":")
        pool = choice(name, (pool or "workspace").lower(), {each: each for each in _POOLS})
        found = size(name, text, "B")
        if pool == "workspace":
            wishes.workspace = found
            keys.append(f"workspace: {found}")
        else:
            wishes.raw[pool.upper()] = found
            keys.append(f"backend.{wishes.product}.raw.{pool.upper()}: {found}")
    wishes.say(name, " ".join(values), "raw" if "raw" in keys[-1] else "mapped", "; ".join(keys))


def _typed(wishes: Wishes, name: str, values: Values) -> None:
    wishes.is_typed = True
    wishes.say(name, "", "mapped", "backend.tensorrt.typing: strong", "which is the default")


def _tf32(wishes: Wishes, name: str, values: Values) -> None:
    wishes.say(name, "", "ignored", note="TensorRT's default, and mobuild's")


def _calibration(wishes: Wishes, name: str, values: Values) -> None:
    wishes.calibration = values[0]
    wishes.say(name, values[0], "mapped")


def _level(wishes: Wishes, name: str, values: Values) -> None:
    wishes.set_option(
        name, values[0], "builder_optimization_level", choice(name, values[0], {str(i): i for i in range(6)})
    )


def _compatibility(wishes: Wishes, name: str, values: Values) -> None:
    level = choice(name, values[0].lower(), {each: each for each in _LEVELS})
    wishes.set_option(name, values[0], "hardware_compatibility", level)


def _streams(wishes: Wishes, name: str, values: Values) -> None:
    wishes.set_raw(name, values[0], "max_aux_streams", whole(name, values[0]))


def _plugins(wishes: Wishes, name: str, values: Values) -> None:
    wishes.options.setdefault("plugins", []).extend(values)
    wishes.say(name, " ".join(values), "mapped", "backend.tensorrt.plugins", "counts by its content")


def _timing_cache(wishes: Wishes, name: str, values: Values) -> None:
    wishes.files["timing_cache"] = values[0]
    wishes.say(name, values[0], "mapped", "backend.tensorrt.timing_cache")


def _dla(wishes: Wishes, name: str, values: Values) -> None:
    wishes.raw["DLA_core"] = 0
    wishes.set_raw(name, "", "default_device_type", "DLA", "and DLA_core: 0")


def _capabilities(wishes: Wishes, name: str, values: Values) -> None:
    wishes.options["compute_capabilities"] = list(values)
    wishes.say(name, " ".join(values), "mapped", "backend.tensorrt_rtx.compute_capabilities")


def _out(wishes: Wishes, name: str, values: Values) -> None:
    wishes.say(name, values[0], "mapped", "target: engine", "its place is told by: mobuild path engine")


_HANDLERS: dict[str, Callable[[Wishes, str, Values], None]] = {
    _SHAPES: _inputs,
    "--pool-limit": _pools,
    "--strongly-typed": _typed,
    "--tf32": _tf32,
    "--calibration-cache": _calibration,
    "--builder-optimization-level": _level,
    "--hardware-compatibility-level": _compatibility,
    "--max-aux-streams": _streams,
    "--plugins": _plugins,
    "--load-timing-cache": _timing_cache,
    "--use-dla": _dla,
    "--compute-capabilities": _capabilities,
    "-o": _out,
    "--save-engine": _out,
}


def _defaults(wishes: Wishes, given: dict[str, Values]) -> None:
    """What Polygraphy does of itself, other than TensorRT: it turns TF32 off and writes details into the engine."""
    if wishes.product == "tensorrt" and "--tf32" not in given and not wishes.is_typed:
        wishes.raw["TF32"] = False
        wishes.notes.append("Polygraphy turns TF32 off without --tf32: raw.TF32: false")
    if "--profiling-verbosity" not in given:
        wishes.raw["profiling_verbosity"] = "DETAILED"
        wishes.notes.append("Polygraphy writes layers in detail into the engine: raw.profiling_verbosity: DETAILED")


def _refuse_no_engine(tool: str, given: dict[str, Values]) -> None:
    kind = "".join(given.get("--model-type", ()))
    if kind == "engine" or PurePath("".join(given.get("-o", ()))).suffix == ".onnx":
        raise ConfigError(
            f"adopt: {tool}: this line builds no engine",
            "kind sanitize cleans ONNX files: mobuild target=sanitized model=det.onnx",
        )
    if tool == "polygraphy convert" and "-o" not in given:
        raise ConfigError("adopt: polygraphy convert: expected -o, found no place for the engine", "-o det.plan")
    if tool == "polygraphy run" and "--save-engine" not in given:
        raise ConfigError(
            "adopt: polygraphy run without --save-engine: it compares, and keeps no engine",
            "mobuild target=engine model=det.onnx builds one; target=validation compares it with its model",
        )
