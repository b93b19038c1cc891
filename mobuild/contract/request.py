"""What rules judge: one engine's configuration, and the model on its way into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mobuild.facts.releases import PRODUCTS, release
from mobuild.hardware import Hardware
from mobuild.vocabulary import Vocabulary


@dataclass(frozen=True)
class Machine:
    """The machine that the engine is for, as far as it is told (`check.cuda`, …); an empty text is unknown.

    `runtime` is the version of the TensorRT or ONNX Runtime that will open the engine; `compat`: the package of CUDA's
    forward compatibility is installed there; `plugins` are operators that plugins bring along. `driver_cuda`, which
    nobody tells: the newest CUDA that the driver of this very machine runs, where the card that is asked for is here.
    """

    cuda: str = ""
    driver: str = ""
    python: str = ""
    runtime: str = ""
    driver_cuda: str = ""
    compat: bool = False
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """One engine's configuration.

    `backend_version` is the builder's version, empty where none is asked for or known. `options` are the backend's
    fields, `distributions` what is installed (normalised name → version) for the Python that builds, `libraries` the
    nodes whose native code the engine takes along.
    """

    hardware: Hardware
    backend: str
    backend_version: str = ""
    precision: str = "fp32"
    options: Mapping[str, Any] = field(default_factory=dict)
    distributions: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    machine: Machine = field(default_factory=Machine)
    libraries: tuple[str, ...] = ()

    @property
    def is_tensorrt(self) -> bool:
        """Whether the builder is of TensorRT's family."""
        return self.backend in PRODUCTS

    @property
    def product(self) -> str:
        """`TensorRT 10.5`"""
        return f"{PRODUCTS.get(self.backend, self.backend)} {self.backend_version}".strip()

    @property
    def where(self) -> str:
        return f"hardware {self.hardware.name!r}"

    @property
    def version(self) -> str:
        """The version to ask facts about: the newest that they know where none is given."""
        return self.backend_version or (release(self.backend).version if self.is_tensorrt else "")

    @property
    def unknown(self) -> str:
        """Why the version is not in our table; empty when it is, or none was asked for."""
        return release(self.backend, self.backend_version).unknown if self.is_tensorrt else ""

    @property
    def raw(self) -> Mapping[str, Any]:
        found = self.options.get("raw")
        return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True)
class Model:
    """A model on its way into the engine of `request`.

    `node` wrote it; `is_final`: the engine is built of this very graph, so its types are final; `shapes` are the
    engine's; `samples` are manifests of data (`data.manifest`) by the node that read them; `vocabularies` those of
    tokenizers by the source node that they are. `export` is the node that exported it; empty for a file of the user's.
    """

    request: Request
    summary: Mapping[str, Any]
    node: str
    is_final: bool = True
    shapes: Any = None
    samples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    export: str = ""

    @property
    def where(self) -> str:
        return f"model of node {self.node!r}"

    @property
    def named(self) -> Mapping[str, list[str]]:
        found: Mapping[str, list[str]] = self.summary.get("named", {})
        return found

    @property
    def signs(self) -> Mapping[str, Mapping[str, str]]:
        found: Mapping[str, Mapping[str, str]] = self.summary.get("signs", {})
        return found
