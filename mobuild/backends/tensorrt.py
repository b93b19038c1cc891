"""TensorRT 10 and 11 as a builder: engines for the card that the hardware file names, built on that card.

One recipe serves both majors, because the types are the graph's (strong typing); what differs between releases is in
`tensorrt_versions`. Kernels are timed while building, so the bytes differ from build to build, and a card of another
kind would give an engine that is slow there or does not load.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

from mobuild import libraries
from mobuild.backend import Profile
from mobuild.backends import calibration_table, timing_cache, trtexec
from mobuild.backends import tensorrt_versions as versions
from mobuild.backends.network_builder import Builder, lacking_types
from mobuild.backends.target_card import TargetCard, product_name
from mobuild.errors import ConfigError, Refused, ToolchainError, did_you_mean
from mobuild.node import Built, unkeyed, user_code
from mobuild.runtime import cuda
from mobuild.runtime import tensorrt as trt_runtime
from mobuild.runtime.errors import RuntimeMissing
from mobuild.units import parse_size, size_text
from mobuild.versions import version_key, version_text

_REMEDY = (
    "TensorRT builds on a machine with the card: pip install 'mobuild[tensorrt]' and the libraries\n"
    "libnvinfer and libnvonnxparser of the same version, or use NVIDIA's TensorRT container;\n"
    "backend=tensorrt_rtx builds here, with no GPU"
)


@dataclass(frozen=True)
class TensorRT:
    """`version` is the TensorRT to build with (empty: the installed one); `typing` is `strong`, where the graph's
    types are the engine's, or `weak` (TensorRT 10). `plugins`, a pinned `timing_cache` and a `calibration_cache` are
    files of the project, which count by their content. `raw` sets flags, memory pools and attributes of the builder's
    configuration, unchecked; `hook(builder, network, config)` may change both last. Facts of
    the card that the compatibility level makes irrelevant leave the key."""

    compute_capability: str
    product: str = ""
    sms: int = 0
    memory_gib: float = unkeyed(0.0)
    workspace: str | int = "4GiB"
    version: str = ""
    typing: str = "strong"
    hardware_compatibility: str = "none"
    version_compatible: bool = False
    exclude_lean_runtime: bool = False
    builder_optimization_level: int = 3
    plugins: Sequence[str] = unkeyed(())
    timing_cache: str = unkeyed(timing_cache.SHARED)
    calibration_cache: str = unkeyed("")
    raw: Mapping[str, Any] = field(default_factory=dict)
    hook: str = user_code("")

    name: ClassVar[str] = "tensorrt"
    revision: ClassVar[int] = 2
    runtime: ClassVar[str] = "tensorrt"
    symmetric: ClassVar[bool] = True
    distribution: ClassVar[str] = "tensorrt"
    notice: ClassVar[str] = ""
    builds_on_card: ClassVar[bool] = True
    carries: ClassVar[str] = libraries.PLUGINS

    def __post_init__(self) -> None:
        """Write equal wishes alike, so that they have one key, and refuse what contradicts itself."""
        version_text(self.version, "backend.version")
        _one_of(self.typing, ("strong", "weak"), "backend.typing")
        _one_of(self.hardware_compatibility, tuple(versions.COMPATIBILITY), "backend.hardware_compatibility")
        if not self.is_weak and self.calibration_cache:
            raise ConfigError(
                "backend.calibration_cache: with typing=strong, int8 is Q/DQ in the graph and no cache is read",
                "leave it out (precision=int8 makes Q/DQ), or backend.typing=weak with TensorRT 10",
            )
        if self.exclude_lean_runtime and not self.version_compatible:
            raise ConfigError(
                "backend.exclude_lean_runtime: only a version-compatible plan holds a lean runtime",
                "add version_compatible: true, or leave it out",
            )
        object.__setattr__(self, "workspace", size_text(parse_size(self.workspace, "workspace")))
        is_for_one = self.hardware_compatibility == "none"
        object.__setattr__(self, "product", product_name(self.product) if is_for_one else "")
        object.__setattr__(self, "sms", self.sms if is_for_one else 0)

    @property
    def is_weak(self) -> bool:
        """Whether types lower than the graph's are allowed by flags, so that the graph itself stays as it is."""
        return self.typing == "weak"

    @property
    def suffix(self) -> str:
        return ".plan"

    @property
    def tools(self) -> tuple[str, ...]:
        """Every name under which TensorRT is installed: they tell the exact version and the CUDA it is made for."""
        return ("tensorrt", "tensorrt-cu12", "tensorrt-cu13")

    @property
    def sources(self) -> dict[str, str]:
        """Files of the project that the build reads, by role."""
        found = {f"{libraries.PLUGINS}{number}": path for number, path in enumerate(self.plugins)}
        if self.timing_cache not in (timing_cache.SHARED, timing_cache.NONE):
            found["timing_cache"] = self.timing_cache
        return {**found, **({"calibration_cache": self.calibration_cache} if self.calibration_cache else {})}

    def placed(self, inputs: Mapping[str, Path]) -> TensorRT:
        """This backend with its files where they lie during the build; ranges of kind calibrate are a table, too."""
        plugins = tuple(map(str, libraries.given(inputs, self.carries).values()))
        table = inputs.get("calibration_cache", inputs.get("calibration", self.calibration_cache))
        pinned = inputs.get("timing_cache", self.timing_cache)
        given = str(table) if self.is_weak else ""
        return replace(self, plugins=plugins, timing_cache=str(pinned), calibration_cache=given)

    def build(self, model: Path, profiles: Sequence[Profile], precision: str, out: Path) -> Built:
        try:
            trt = trt_runtime.module()
        except RuntimeMissing as error:
            raise ToolchainError(f"backend 'tensorrt': {error.message}", _REMEDY) from error
        self._refuse_version(trt.__version__)
        card = self._card()
        builder = self._configured(trt)
        builder.parse(model)
        builder.add_profiles(profiles)
        kept = self._weaken(builder, model, precision)
        builder.apply(self.hook)
        slot = timing_cache.slot(trt, card)
        before = timing_cache.attach(builder, self.timing_cache, slot)
        out.write_bytes(builder.build())
        after = timing_cache.merge_back(builder, self.timing_cache, slot)
        del kept
        built = builder.built(
            target=f"{card.name}, {card.compute_capability}",
            driver_cuda=card.cuda,
            timing_cache={"before": before, **({"after": after} if after else {})},
        )
        warnings = versions.weak_warnings(trt.__version__) if self.is_weak else ()
        return Built(built.measurements, warnings=(*warnings, *built.warnings))

    def lacks(self, precision: str) -> str:
        return lacking_types(precision, (self.compute_capability,) if self.compute_capability else ())

    def runs_here(self) -> str:
        """Asked while planning, too, so the package is looked for and not imported."""
        if importlib.util.find_spec("tensorrt") is None:
            return "backend 'tensorrt': TensorRT is not installed here"
        card, missing = cuda.card()
        return missing if card is None else self._target.other(card)

    def run_options(self, profiles: Sequence[Profile]) -> dict[str, Any]:
        return {"host_code": self.version_compatible}

    def command(self, model: str, profiles: Sequence[Profile], precision: str, out: str, version: str) -> str:
        """Shell lines that build the same engine without mobuild, for TensorRT `version`."""
        return trtexec.command(self, model, profiles, precision, out, version)

    def _refuse_version(self, found: str) -> None:
        wanted = version_key(self.version)
        if version_key(found)[: len(wanted)] != wanted:
            raise ToolchainError(
                f"backend 'tensorrt': expected TensorRT {self.version}, found {found}",
                f"pip install 'tensorrt=={self.version}.*', or set backend.version to what is installed",
            )
        if self.is_weak:
            versions.refuse_weak(found)

    def _card(self) -> cuda.Card:
        """The GPU here, which is the one to build for.

        Raises:
            ToolchainError: there is none.
            Refused: it is another.
        """
        card, missing = cuda.card()
        if card is None:
            raise ToolchainError(f"backend 'tensorrt': {missing}", _REMEDY)
        if other := self._target.other(card):
            raise Refused(
                f"backend 'tensorrt': {other}; kernels are chosen by timing them on the card",
                "run mobuild on a machine with that card; hardware=auto builds for the one that is here;\n"
                "hardware_compatibility: same_compute_capability or ampere_plus makes an engine for a family",
            )
        return card

    @property
    def _target(self) -> TargetCard:
        level = self.hardware_compatibility
        return TargetCard(self.compute_capability, self.product, self.sms, self.memory_gib, level)

    def _weaken(self, builder: Builder, model: Path, precision: str) -> Any:
        """With weak typing, allow the precision; returns what must outlive the build."""
        if not self.is_weak:
            return None
        is_int8, version = precision == "int8", str(builder.trt.__version__)
        table = calibration_table.for_model(self.calibration_cache, model, version) if is_int8 else b""
        return versions.weaken(builder, precision, table)

    def _configured(self, trt: Any) -> Builder:
        builder = Builder(trt, f"TensorRT {trt.__version__}", is_typed=not self.is_weak)
        builder.load_plugins(self.plugins)
        builder.limit("WORKSPACE", parse_size(self.workspace, "workspace"))
        builder.set("builder_optimization_level", self.builder_optimization_level)
        builder.set("hardware_compatibility_level", versions.compatibility(trt, self.hardware_compatibility))
        if self.version_compatible:
            builder.set_flag("VERSION_COMPATIBLE")
        if self.exclude_lean_runtime:
            builder.set_flag("EXCLUDE_LEAN_RUNTIME")
        builder.set_raw(self.raw)
        return builder


def _one_of(value: str, choices: Sequence[str], name: str) -> None:
    if value not in choices:
        raise ConfigError(
            f"{name}: expected one of {', '.join(choices)}, found {value!r}.{did_you_mean(str(value), choices)}"
        )
