"""The command lines that build a TensorRT engine outside mobuild, flag by flag for one release.

trtexec first, which NVIDIA's containers have; then Polygraphy, for the pip packages, which have no trtexec. A flag that
the release does not know would end trtexec, so each is looked up in the table of facts. `backend` is the `TensorRT` of
`backends.tensorrt`, which imports this module.
"""

from __future__ import annotations

import shlex
from typing import Any, Iterator, Mapping, Sequence

from mobuild.backend import Profile
from mobuild.backends.tensorrt_versions import WEAK_FLAGS
from mobuild.backends.timing_cache import NONE, SHARED
from mobuild.units import parse_size

_LEVELS = {"same_compute_capability": "sameComputeCapability", "ampere_plus": "ampere+"}
_CORNERS = ("min", "opt", "max")


def command(backend: Any, model: str, profiles: Sequence[Profile], precision: str, out: str, version: str) -> str:
    """Shell lines for TensorRT `version`; what they cannot say stands in comments."""
    left_out: list[str] = [f"hook {backend.hook}"] if backend.hook else []
    words = ["trtexec", f"--onnx={model}", f"--saveEngine={out}", *_build_alone(version)]
    words += [*_typing(backend, precision, version, left_out)]
    words += [word for word in _options(backend, profiles, left_out) if _is_current(word, version, left_out)]
    lines = [
        f"# TensorRT {version}{_unknown(version)}",
        *map(unsaid, left_out),
        shlex.join(words),
    ]
    polygraphy = shlex.join(_polygraphy(backend, model, profiles, precision, out, version))
    return "\n".join([*lines, "# or, with the pip packages, which have no trtexec:", f"# {polygraphy}"])


def unsaid(text: str) -> str:
    """The comment, one line of a shell whatever is in it, for what a command line cannot say."""
    return f"# not said below: {' '.join(text.split())}"


def shape_text(shape: Sequence[int]) -> str:
    """`1x16`; a scalar is `scalar`."""
    return "x".join(map(str, shape)) or "scalar"


def polygraphy_shapes(profiles: Sequence[Profile]) -> Iterator[str]:
    for profile in profiles:
        for i, corner in enumerate(_CORNERS):
            yield f"--trt-{corner}-shapes"
            shapes = {**profile, **getattr(profile, "contents", {})}  # of those inputs, the tools take what they hold
            yield from (f"{name}:[{','.join(map(str, corners[i]))}]" for name, corners in shapes.items())


def _unknown(version: str) -> str:
    """What to say of a release whose flags nobody has looked up."""
    from mobuild.facts.releases import release

    unknown = release("tensorrt", version).unknown
    return f" ({unknown}): compare the flags with trtexec --help" if unknown else ""


def _build_alone(version: str) -> list[str]:
    """The flag that builds without measuring, as the release calls it."""
    return ["--skipInference" if _takes("--skipInference", version) else "--buildOnly"]


def _takes(name: str, version: str) -> bool:
    from mobuild.facts.features import flag

    return flag(name, version).word != "no"


def _options(backend: Any, profiles: Sequence[Profile], left_out: list[str]) -> Iterator[str]:
    yield f"--memPoolSize={','.join(_pools(backend))}"
    for number, profile in enumerate(profiles):
        if len(profiles) > 1:
            yield f"--profile={number}"
        for i, corner in enumerate(_CORNERS):
            shapes = {**profile, **getattr(profile, "contents", {})}
            yield f"--{corner}Shapes={','.join(f'{name}:{shape_text(each[i])}' for name, each in shapes.items())}"
    yield f"--builderOptimizationLevel={backend.builder_optimization_level}"
    if "profiling_verbosity" not in backend.raw:
        yield "--profilingVerbosity=layer_names_only"
    if backend.hardware_compatibility != "none":
        yield f"--hardwareCompatibilityLevel={_LEVELS[backend.hardware_compatibility]}"
    if backend.version_compatible:
        yield "--versionCompatible"
    if backend.exclude_lean_runtime:
        yield "--excludeLeanRuntime"
    yield from (f"--staticPlugins={path}" for path in backend.plugins)
    if backend.timing_cache not in (SHARED, NONE):
        yield f"--timingCacheFile={backend.timing_cache}"
    yield from _raw(backend.raw, left_out)


