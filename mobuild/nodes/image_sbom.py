"""The bill of materials of an image, from what its layers tell of themselves; it lies beside the image."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from mobuild.image import layers, sbom
from mobuild.node import Built, unkeyed

_LAYERS = ("base", "python", "deps", "app", "model")
_DISTRIBUTION = "bookworm"


@dataclass(frozen=True)
class ImageSbom:
    """CycloneDX of the layers in `inputs`: each Debian package, each wheel, the engine, with SHA-256."""

    model: str = unkeyed("inside")
    architecture: str = "amd64"
    epoch: int = 0
    recipe: str = ""
    hardware: str = ""
    precision: str = "fp32"

    kind: ClassVar[str] = "image_sbom"
    revision: ClassVar[int] = 2
    isolated: ClassVar[bool] = False

    suffix = ".cdx.json"
    tools: ClassVar[tuple[str, ...]] = ("cyclonedx-python-lib", "mobuild")

    @property
    def unneeded(self) -> tuple[str, ...]:
        return ("model",) if self.model == "mount" else ()

    def named(self, recipe: str) -> ImageSbom:
        return replace(self, recipe=self.recipe or recipe)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        found = [layer for role in _LAYERS if role in inputs for layer in layers.read(inputs[role])]
        told = [each for layer in found for each in layer.components]
        parts = [_part(each) for each in told]
        files = {each.name: each.sha256 for each in parts if each.type == sbom.ENGINE}
        properties = {"hardware": self.hardware, "precision": self.precision}
        engine = sbom.Engine(self.recipe, sbom.ENGINE_VERSION, files, properties) if files else None
        packages = [each for each in parts if each.type != sbom.ENGINE]
        debian = {"arch": self.architecture, "distro": _DISTRIBUTION}
        sbom.write(out, self.recipe, packages, engine, self.epoch, debian)
        return Built({"packages": len(packages), "engine_files": len(files)})


def _part(told: Mapping[str, str]) -> sbom.Part:
    """A component as its layer tells of it; mobuild's own runtime has the version of mobuild."""
    is_own = (told["type"], told["name"]) == ("app", "mobuild-runtime")
    version = importlib.metadata.version("mobuild") if is_own else told["version"]
    return sbom.Part(told["type"], told["name"], version, told["sha256"], told.get("licence", ""))
