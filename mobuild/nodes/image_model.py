"""The highest layer of an image: the engine, what tells how to open it, and feeds with the outputs to expect."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from mobuild import onnxmodel
from mobuild.engine_errors import runtime_errors
from mobuild.errors import NodeFailed
from mobuild.image import layers, runtimes, sbom
from mobuild.image.tree import Tree
from mobuild.node import Built, Fact, unkeyed, word_of
from mobuild.profiles import check_shapes, profiles
from mobuild.runtime import model as document
from mobuild.runtime import selftest
from mobuild.runtime.runner import Tensor, open_engine
from mobuild.runtime.target import Target

PLACE = "model"
_OPTIONS = {"onnxruntime": ("provider", "entries", "provider_options"), "tensorrt_lean": ("host_code",)}
# Of what another device, or another build of the same runtime, may differ from the recorded outputs.
_TOLERANCES = {
    "fp32": document.Tolerance(),
    "fp16": document.Tolerance(1e-2, 2e-2),
    "bf16": document.Tolerance(5e-2, 1e-1),
    "int8": document.Tolerance(1e-1, 2e-1),
}


@dataclass(frozen=True)
class ImageModel:
    """The engine `inputs["engine"]` of the model `inputs["model"]` as a layer; `facts` are what a plan knows."""

    backend: Any
    proof: Mapping[str, str] = unkeyed(())  # what the recipe's validation has for data: without, none is needed
    shapes: Any = field(default_factory=dict)
    precision: str = "fp32"
    epoch: int = 0
    name: str = ""  # the recipe's
    facts: Mapping[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "image_model"
    revision: ClassVar[int] = 2
    isolated: ClassVar[bool] = True
    unkeyed_roles: ClassVar[tuple[str, ...]] = ("validation",)

    def __post_init__(self) -> None:
        runtimes.runtime_of(self.backend)
        sizes = check_shapes(self.shapes)
        object.__setattr__(self, "shapes", sizes[0] if len(sizes) == 1 else sizes)

    suffix = ""

    @property
    def tools(self) -> tuple[str, ...]:
        return ("onnx", "numpy", *self.backend.tools)

    @property
    def unneeded(self) -> tuple[str, ...]:
        return () if any(dict(self.proof).values()) else ("validation",)

    def named(self, recipe: str) -> ImageModel:
        return replace(self, name=self.name or recipe)

    def told(self, facts: Mapping[str, Fact]) -> ImageModel:
        engine = facts["engine"]
        return replace(self, facts={"key": engine.key, "verdict": word_of(facts), "tools": dict(engine.tools)})

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(prefix="model-", dir=out.parent) as scratch:
            folder = Path(scratch) / PLACE
            folder.mkdir()
            self._fill(folder, inputs, Path(scratch))
            tree = Tree()
            tree.copy(folder, PLACE)
            told = [{"type": "engine", "version": "", **each} for each in self._digests(folder)]
            layer = layers.write(tree, out, "model", self.epoch, "none", told)
        return Built({"layer_bytes": layer.size, "plain_bytes": layer.plain_bytes, "diff_id": layer.diff_id})

    def _digests(self, folder: Path) -> list[dict[str, str]]:
        """The files of the engine, by their paths in the image's folder."""
        return [{"name": name, "sha256": digest} for name, digest in document.read(folder).sha256.items()]

    def _fill(self, folder: Path, inputs: Mapping[str, Path], scratch: Path) -> None:
        """Write the folder that `mobuild.runtime.model` describes."""
        model = onnxmodel.plain_files(inputs["model"], scratch)
        summary = onnxmodel.summary(model)
        wanted = profiles(summary, self.shapes)
        engine = folder / f"engine{'' if inputs['engine'].is_dir() else self.backend.suffix}"
        _copy(inputs["engine"], engine)
        name = runtimes.runtime_of(self.backend)
        options = self.backend.run_options(wanted)
        if "configure" in options:
            raise NodeFailed("an image cannot take the backend's hook along", "say the same with backend.raw")
        opened = None if self.backend.runs_here() else self._open(engine, options)
        feeds = onnxmodel.feeds(summary, _usual(self.shapes))
        outputs = opened.run(feeds) if opened else _by_model(model, feeds)
        selftest.record(folder, [(feeds, {each: outputs[each] for each in sorted(outputs)})])
        document.write(
            folder,
            document.Model(
                name=self.name,
                version=sbom.ENGINE_VERSION,
                runtime=name,
                engine=engine.name,
                inputs=opened.inputs if opened else _tensors(summary["inputs"]),
                outputs=opened.outputs if opened else _tensors(summary["outputs"]),
                options={each: options[each] for each in _OPTIONS.get(name, ()) if each in options},
                profiles=tuple(dict(profile) for profile in wanted),
                target=_target(self.backend),
                tolerance=_TOLERANCES[self.precision],
                key=self.facts.get("key", ""),
                verdict=self.facts.get("verdict"),
                tools=self.facts.get("tools", {}),
                sha256={path.relative_to(folder).as_posix(): layers.digest_of(path) for path in sorted(_files(engine))},
            ),
        )

    def _open(self, engine: Path, options: Mapping[str, Any]) -> Any:
        with runtime_errors():
            return open_engine(engine, self.backend.runtime, **options)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _files(engine: Path) -> list[Path]:
    return [engine] if engine.is_file() else [path for path in engine.rglob("*") if path.is_file()]


def _usual(shapes: Any) -> dict[str, int]:
    """The usual sizes of the first profile."""
    sizes = check_shapes(shapes)
    return {axis: limits[1] for axis, limits in sizes[0].items()} if sizes else {}


def _by_model(model: Path, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine should answer, by ONNX Runtime: where its device is not here."""
    found: dict[str, Any] = onnxmodel.run(onnxmodel.open_session(model), feeds)
    return found


def _tensors(told: Any) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(each["name"], each["dtype"], tuple(-1 if axis is None else axis for axis in each["shape"] or ()))
        for each in told
    )


def _target(backend: Any) -> Target:
    """The cards that an engine is for: those of its compute capability, or newer ones."""
    several = getattr(backend, "compute_capabilities", ())
    one = getattr(backend, "compute_capability", "")
    plus = "+" if getattr(backend, "hardware_compatibility", "none") == "ampere_plus" else ""
    return Target(tuple(map(str, several)) or ((f"{'8.0' if plus else one}{plus}",) if one else ()))
