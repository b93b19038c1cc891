"""Every flag of trtexec 8.5 to 11: what it means for a recipe. Which version has it, `facts` say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mobuild.adopt import shapes
from mobuild.adopt.sizes import size
from mobuild.adopt.trtexec_tables import HERE, IGNORED, LOST, MEASURING, NO_MODEL
from mobuild.adopt.wishes import Corners, Wishes, choice, unknown_flags, whole
from mobuild.errors import ConfigError
from mobuild.facts.builder_flags import CHOICES, NUMBERS, POOLS, SWITCHES
from mobuild.facts.features import flag as known
from mobuild.facts.features import flags, replacement

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
_REPEATED = ("--profile", "--minShapes", "--optShapes", "--maxShapes", "--plugins", "--staticPlugins")


def read(arguments: Sequence[str], version: str) -> Wishes:
    """What a line of trtexec asks for.

    Raises:
        ConfigError: a flag that no version has, one without the value that it needs, no model, or two of them.
    """
    pairs = [(word.partition("=")[0], word.partition("=")[2]) for word in arguments]
    names = flags()
    if unknown := [name for name, _ in pairs if name not in names]:
        raise _unknown(unknown, names)
    wishes = Wishes("trtexec", version)
    given = dict(reversed(pairs))
    _refuse_other_models(given)
    for name, value in pairs:
        if name not in (*_REPEATED, "--onnx") and given[name] != value:
            raise ConfigError(f"adopt: {name}: expected one value, found {given[name]} and {value}", "drop one of them")
    for name, value in dict.fromkeys(pairs) if "--profile" not in given else pairs:
        _read_flag(wishes, name, value, pairs)
    wishes.profiles = [shapes.filled(each) for each in _profiles(pairs)]
    wishes.shapes = shapes.of_trtexec("--shapes", given["--shapes"]) if given.get("--shapes") else {}
    if not wishes.model:
        raise ConfigError("adopt: trtexec: expected --onnx=…, found no model", "trtexec --onnx=det.onnx …")
    return wishes


def _read_flag(wishes: Wishes, name: str, value: str, pairs: Sequence[tuple[str, str]]) -> None:
    word = f"{name}={value}"
    if name in _HANDLERS:
        _HANDLERS[name](wishes, name, value)
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


_HANDLERS: dict[str, Callable[[Wishes, str, str], None]] = {
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


def _profiles(pairs: Sequence[tuple[str, str]]) -> list[Corners]:
    """The profiles as they are given: `--profile=N` begins one, and without it there is one."""
    found: dict[int, Corners] = {}
    number = 0
    is_numbered = any(name == "--profile" for name, _ in pairs)
    for name, value in pairs:
        if name == "--profile":
            number = whole(name, value)
            if number in found:
                raise ConfigError(f"adopt: --profile={number} is there twice", "number them from 0 on")
            found[number] = {}
        elif name in ("--minShapes", "--optShapes", "--maxShapes"):
            profile = found.setdefault(number, {})
            corner = name[2:5]
            if corner in profile and profile[corner] != shapes.of_trtexec(name, value):
                raise ConfigError(
                    f"adopt: {name} is there twice",
                    "several profiles are numbered: --profile=0 --minShapes=… --profile=1 --minShapes=…",
                )
            profile[corner] = shapes.of_trtexec(name, value)
    if is_numbered and (sorted(found) != list(range(len(found))) or not all(found.values())):
        raise ConfigError("adopt: --profile: expected profiles numbered from 0 on, each with shapes after its number")
    return [found[number] for number in sorted(found)]


def _refuse_other_models(given: dict[str, str]) -> None:
    if "--help" in given or "-h" in given:
        raise ConfigError("adopt: trtexec --help: builds nothing", "give the line that builds the engine")
    if "--loadEngine" in given:
        raise ConfigError(
            f"adopt: --loadEngine={given['--loadEngine']}: this line opens an engine and builds none",
            "adopt the line that built it, the one with --onnx and --saveEngine",
        )
    if found := [name for name in NO_MODEL if name in given]:
        raise ConfigError(
            f"adopt: {found[0]}: Caffe and UFF models are read by no TensorRT since 10.0", "convert the model to ONNX"
        )


def say_versions(wishes: Wishes) -> None:
    """Add to each flag what its version says of it."""
    for i, each in enumerate(wishes.flags):
        word = f"{each.flag}={each.value}" if each.value else each.flag
        answer = known(word, wishes.version)
        if answer.word in ("yes", "unverified"):
            continue
        instead = replacement(word, wishes.version)
        why = answer.why.replace(word, each.flag) + (f": {instead}" if instead else "")
        is_gone = answer.word == "no" and "removed" in answer.why and each.verdict not in ("measuring", "lost")
        note = "; ".join(filter(None, (each.note, why)))
        wishes.flags[i] = replace(each, verdict="removed" if is_gone else each.verdict, note=note)


def _unknown(unknown: Sequence[str], names: Sequence[str]) -> ConfigError:
    if bare := [each for each in unknown if not each.startswith("-")]:
        return ConfigError(
            f"adopt: trtexec: what is {bare[0]!r}? Flags have their values after '='", f"--onnx={bare[0]}, for one"
        )
    return unknown_flags("trtexec", unknown, names)
