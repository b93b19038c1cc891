"""What each flag of trtexec means for a recipe, one function for each that needs reading."""

from __future__ import annotations

from collections.abc import Callable

from mobuild.adopt import shapes
from mobuild.adopt.sizes import size
from mobuild.adopt.trtexec_tables import HERE, IGNORED, LOST, MEASURING
from mobuild.adopt.wishes import Wishes, choice, whole
from mobuild.errors import ConfigError
from mobuild.facts.builder_flags import CHOICES, NUMBERS, POOLS, SWITCHES

_TYPES = {
    "--fp16": ("fp16",),
    "--bf16": ("bf16",),
    "--int8": ("int8",),
    "--fp8": ("fp8",),
    "--int4": ("int4",),
    "--best": ("fp16", "int8"),
}
_SWITCHES = {word: (member, value) for member, (value, word) in SWITCHES.items() if word not in _TYPES}
_NUMBERS = {word: name for name, word in NUMBERS.items()}
_CHOICES = {
    word: (name, {text: member for member, text in members.items()}) for name, (word, members) in CHOICES.items()
}
_COMPATIBILITY = {"none": "none", "ampere+": "ampere_plus", "samecomputecapability": "same_compute_capability"}
_POOLS = {pool: member for member, pool in POOLS.items()}
_FORMATS = ("fp32:chw", "chw")  # as tensors of float32 are anyway


def read_flag(wishes: Wishes, name: str, value: str) -> None:
    """Note what one flag asks for, and the verdict on it."""
    word = f"{name}={value}"
    if name in HANDLERS:
        HANDLERS[name](wishes, name, value)
    elif name in _TYPES:
        wishes.allow(name, value, *_TYPES[name])
    elif word in _SWITCHES or name in _SWITCHES:
        wishes.set_raw(name, value, *_SWITCHES.get(word) or _SWITCHES[name])
    elif name in _NUMBERS:
        wishes.set_raw(name, value, _NUMBERS[name], whole(name, value))
    elif name in _CHOICES:
        attribute, members = _CHOICES[name]
        wishes.set_raw(name, value, attribute, choice(name, value, members))
    elif name in MEASURING:
        wishes.say(name, value, "measuring")
    elif name in IGNORED:
        wishes.say(name, value, "ignored", note=IGNORED[name])
    else:
        wishes.say(name, value, "lost", note=LOST.get(name, "no key of a recipe carries it"))


def _model(wishes: Wishes, name: str, value: str) -> None:
    wishes.set_model(value, name)
    wishes.say(name, value, "mapped", "nodes.onnx.uri")


def _shape(wishes: Wishes, name: str, value: str) -> None:
    shapes.of_trtexec(name, value)
    wishes.say(name, value, "mapped", "shapes")


def _workspace(wishes: Wishes, name: str, value: str) -> None:
    wishes.workspace = size(name, value)
    wishes.say(name, value, "mapped", f"workspace: {wishes.workspace}")


def _pool_sizes(wishes: Wishes, name: str, value: str) -> None:
    keys = []
    for part in value.split(","):
        pool, colon, text = part.partition(":")
        if not colon or pool not in ("workspace", *_POOLS):
            choice(name, pool, dict.fromkeys(("workspace", *_POOLS)))
            raise ConfigError(f"adopt: {name}: expected pool:size, found {part!r}", f"{name}=workspace:4096")
        if pool == "workspace":
            wishes.workspace = size(name, text)
            keys.append(f"workspace: {wishes.workspace}")
        else:
            wishes.raw[_POOLS[pool]] = size(name, text)
            keys.append(f"backend.tensorrt.raw.{_POOLS[pool]}: {wishes.raw[_POOLS[pool]]}")
    wishes.say(name, value, "mapped" if len(keys) == 1 and "raw" not in keys[0] else "raw", "; ".join(keys))


def _typed(wishes: Wishes, name: str, value: str) -> None:
    wishes.is_typed = True
    wishes.say(name, value, "mapped", "backend.tensorrt.typing: strong", "which is the default")


def _calibration(wishes: Wishes, name: str, value: str) -> None:
    if not value:
        raise ConfigError(f"adopt: {name}: expected the path of a calibration cache", f"{name}=calibration.cache")
    wishes.calibration = value
    wishes.say(name, value, "mapped")


def _level(wishes: Wishes, name: str, value: str) -> None:
    number = choice(name, value, {str(each): each for each in range(6)})
    wishes.set_option(name, value, "builder_optimization_level", number)


def _compatibility(wishes: Wishes, name: str, value: str) -> None:
    wishes.set_option(name, value, "hardware_compatibility", choice(name, value.lower(), _COMPATIBILITY))


