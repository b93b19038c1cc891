"""What each runtime needs in an image. A new runtime is one entry here, and one module in `mobuild.runtime`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from mobuild.errors import ConfigError

_NUMPY_DROPPED = (
    *("numpy/f2py/*", "numpy/distutils/*", "numpy/_pyinstaller/*", "numpy/doc/*", "numpy/_core/lib/*"),
    *("numpy/_core/_simd*.so", "numpy/_core/*_tests*", "numpy/conftest.py", "numpy/random/lib/*"),
)
# The container toolkit of NVIDIA puts the driver in; it never goes into an image.
_NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


@dataclass(frozen=True)
class Runtime:
    """The distributions that open an engine: `package` and the others, what of them is left out, and variables.

    With `is_exact`, an engine is opened by the very version that built it alone. `preloaded` are libraries that its
    module loads by their paths before others need them.
    """

    package: str
    others: Sequence[str] = ("numpy",)
    dropped: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    is_exact: bool = False
    preloaded: Sequence[str] = ()
    needs_gpu: bool = False

    @property
    def left_out(self) -> tuple[str, ...]:
        """Patterns of paths in its wheels."""
        return (*self.dropped, *_NUMPY_DROPPED)

    @property
    def packages(self) -> tuple[str, ...]:
        return (self.package, *self.others)


RUNTIMES: Mapping[str, Runtime] = {
    "onnxruntime": Runtime(
        "onnxruntime",
        dropped=(
            "onnxruntime/capi/libonnxruntime.so*",  # of the C API; the module of Python holds all of it again
            *(f"onnxruntime/{name}/*" for name in ("tools", "transformers", "quantization", "datasets", "backend")),
            "*.data/data/bin/*",
        ),
        variables={"ORT_DISABLE_TELEMETRY": "1"},
    ),
    "tensorrt_rtx": Runtime(
        "tensorrt-rtx-cu13-bindings",
        ("tensorrt-rtx-cu13-libs", "nvidia-cuda-runtime", "numpy"),
        ("nvidia/*/include/*", "nvidia/*/libcudart_static*"),  # the module links the parser of ONNX, too
        _NVIDIA,
        is_exact=True,
        preloaded=("libtensorrt_rtx.so.*", "libtensorrt_onnxparser_rtx.so.*", "libcudart.so.*"),
        needs_gpu=True,
    ),
    "tensorrt_lean": Runtime(
        "tensorrt-lean-cu13-bindings",
        ("tensorrt-lean-cu13-libs", "nvidia-cuda-runtime", "numpy"),
        ("nvidia/*/include/*", "nvidia/*/libcudart_static*"),
        _NVIDIA,
        preloaded=("libnvinfer_lean.so.*", "libcudart.so.*"),
        needs_gpu=True,
    ),
}


def runtime_of(backend: Any) -> str:
    """The runtime that opens a backend's engines in an image.

    Raises:
        ConfigError: none of those that images are made with.
    """
    name = str(backend.runtime)
    if name == "tensorrt" and getattr(backend, "version_compatible", False):
        return "tensorrt_lean"
    if name not in RUNTIMES:
        hint = "backend.version_compatible=true, which the small lean runtime opens" if name == "tensorrt" else ""
        raise ConfigError(f"no image is made with the runtime {name!r}; runtimes: {', '.join(RUNTIMES)}", hint)
    return name
