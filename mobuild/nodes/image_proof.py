"""Proves an image before it is made of its layers: what its programs link is there, nothing is there that must not be,
and the engine answers in it as it did where it was built.

The first two are read, on any machine. The last is run, in a sandbox without network on a read-only root, by what this
machine has for it; where nothing can, the image is built and says so, and a proof by another machine is always taken
first. Which sandbox it was is measured and changes no image.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Iterable, Mapping, Sequence

from mobuild.errors import NodeFailed
from mobuild.image import bases, deny, layers, linking, process, runtimes, sandbox, space, unpack, writer
from mobuild.image.layout import open_image
from mobuild.node import Built, unkeyed

RUN, READ = "run", "read"
_LAYERS = ("base", "python", "deps", "app", "model")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_SHOWN = 20
_LAST_LINES = 12
_NAME = "proof"
# Of what an image says of itself: true wherever it was built, so that equal images stay equal.
PASSED = "passed"
NOT_RUN = "not run"
NO_ENGINE = "not run: no engine inside"
NEEDS_GPU = "not run: needs an NVIDIA GPU, and the sandbox has none"
_TIMEOUT_SECONDS = 900.0  # a large engine takes its time to be opened


@dataclass(frozen=True)
class ImageProof:
    """The proof of the image that the layers in `inputs` make, as JSON; `way` is chosen by `alternatives`."""

    backend: Any = unkeyed(None)  # noqa: RUF009 (a field)
    selftest: bool = unkeyed(True)  # false: take what was run elsewhere, or run nothing
    model: str = unkeyed("inside")
    architecture: str = "amd64"
    allow: Sequence[str] = ()  # patterns of paths that may be there all the same
    runtime: str = ""  # that of the backend
    app: str = ""
    way: str = ""

    kind: ClassVar[str] = "image_proof"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False

    suffix = ".json"
    tools: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "runtime", self.runtime or runtimes.runtime_of(self.backend))

    @property
    def unneeded(self) -> tuple[str, ...]:
        return ("model",) if self.model == "mount" else ()

    @property
    def alternatives(self) -> tuple[ImageProof, ...]:
        """By running it; and by reading alone, where nothing here can run it."""
        if self.way:
            return (self,)
        by_running = replace(self, way=RUN)
        return (by_running, replace(self, way=READ)) if self._cannot_run() else (by_running,)

    @property
    def is_passing(self) -> bool:
        """Whether another answer is to be had as soon as this machine has a sandbox."""
        return self.way == READ and self.selftest and platform.machine() == _MACHINES[self.architecture]

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        found = [layer for role in _LAYERS if role in inputs for layer in layers.read(inputs[role])]
        # Those of a base of the user's are followed by one of ours.
        of_user = len(layers.read(inputs["base"])) - 1 if (inputs["base"] / bases.CONFIG).exists() else 0
        environment = process.variables(inputs["base"], self.runtime, self.app)
        with tempfile.TemporaryDirectory(prefix="proof-", dir=out.parent) as folder:
            scratch = Path(folder)
            space.check(out.parent, sum(layer.size + layer.plain_bytes for layer in found))
            made = writer.Image(_NAME, found, process.container(environment), {}, self.architecture)
            writer.write_layout(made, scratch / "layout")
            warnings = self._read(scratch, of_user, environment)
            layout = _loaded(scratch, bool(of_user))
            told, measured = self._run(scratch / "root", layout, environment, "model" in inputs)
        document = {"schema": 1, "links": PASSED, "denied": PASSED, **told}
        out.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return Built({"proof": {"links": PASSED, "denied": PASSED, **measured}}, warnings=warnings)

    def _read(self, scratch: Path, of_user: int, environment: Mapping[str, str]) -> list[str]:
        """Unpack the image and prove what can be read; what a base of the user's brings is told, and the user's.

        Raises:
            NodeFailed: names what is missing, and what must not be there.
        """
        image, root = open_image(scratch / "layout"), scratch / "root"
        unpack.unpack(image, root, image.layers[:of_user])
        theirs = self._findings(root, environment) if of_user else ([], [])
        for layer in image.layers[of_user:]:
            unpack.add(image, layer, root)
        missing, denied = self._findings(root, environment)
        if unmet := [each for each in missing if each not in theirs[0]]:
            raise NodeFailed("image: its programs lack what they link", _listed(unmet))
        if unwanted := [each for each in denied if each not in theirs[1]]:
            hint = "\nif they are wanted: image.allow=[/path]"
            raise NodeFailed("image: it holds what must not be in one", _listed(unwanted) + hint)
        return [f"the base has what an image should not have: {_listed(each)}" for each in theirs if each]

    def _findings(self, root: Path, environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
        preloaded = runtimes.RUNTIMES[self.runtime].preloaded
        missing = linking.missing(root, _MACHINES[self.architecture], environment, preloaded=preloaded)
        return [str(each) for each in missing], [str(each) for each in deny.denied(root, self.allow)]

    def _run(
        self, root: Path, layout: str, environment: Mapping[str, str], has_engine: bool
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """(what is true everywhere, what was measured here).

        Raises:
            NodeFailed: it does not start, or answers otherwise than where it was built.
        """
        if self.way != RUN:
            reason = f"{NOT_RUN}: {self._cannot_run()}"
            return {"starts": NOT_RUN, "selftest": NOT_RUN}, {"starts": reason, "selftest": reason}
        needs_gpu = runtimes.RUNTIMES[self.runtime].needs_gpu
        is_run = has_engine and not needs_gpu
        imports = f"import mobuild_runtime.__main__ as m, numpy; m.importlib.import_module(m.package({self.runtime!r}))"
        if self.app:
            reference = process.application(self.app)[1]
            imports += f"; from mobuild_runtime.server.application import load; load({reference!r})"
        command = [*process.ENTRYPOINT, "selftest"] if is_run else [process.PYTHON, "-c", imports]
        task = sandbox.Task(root, command, environment, layout, timeout_seconds=_TIMEOUT_SECONDS)
        outcome = sandbox.run(task)
        if not outcome.by:
            raise NodeFailed(
                f"image: it cannot be run here: {outcome.reason}",
                "image.selftest=false builds it without, and labels it so",
            )
        if not outcome.is_done:
            what = "self test" if is_run else f"start (`import {self.runtime}`)"
            raise NodeFailed(f"image: its {what} {outcome}", _end(outcome.output))
        instead = NO_ENGINE if not has_engine else NEEDS_GPU
        told = {"starts": PASSED, "selftest": PASSED if is_run else instead}
        measured: dict[str, Any] = {"starts": str(outcome), "selftest": str(outcome) if is_run else instead}
        measured["passed_over"] = list(outcome.passed_over)
        return told, {**measured, **({"max_abs": _max_abs(outcome.output)} if is_run else {})}

    def _cannot_run(self) -> str:
        """Why the image is not run on this machine; empty where it can be."""
        needed = _MACHINES[self.architecture]
        if not self.selftest:
            return "image.selftest=false"
        if platform.machine() != needed:
            return f"the image is for {needed}, this machine is {platform.machine()}"
        return sandbox.cannot()


def _loaded(scratch: Path, has_foreign: bool) -> str:
    """The layout where podman is to load it, which takes seconds; empty where the tree says as much: all is root's in
    layers of mobuild's, while a base of the user's may have owners, which the tree lacks."""
    is_runnable = not os.statvfs(scratch).f_flag & os.ST_NOEXEC
    return f"{scratch / 'layout'}:{_NAME}" if has_foreign or not is_runnable else ""


def _listed(found: Iterable[str]) -> str:
    lines = list(found)
    more = f"\nand {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "\n".join(lines[:_SHOWN]) + more


def _end(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-_LAST_LINES:])


def _told(output: str) -> Mapping[str, Any]:
    """What the self test told, in a line among those of libraries and of the user's code, which may speak last.

    Raises:
        NodeFailed: there is no such line.
    """
    for line in reversed(output.splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "cases" in found:
                return found
    raise NodeFailed("image: its self test tells nothing", _end(output))


def _max_abs(output: str) -> float:
    """The largest difference of all outputs from those recorded where the engine was built."""
    told = _told(output)
    found = [each.get("max_abs", 0.0) for case in told["cases"] for each in case["outputs"].values()]
    return max(found, default=0.0)
