"""TensorRT as a builder. It needs the card and NVIDIA's libraries; here it says which of them is missing.

Its options are those of an engine's key already, so that recipes can name them.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

from mobuild.backend import Profile
from mobuild.backends.network_builder import lacking_types
from mobuild.errors import ConfigError, ToolchainError
from mobuild.node import Built
from mobuild.units import parse_size, size_text
from mobuild.versions import version_text

_REMEDY = (
    "TensorRT builds on a machine with the card: pip install 'mobuild[tensorrt]' and the libraries\n"
    "libnvinfer and libnvonnxparser of the same version, or use NVIDIA's TensorRT container;\n"
    "backend=tensorrt_rtx builds here, with no GPU"
)


@dataclass(frozen=True)
class TensorRT:
    """`version` is the TensorRT to build with (empty: the installed one); `typing` is `strong`, where
    the graph's types are the engine's, or `weak` (TensorRT 10 and older)."""

    compute_capability: str
    workspace: str | int = "4GiB"
    version: str = ""
    typing: str = "strong"
    raw: Mapping[str, Any] = field(default_factory=dict)

    name: ClassVar[str] = "tensorrt"
    revision: ClassVar[int] = 1
    runtime: ClassVar[str] = "tensorrt"
    symmetric: ClassVar[bool] = True
    distribution: ClassVar[str] = "tensorrt"
    notice: ClassVar[str] = ""

    def __post_init__(self) -> None:
        version_text(self.version, "backend.version")
        if self.typing not in ("strong", "weak"):
            raise ConfigError(f"typing: expected strong or weak, found {self.typing!r}")
        object.__setattr__(self, "workspace", size_text(parse_size(self.workspace, "workspace")))

    @property
    def suffix(self) -> str:
        return ".plan"

    @property
    def tools(self) -> tuple[str, ...]:
        return (self.distribution,)

    def build(self, model: Path, profiles: Sequence[Profile], precision: str, out: Path) -> Built:
        raise ToolchainError(self.runs_here(), _REMEDY)

    def lacks(self, precision: str) -> str:
        return lacking_types(precision, (self.compute_capability,) if self.compute_capability else ())

    def runs_here(self) -> str:
        if importlib.util.find_spec("tensorrt") is None:
            return "backend 'tensorrt': TensorRT is not installed here"
        try:
            import tensorrt
        except ImportError as error:
            return f"backend 'tensorrt': tensorrt is installed, its libraries are not: {error}"
        return f"backend 'tensorrt': this version of mobuild does not build with TensorRT {tensorrt.__version__}"

    def run_options(self, profile: int) -> dict[str, Any]:
        return {"profile": profile}