def _compatible(wishes: Wishes, name: str, value: str) -> None:
    wishes.set_option(name, value, "version_compatible", True)


def _exclude(wishes: Wishes, name: str, value: str) -> None:
    wishes.set_option(name, value, "exclude_lean_runtime", True)


def _plugins(wishes: Wishes, name: str, value: str) -> None:
    if not value:
        raise ConfigError(f"adopt: {name}: expected the path of a library", f"{name}=libplugins.so")
    wishes.options.setdefault("plugins", []).append(value)
    wishes.say(name, value, "mapped", "backend.tensorrt.plugins", "counts by its content")


def _timing_cache(wishes: Wishes, name: str, value: str) -> None:
    wishes.files["timing_cache"] = value
    wishes.say(name, value, "mapped", "backend.tensorrt.timing_cache")


def _no_cache(wishes: Wishes, name: str, value: str) -> None:
    wishes.options["timing_cache"] = "none"
    wishes.set_raw(name, value, "DISABLE_TIMING_CACHE", True, "with timing_cache: none")


def _sparsity(wishes: Wishes, name: str, value: str) -> None:
    if choice(name, value, {"disable": 0, "enable": 1, "force": 2}) == 1:
        wishes.set_raw(name, value, "SPARSE_WEIGHTS", True)
    elif value == "force":
        wishes.say(name, value, "lost", note="overwrites the weights, so it measures and builds nothing of use: enable")
    else:
        wishes.say(name, value, "ignored", note="the default")


def _stripped(wishes: Wishes, name: str, value: str) -> None:
    wishes.raw["STRIP_PLAN"] = True
    if name == "--weightless":
        wishes.say(name, value, "raw", "backend.tensorrt.raw.STRIP_PLAN: true")
    else:
        wishes.set_raw(name, value, "REFIT", True, "and STRIP_PLAN: true")


def _dla(wishes: Wishes, name: str, value: str) -> None:
    wishes.raw["default_device_type"] = "DLA"
    wishes.set_raw(name, value, "DLA_core", whole(name, value), "and default_device_type: DLA")


def _constraints(wishes: Wishes, name: str, value: str) -> None:
    member = choice(name, value, {"none": "", "obey": "OBEY_", "prefer": "PREFER_"})
    if not member:
        wishes.say(name, value, "ignored", note="the default")
    elif wishes.is_weak_there:
        wishes.set_raw(name, value, f"{member}PRECISION_CONSTRAINTS", True)
    else:
        wishes.say(name, value, "removed")


def _formats(wishes: Wishes, name: str, value: str) -> None:
    if set(value.split(",")) <= set(_FORMATS):
        wishes.say(name, value, "ignored", note="the default")
    else:
        wishes.say(name, value, "lost", note="inputs and outputs keep the types of the graph, linear: export them so")


def _runtime(wishes: Wishes, name: str, value: str) -> None:
    if value == "full":
        wishes.say(name, value, "ignored", note="the default")
    else:
        raise ConfigError(f"adopt: {name}={value}: a lean or dispatch runtime opens engines and builds none", "drop it")


def _save(wishes: Wishes, name: str, value: str) -> None:
    wishes.say(name, value, "mapped", "target: engine", "its place is told by: mobuild path engine")


def _here(wishes: Wishes, name: str, value: str) -> None:
    wishes.say(name, value, "mapped", note=HERE[name])


HANDLERS: dict[str, Callable[[Wishes, str, str], None]] = {
    "--onnx": _model,
    "--saveEngine": _save,
    "--profile": lambda wishes, name, value: wishes.say(name, value, "mapped", "shapes"),
    **dict.fromkeys(("--minShapes", "--optShapes", "--maxShapes", "--shapes"), _shape),
    "--workspace": _workspace,
    "--memPoolSize": _pool_sizes,
    "--stronglyTyped": _typed,
    "--calib": _calibration,
    "--builderOptimizationLevel": _level,
    "--hardwareCompatibilityLevel": _compatibility,
    **dict.fromkeys(("--versionCompatible", "--vc"), _compatible),
    "--excludeLeanRuntime": _exclude,
    **dict.fromkeys(("--plugins", "--staticPlugins"), _plugins),
    "--timingCacheFile": _timing_cache,
    "--noBuilderCache": _no_cache,
    "--sparsity": _sparsity,
    **dict.fromkeys(("--weightless", "--stripAllWeights"), _stripped),
    "--useDLACore": _dla,
    "--precisionConstraints": _constraints,
    **dict.fromkeys(("--inputIOFormats", "--outputIOFormats"), _formats),
    "--useRuntime": _runtime,
    **dict.fromkeys(HERE, _here),
}
