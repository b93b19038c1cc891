"""`polygraphy convert` to an engine, and `polygraphy run --save-engine`: what their options mean for a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from mobuild.adopt import shapes
from mobuild.adopt.options import Values
from mobuild.adopt.options import read as read_options
from mobuild.adopt.polygraphy_tables import (
    CHOSEN,
    CORNERS,
    KNOWN,
    LEVELS,
    MEASURES,
    NOTES,
    POOLS,
    RAW,
    SHAPES,
    SWITCHED,
    TYPES,
)
from mobuild.adopt.sizes import size
from mobuild.adopt.wishes import Wishes, choice, whole
from mobuild.errors import ConfigError
from mobuild.facts.builder_flags import CHOICES


def read(tool: str, arguments: Sequence[str], version: str, rtx: bool) -> Wishes:
    """What a line of Polygraphy asks for; `rtx`: it works with TensorRT-RTX.

    Raises:
        ConfigError: an option that it does not have, no model, or nothing that is built.
    """
    found, words = read_options(tool, KNOWN, arguments)
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
    elif name in CORNERS:
        _corner(wishes, name, values)
    elif name in RAW:
        wishes.set_raw(name, value, RAW[name], True)
    elif name in SWITCHED:
        wishes.set_option(name, value, SWITCHED[name], True)
    elif name in CHOSEN:
        members = {member.lower(): member for member in CHOICES[CHOSEN[name]][1]}
        wishes.set_raw(name, value, CHOSEN[name], choice(name, value.lower(), members))
    elif name[2:] in TYPES:
        wishes.allow(name, value, name[2:])
    elif name in MEASURES:
        wishes.say(name, value, "measuring")
    elif name in NOTES:
        wishes.say(name, value, "ignored", note=NOTES[name])
    else:
        wishes.say(name, value, "lost", note="no key of a recipe carries it")


def _corner(wishes: Wishes, name: str, values: Values) -> None:
    """Each corner once for each profile, in their order."""
    corner = CORNERS[name]
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
        pool = choice(name, (pool or "workspace").lower(), {each: each for each in POOLS})
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
    level = choice(name, values[0].lower(), {each: each for each in LEVELS})
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
    SHAPES: _inputs,
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
