"""TensorRT-RTX as a builder: plans for compute capabilities 7.5 to 12.1, built with no GPU.

Capabilities are always given: without them the builder makes another, portable plan. Precision is that of
the graph, because networks are strongly typed. Bytes are reproducible only with one build per process
(and not for Q/DQ convolutions), so the node is isolated.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

from mobuild.backend import Profile
from mobuild.backends.network_builder import Builder, lacking_types
from mobuild.backends.trtexec import polygraphy_shapes, unsaid
from mobuild.engine_errors import runtime_errors
from mobuild.errors import ConfigError, NodeFailed
from mobuild.libraries import PLUGINS, given
from mobuild.node import Built, unkeyed, user_code
from mobuild.runtime import cuda
from mobuild.runtime import tensorrt_rtx as rtx_runtime
from mobuild.units import parse_size, size_text


@dataclass(frozen=True)
class TensorRTRTX:
    """`compute_capabilities` is one (`"8.9"`) or several for one plan, whose order counts. `raw` sets flags,
    memory pools and attributes of the builder's configuration, unchecked. `plugins` are libraries: files of the
    project, and those that the node is given; they count by content. `hook(builder, network, config)` may change
    both last."""

    compute_capabilities: str | Sequence[str]
    workspace: str | int = "4GiB"
    raw: Mapping[str, Any] = field(default_factory=dict)
    hook: str = user_code("")
    plugins: Sequence[str] = unkeyed(())

    name: ClassVar[str] = "tensorrt_rtx"
    revision: ClassVar[int] = 1
    runtime: ClassVar[str] = "tensorrt_rtx"
    symmetric: ClassVar[bool] = True
    distribution: ClassVar[str] = "tensorrt-rtx-cu13"
    notice: ClassVar[str] = (
        "only TensorRT-RTX loads this plan; for a TensorRT engine set backend=tensorrt where TensorRT is installed"
    )
    carries: ClassVar[str] = PLUGINS

    def __post_init__(self) -> None:
        """Write equal wishes alike, so that they have one key."""
        several = capabilities(self.compute_capabilities)
        object.__setattr__(self, "compute_capabilities", several)
        object.__setattr__(self, "workspace", size_text(parse_size(self.workspace, "workspace")))

    @property
    def suffix(self) -> str:
        return ".plan"

    @property
    def tools(self) -> tuple[str, ...]:
        return (self.distribution,)

    @property
    def sources(self) -> dict[str, str]:
        """Files of the project that the build reads, by role."""
        return {f"{PLUGINS}{number}": path for number, path in enumerate(self.plugins)}

    def placed(self, inputs: Mapping[str, Path]) -> TensorRTRTX:
        """This backend with its plugins where they lie during the build."""
        return replace(self, plugins=tuple(map(str, given(inputs, self.carries).values())))

    def build(self, model: Path, profiles: Sequence[Profile], precision: str, out: Path) -> Built:
        with runtime_errors():
            trt = rtx_runtime.module()
        builder = Builder(trt, f"TensorRT-RTX {trt.__version__}")
        wanted = capabilities(self.compute_capabilities)
        builder.load_plugins(self.plugins)
        _target(builder, wanted)
        builder.limit("WORKSPACE", parse_size(self.workspace, "workspace"))
        builder.set_raw(self.raw)
        builder.parse(model)
        builder.add_profiles(profiles)
        builder.apply(self.hook)
        out.write_bytes(builder.build())
        return builder.built(target=", ".join(wanted))

    def lacks(self, precision: str) -> str:
        return lacking_types(precision, capabilities(self.compute_capabilities))

    def runs_here(self) -> str:
        here, missing = cuda.probe()
        wanted = capabilities(self.compute_capabilities)
        if missing or here in wanted:
            return missing
        return f"the GPU here has compute capability {here}, the engine is for {', '.join(wanted)}"

    def run_options(self, profiles: Sequence[Profile]) -> dict[str, Any]:
        return {}

    def command(self, model: str, profiles: Sequence[Profile], precision: str, out: str, version: str) -> str:
        """Shell lines that build the same bytes without mobuild; what they cannot say stands in comments."""
        words = ["polygraphy", "convert", model, "--model-type", "onnx", "--convert-to", "trt", "-o", out]
        words += polygraphy_shapes(profiles)
        words += ["--pool-limit", f"workspace:{parse_size(self.workspace)}"]
        words += ["--profiling-verbosity", "layer_names_only"]  # Polygraphy's own default gives other bytes
        words += ["--compute-capabilities", *capabilities(self.compute_capabilities)]
        words += ["--plugins", *self.plugins] if self.plugins else []
        left_out = [f"raw.{name}={value}" for name, value in self.raw.items()]
        left_out += [f"hook {self.hook}"] if self.hook else []
        lines = [f"# TensorRT-RTX {version}", *map(unsaid, left_out)]
        return "\n".join([*lines, f"POLYGRAPHY_USE_TENSORRT_RTX=1 {shlex.join(words)}"])


def capabilities(value: Any) -> tuple[str, ...]:
    """`value` as texts such as `"8.9"`; empty for a CPU, which has none.

    A number with one decimal is as good as text: YAML reads 8.9 and 12.0 as such, and nothing is lost.

    Raises:
        ConfigError: one is not of the form `8.9`.
    """
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    texts = tuple(str(each) for each in given if each not in (None, ""))
    for text in texts:
        major, _, minor = text.partition(".")
        if not (major.isdigit() and minor.isdigit() and len(minor) == 1):
            raise ConfigError(
                f"compute_capabilities: expected the form '8.9', found {text!r}",
                "hardware=<card> gives the card's own, hardware=auto that of the GPU here",
            )
    return texts


def _target(builder: Builder, wanted: Sequence[str]) -> None:
    config, known = builder.config, builder.trt.ComputeCapability.__members__
    if not wanted:
        raise ConfigError(
            f"{builder.product}: the hardware has no compute capability, so no engine can be built for it",
            "choose a GPU (hardware=l4), or backend=onnxruntime",
        )
    builder.set("num_compute_capabilities", len(wanted))
    for i, capability in enumerate(wanted):
        member = known.get("SM" + capability.replace(".", ""))
        if member is None:
            raise NodeFailed(
                f"{builder.product} does not build for compute capability {capability}, "
                f"only for {', '.join(_numbered(known))}",
                "backend=tensorrt builds for it where TensorRT is installed",
            )
        config.set_compute_capability(member, i)
        builder.expect(f"compute capability {i}", member, config.get_compute_capability(i))


def _numbered(members: Mapping[str, Any]) -> tuple[str, ...]:
    """`SM89`, `SM120`, … as `8.9`, `12.0`."""
    return tuple(f"{name[2:-1]}.{name[-1]}" for name in members if name.startswith("SM"))
