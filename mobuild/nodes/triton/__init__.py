"""Kind `triton`: a model repository for Triton Inference Server, from engines that other nodes build.

A folder with one folder per model: `config.pbtxt` and one version. Triton's own TensorRT loads the plans, so it must be
of the release that built them; TensorRT-RTX plans are refused, since no backend of Triton loads those.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Iterator, Mapping, Sequence

from mobuild import onnxmodel
from mobuild.errors import ConfigError, NodeFailed, Refused
from mobuild.node import Built
from mobuild.nodes.triton.ensemble import ensemble
from mobuild.nodes.triton.model import PLATFORMS, instances, largest_batch, tensors, warmup
from mobuild.nodes.triton.text import message
from mobuild.profiles import profiles
from mobuild.runtime.runner import libraries

CONFIG, _VERSION = "config.pbtxt", "1"


@dataclass(frozen=True)
class Triton:
    """The engines among the needs as models named after their roles; one alone is named `name`, or after the recipe.

    `models: {det: [l4, a100]}` makes one model of several roles, engines of one graph for several GPUs. `max_batch` is
    that of the shapes, 0 for none; `dynamic_batching` is whether Triton joins requests, or the fields of that message.
    `ensemble` names a further model that joins all, by the names of their tensors or by `renames: {model: {tensor:
    name}}`. `raw` has fields of `ModelConfig` for every model, unchecked, before those made here. `engines` follows
    from the needs, and is not to be written.
    """

    kind: ClassVar[str] = "triton"
    revision: ClassVar[int] = 2
    isolated: ClassVar[bool] = False
    suffix: ClassVar[str] = ""
    tools: ClassVar[tuple[str, ...]] = ("onnx",)

    name: str = ""
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    max_batch: int | None = None
    dynamic_batching: bool | Mapping[str, Any] = True
    instances: int = 1
    warmup: bool = True
    ensemble: str = ""
    renames: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    engines: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.engines:
            raise ConfigError("expected engines among the needs, found none", "needs: {engine: engine}")
        if self.instances < 1 or (self.max_batch or 0) < 0:
            raise ConfigError(f"expected instances >= 1 and max_batch >= 0, found {self.instances}, {self.max_batch}")
        for model, roles in self.models.items():
            unknown = [role for role in roles if role not in self.engines]
            if unknown or not roles:
                known = ", ".join(self.engines)
                raise ConfigError(f"models: {model}: expected roles of engines, found {list(roles)}", f"roles: {known}")
        if self.renames and not self.ensemble:
            raise ConfigError("renames: are of an ensemble, and there is none", "ensemble: name")
        for roles in self._groups().values():
            self._refuse_unfit(roles)
        if self.ensemble in self._groups():
            raise ConfigError(f"ensemble: {self.ensemble!r} is the name of a model", "name it otherwise")

    def named(self, recipe: str) -> Triton:
        return self if self.name else replace(self, name=recipe)

    def check(self, summaries: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse a batch that an engine does not take, before it is built."""
        for role, opening in self.engines.items():
            if summary := summaries.get(f"{role}.model"):
                largest_batch(summary, profiles(summary, opening.shapes), self.max_batch)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        groups = self._groups()
        out.mkdir()
        configs: dict[str, dict[str, Any]] = {}
        for model, roles in groups.items():
            configs[model] = self._model(model, roles, inputs, out / model / _VERSION)
        joined = {}
        if self.ensemble:
            joined[self.ensemble] = ensemble(self.ensemble, configs, self.renames)
            (out / self.ensemble / _VERSION).mkdir(parents=True)
            # A folder without files does not travel, and Triton wants the version's folder.
            (out / self.ensemble / _VERSION / ".keep").touch()
        for model, config in configs.items():
            config.update(self.raw)
            (out / model / CONFIG).write_text(message(config), encoding="utf-8")
        for model, config in joined.items():
            (out / model / CONFIG).write_text(message(config), encoding="utf-8")
        sizes = {model: config["max_batch_size"] for model, config in {**configs, **joined}.items()}
        return Built({"models": sorted(sizes), "max_batch": sizes}, warnings=tuple(self._warnings()))

    def _groups(self) -> dict[str, Sequence[str]]:
        """Model → the roles of its engines."""
        grouped = {role for roles in self.models.values() for role in roles}
        left = [role for role in self.engines if role not in grouped]
        if len(left) == 1 and not self.models:
            return {self.name or left[0]: left}
        return {**{model: list(roles) for model, roles in self.models.items()}, **{role: [role] for role in left}}

    def _refuse_unfit(self, roles: Sequence[str]) -> None:
        """
        Raises:
            Refused: Triton cannot load an engine, or not these as one model.
        """
        seen: dict[str, str] = {}
        for role in roles:
            backend = self.engines[role].backend
            if backend.runtime not in PLATFORMS:
                raise Refused(
                    f"engine {role!r} is of {backend.name}, which no backend of Triton loads",
                    "backend=tensorrt on a machine with the card, or backend=onnxruntime",
                )
            if getattr(backend, "hook", "") and backend.runtime == "onnxruntime":
                raise Refused(f"engine {role!r}: Triton cannot run backend.hook", "say the same in raw")
            if len(roles) == 1:
                return
            if backend.runtime != "tensorrt":
                raise Refused(f"models: engine {role!r} is of {backend.name}; only plans of TensorRT are for one GPU")
            capability = backend.compute_capability
            if capability in seen:
                raise Refused(
                    f"models: engines {seen[capability]!r} and {role!r} are both for compute capability {capability}",
                    "Triton chooses by it alone: keep one",
                )
            seen[capability] = role

    def _model(self, model: str, roles: Sequence[str], inputs: Mapping[str, Path], folder: Path) -> dict[str, Any]:
        """Copy the engines of one model to its version's folder; its configuration."""
        folder.mkdir(parents=True)
        opening = self.engines[roles[0]]
        summaries = {role: _summary(inputs[f"{role}.model"], folder.parent) for role in roles}
        summary = summaries[roles[0]]
        for role, other in summaries.items():
            if any(other[side] != summary[side] for side in ("inputs", "outputs")):
                raise Refused(
                    f"models: {model}: engines {roles[0]!r} and {role!r} have other tensors", "one graph for all"
                )
        every = [profiles(summary, self.engines[role].shapes) for role in roles]
        batch = min(largest_batch(summary, found, self.max_batch) for found in every)
        files = {
            role: _copy(inputs[role], folder, role if len(roles) > 1 else "model", opening.backend) for role in roles
        }
        held = sorted({name for found in every for profile in found for name in profile.contents})
        config: dict[str, Any] = {
            "name": model,
            "platform": PLATFORMS[opening.backend.runtime],
            "max_batch_size": batch,
            "input": tensors(summary["inputs"], batch > 0, held if opening.backend.runtime == "tensorrt" else ()),
            "output": tensors(summary["outputs"], batch > 0),
            "instance_group": [instances(opening.backend, self.instances, every[0])],
        }
        if len(roles) > 1:
            config["cc_model_filenames"] = [
                {"key": self.engines[role].backend.compute_capability, "value": files[role]} for role in roles
            ]
        if batch > 1 and self.dynamic_batching is not False:
            config["dynamic_batching"] = {} if self.dynamic_batching is True else dict(self.dynamic_batching)
        if self.warmup and (samples := list(warmup(summary, every[0], batch))):
            config["model_warmup"] = samples
        return config

    def _warnings(self) -> Iterator[str]:
        for role, opening in self.engines.items():
            if getattr(opening.backend, "version_compatible", False):
                option = "--backend-config=tensorrt,version-compatible=true"
                yield f"engine {role!r} is version-compatible: start tritonserver with {option}"
            if opening.backend.runtime == "onnxruntime" and opening.backend.raw:
                entries = ", ".join(opening.backend.raw)
                yield f"engine {role!r}: session entries of backend.raw do not reach Triton: {entries}"


def _summary(model: Path, folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix=".triton-", dir=folder) as scratch:
        return onnxmodel.summary(onnxmodel.plain_files(model, Path(scratch)))


def _copy(engine: Path, folder: Path, stem: str, backend: Any) -> str:
    """Put the engine into a version's folder, as the file or folder that Triton expects; its name there."""
    if libraries(engine):
        raise NodeFailed(
            f"the engine brings {libraries(engine)[0].name}, and where that lies on the server is not known here",
            "install it there and name it: raw: {model_operations: {op_library_filename: [/path/lib.so]}}",
        )
    name = f"{stem}{backend.suffix}"
    if engine.is_file():
        shutil.copyfile(engine, folder / name)
    else:  # weights beside the graph: a folder called like the file, with the file in it
        shutil.copytree(engine, folder / name)
        only = next(path for path in sorted((folder / name).glob(f"*{backend.suffix}")))
        only.rename(only.with_name(name))
    return name