def _typing(backend: Any, precision: str, version: str, left_out: list[str]) -> Iterator[str]:
    """The flags of types: none where the graph's are the engine's, those that allow them where that is no choice."""
    flags = [f"--{flag.lower()}" for flag in WEAK_FLAGS[precision]]
    if backend.is_weak:
        calibration = [f"--calib={backend.calibration_cache or 'calibration.cache'}"] * (precision == "int8")
        yield from (word for word in (*flags, *calibration) if _is_current(word, version, left_out))
    elif _is_current("--stronglyTyped", version, left_out):
        yield "--stronglyTyped"
    elif not _has_strong_typing(version):
        yield from flags


def _has_strong_typing(version: str) -> bool:
    """Whether the release can take the graph's types as they are; before it, flags allow lower ones."""
    return _takes("--stronglyTyped", version)


def _pools(backend: Any) -> Iterator[str]:
    from mobuild.facts.builder_flags import POOLS

    yield f"workspace:{parse_size(backend.workspace) / 2**20:g}M"
    for member, pool in POOLS.items():
        if member in backend.raw:
            yield f"{pool}:{parse_size(backend.raw[member], f'raw.{member}') / 2**10:g}K"


def _raw(raw: Mapping[str, Any], left_out: list[str]) -> Iterator[str]:
    from mobuild.facts.builder_flags import CHOICES, NUMBERS, POOLS, SWITCHES

    for name, value in raw.items():
        wanted, switch = SWITCHES.get(name, (None, ""))
        flag, members = CHOICES.get(name, ("", {}))
        if bool(value) == wanted:
            yield switch
        elif name in NUMBERS:
            yield f"{NUMBERS[name]}={value}"
        elif isinstance(value, str) and value in members:
            yield f"{flag}={members[value]}"
        elif name not in POOLS and not (name == "default_device_type" and "DLA_core" in raw):
            left_out.append(f"raw.{name}={value}")


def _is_current(word: str, version: str, left_out: list[str]) -> bool:
    """Whether the release takes the flag and needs it; one that it never had is told."""
    from mobuild.facts.features import flag

    answer = flag(word, version)
    # of a release that is newer than the table nothing is sure, and what was removed before it will not be back
    is_absent = answer.word == "no" or "was removed in" in answer.why
    if is_absent:
        left_out.append(f"{word} ({answer.why})")
    is_idle = answer.word == "limited" and word == "--stronglyTyped"  # every network of TensorRT 11 is
    return not is_absent and not is_idle


def _polygraphy(
    backend: Any, model: str, profiles: Sequence[Profile], precision: str, out: str, version: str
) -> Iterator[str]:
    yield from ("polygraphy", "convert", model, "--model-type", "onnx", "--convert-to", "trt", "-o", out)
    if backend.is_weak or not _has_strong_typing(version):
        yield from (f"--{flag.lower()}" for flag in WEAK_FLAGS[precision])
        if backend.is_weak and precision == "int8":
            yield from ("--calibration-cache", backend.calibration_cache or "calibration.cache")
    else:
        yield "--strongly-typed"
    yield from polygraphy_shapes(profiles)
    yield from ("--pool-limit", f"workspace:{parse_size(backend.workspace)}")
    if _takes("--builderOptimizationLevel", version):
        yield from ("--builder-optimization-level", str(backend.builder_optimization_level))
    yield from ("--profiling-verbosity", "layer_names_only")
    if backend.hardware_compatibility != "none":
        yield from ("--hardware-compatibility-level", backend.hardware_compatibility)
    if backend.version_compatible:
        yield "--version-compatible"
    if backend.exclude_lean_runtime:
        yield "--exclude-lean-runtime"
    if backend.plugins:
        yield from ("--plugins", *backend.plugins)
    if backend.timing_cache not in (SHARED, NONE):
        yield from ("--load-timing-cache", backend.timing_cache)
