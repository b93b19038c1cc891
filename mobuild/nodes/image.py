"""The `image` kind: joins layers into an OCI image, as one tar, a layout, or the context of a build elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Iterator, Sequence

from mobuild.errors import ConfigError, NodeFailed
from mobuild.image import context, layers, process, pushing, references, runtimes, space, writer
from mobuild.image.layers import Layer
from mobuild.node import Built, Fact, unkeyed, word_of

FORMATS = ("tar", "layout", "context")
PREFIX = "io.mobuild"
_LAYERS = ("base", "python", "deps", "app", "model")


@dataclass(frozen=True)
class Image:
    """The image of an engine. With `model: mount` it holds no engine, and serves what is mounted at /model."""

    backend: Any = unkeyed(None)  # noqa: RUF009 (a field)
    proof: Mapping[str, str] = unkeyed(())  # what the recipe's validation has for data: without, none is needed
    format: str = "tar"
    model: str = "inside"
    name: str = ""  # repository:tag; empty: the recipe's name and the tag `latest`
    architecture: str = "amd64"
    epoch: int = 0
    hardware: str = ""
    precision: str = "fp32"
    runtime: str = ""  # that of the backend
    app: str = ""  # serving.py:answer
    recipe: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "image"
    revision: ClassVar[int] = 3
    isolated: ClassVar[bool] = False
    unkeyed_roles: ClassVar[tuple[str, ...]] = ("validation", "engine", "sbom")
    beside: ClassVar[tuple[str, ...]] = ("sbom",)

    tools: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for key, value, known in (
            ("format", self.format, FORMATS),
            ("model", self.model, ("inside", "mount")),
        ):
            if value not in known:
                raise ConfigError(f"image.{key}: expected one of {', '.join(known)}, found {value!r}")
        object.__setattr__(self, "runtime", self.runtime or runtimes.runtime_of(self.backend))
        object.__setattr__(self, "name", references.name(str(self.name)) if self.name else "")

    @property
    def suffix(self) -> str:
        return ".tar" if self.format == "tar" else ""

    @property
    def unneeded(self) -> tuple[str, ...]:
        """The engine and its proof where it is to be mounted; the proof where the recipe asks for none."""
        if self.model == "mount":
            return ("model", "engine", "validation")
        return () if any(dict(self.proof).values()) else ("validation",)

    def named(self, recipe: str) -> Image:
        return replace(self, recipe=recipe)

    def told(self, facts: Mapping[str, Fact]) -> Image:
        engine = facts.get("engine", Fact())
        told = {"key": engine.key, "sha256": engine.sha256, "verdict": word_of(facts)}
        return replace(self, facts={**told, **_tools(engine)})

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        found = [layer for role in _LAYERS if role in inputs for layer in layers.read(inputs[role])]
        self._refuse_other_runtime(found)
        name = self.name or f"{references.repository(self.recipe)}:latest"
        config = process.container(process.variables(inputs["base"], self.runtime, self.app))
        proof = json.loads(inputs["proof"].read_bytes())
        image = writer.Image(name, found, config, dict(self._labels(proof, found)), self.architecture, self.epoch)
        space.check(out.parent, sum(layer.size for layer in found))
        write = {"tar": writer.write_tar, "layout": writer.write_layout, "context": context.write}[self.format]
        with space.needed(out.parent):
            written = write(image, out)
        return Built(
            {
                "name": name,
                "manifest": written.manifest,
                "config": written.config,
                "image_bytes": sum(layer.size for layer in found),
                "plain_bytes": sum(layer.plain_bytes for layer in found),
                "layers": {layer.created_by.rpartition(" ")[2]: layer.size for layer in found},
                "largest": dict(writer.largest(found)),
                "packages": dict(sorted(_packages(found))),
                "verdict": self.facts.get("verdict", "not run"),
                "selftest": proof["selftest"],
            }
        )

    def push(self, artifact: Path, reference: str) -> str:
        pushed = pushing.push_artifact(artifact, reference)
        sent = f"{len(pushed.sent)} of {len(pushed.sent) + pushed.kept} blobs sent, {pushed.sent_bytes} bytes"
        return f"{reference}: {pushed} ({sent})"

    def _labels(self, proof: Mapping[str, str], found: Sequence[Layer]) -> Iterator[tuple[str, str]]:
        title = "org.opencontainers.image"
        yield f"{title}.title", self.recipe
        yield f"{title}.created", writer.created(self.epoch)
        yield f"{title}.description", f"{self.recipe} for {self.hardware}, {self.precision}, by {self.runtime}"
        for base in (each for layer in found for each in layer.components if each["type"] == "base"):
            yield f"{title}.base.digest", f"sha256:{base['sha256']}"
            if "/" in base["name"]:
                yield pushing.BASE, base["name"]
        told = {
            "recipe": self.recipe,
            "hardware": self.hardware,
            "precision": self.precision,
            "runtime": self.runtime,
            "engine.key": self.facts.get("key", ""),
            "engine.sha256": self.facts.get("sha256", ""),
            "verdict": self.facts.get("verdict", ""),
            "selftest": proof["selftest"],
        }
        yield from ((f"{PREFIX}.{key}", value) for key, value in told.items() if value)

    def _refuse_other_runtime(self, found: Sequence[Layer]) -> None:
        """
        Raises:
            NodeFailed: the runtime in the image cannot open what another version of it built.
        """
        runtime = runtimes.RUNTIMES[self.runtime]
        there = {each["name"]: each["version"] for layer in found for each in layer.components}
        version, builder = there.get(runtime.package), self.facts.get("builder")
        if not version or not builder:
            return
        is_older = _numbers(version) < _numbers(builder)
        if version != builder and (runtime.is_exact or is_older):
            raise NodeFailed(
                f"image: the engine is of {runtime.package} {builder}, and the image's is {version}",
                f"pin that version: mobuild lock target=image recipe={self.recipe}",
            )


def _packages(found: Sequence[Layer]) -> Iterator[tuple[str, str]]:
    """(name and version, SHA-256) of what the layers are made of, without the engine, which is an input."""
    for each in (each for layer in found for each in layer.components if each["type"] != "engine"):
        yield f"{each['type']} {each['name']} {each['version']}".strip(), each["sha256"]


def _tools(engine: Fact) -> dict[str, str]:
    """The version of the runtime among the tools that built the engine."""
    names = {runtime.package for runtime in runtimes.RUNTIMES.values()}
    found = [version for name, version in engine.tools.items() if name.replace("_", "-") in names]
    return {"builder": found[0]} if found else {}


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
