"""`load(path)`: whatever mobuild built, opened and called with arrays by name.

The sidecar beside an artifact tells which runtime opens it, with which provider and options, and for which
sizes; without one, the file itself does as far as it can.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping as MappingType
from keyword import iskeyword
from pathlib import Path
from typing import Any, Mapping, Sequence, Tuple

from . import cuda
from .errors import EngineError, RuntimeMissing
from .runner import RUNTIMES, Engine, Tensor, check_axes, check_feeds, open_engine, shape_text

Shape = Tuple[int, ...]
Profile = Mapping[str, Tuple[Shape, Shape, Shape]]
"""Input → the smallest, the usual and the largest shape."""

_BY_SUFFIX = {".onnx": "onnxruntime", ".pt": "torch", ".pth": "torch", ".pt2": "torch", ".ts": "torch"}
_PLANS = ("tensorrt", "tensorrt_rtx")


class Runner:
    """An artifact that can be called: `runner({"x": array})` or `runner(x=array)` gives the outputs by name.

    `profiles` are the sizes that it was built for; a plan takes no others, an ONNX file does. Not safe for several
    threads at once.
    """

    def __init__(self, path: Path, runtime: str, options: Mapping[str, Any], profiles: Sequence[Profile]) -> None:
        self.path, self.runtime, self.profiles = path, runtime, tuple(profiles)
        self._engine: Engine = open_engine(path, runtime, **options)
        self.inputs: tuple[Tensor, ...] = self._engine.inputs
        self.outputs: tuple[Tensor, ...] = self._engine.outputs

    def __call__(self, feeds: Mapping[str, Any] = {}, **named: Any) -> dict[str, Any]:
        """The outputs by name.

        Raises:
            EngineError: an input is missing, unknown, no array, or of another type or shape than it takes.
        """
        if not isinstance(feeds, MappingType):
            raise EngineError(f"expected arrays by name, found {type(feeds).__name__}", f"by name: {self._call()}")
        given = {**feeds, **named}
        check_feeds(given, self.inputs)
        check_axes(given, self.inputs)
        return self._engine.run(given)

    def _call(self) -> str:
        """How this is called, in Python."""
        names = [one.name for one in self.inputs]
        if all(name.isidentifier() and not iskeyword(name) and name not in ("self", "feeds") for name in names):
            return f"runner({', '.join(f'{name}=array' for name in names)})"
        return f"runner({{{', '.join(f'{name!r}: array' for name in names)}}})"

    def __repr__(self) -> str:
        inputs = ", ".join(f"{one.name}: {one.dtype} {shape_text(one.shape)}" for one in self.inputs)
        return f"<{self.runtime} runner of '{self.path}' ({inputs}) → {', '.join(one.name for one in self.outputs)}>"


def load(path: Any, runtime: str = "", **options: Any) -> Runner:
    """Open the artifact at `path`: an ONNX file or the folder around one, an engine, a plan, a network of torch.

    What `mobuild.build` gave for one target is a path, too. `runtime` and `options` (those of its `open_engine`:
    `provider`, `threads`, …) go before what the sidecar says.

    Raises:
        RuntimeMissing: the library, driver or card that it needs is not here; names it.
        EngineError: there is no such artifact, or it is none that can be run.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise EngineError(
            f"expected the path of an artifact, found {type(path).__name__}", "mobuild.load(mobuild.build('engine'))"
        )
    place = Path(path)
    if not place.exists():
        raise EngineError(f"there is nothing at '{place}'", "mobuild path TARGET tells where an artifact lies")
    told = _sidecar(place)
    backend = _backend(told)
    chosen = runtime or str(backend.get("runtime", "")) or _by_file(place)
    own = _options(chosen, backend) if chosen == backend.get("runtime") else {}
    if chosen in _PLANS:
        _refuse_other_card(backend)
    try:
        return Runner(place, chosen, {**own, **options}, _profiles(told))
    except RuntimeMissing:
        raise
    except EngineError as error:
        if built := ", ".join(f"{name} {version}" for name, version in sorted(_tools(told).items())):
            error.hint = "\n".join(filter(None, [error.hint, f"it was built with {built}"]))
        raise


def _sidecar(path: Path) -> Mapping[str, Any]:
    """What stands beside an artifact; empty without one, and when it is about another file."""
    try:
        told = json.loads(path.with_name(path.name + ".json").read_text(encoding="utf-8"))
        is_its = told["is_folder"] or told["size_bytes"] == path.stat().st_size
        return told if is_its and isinstance(told["fingerprint"]["params"], dict) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _backend(told: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the builder of an engine, and as `runtime` what opens it."""
    options = (
        told.get("fingerprint", {}).get("params", {}).get("backend") if told.get("kind") == "build_engine" else None
    )
    if not isinstance(options, dict) or not options.get("()"):
        return {}
    name = str(options["()"][0])
    return {**options, "runtime": name if name in RUNTIMES else ""}


def _by_file(path: Path) -> str:
    """The runtime of a file that nothing else is known of."""
    suffix = ".onnx" if path.is_dir() else path.suffix.lower()
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if suffix in (".plan", ".engine"):
        raise EngineError(
            f"'{path}': no sidecar tells which TensorRT it is for",
            f"keep '{path.name}.json' beside it, or say runtime='tensorrt_rtx' or runtime='tensorrt'",
        )
    raise EngineError(
        f"'{path}': is nothing that runs",
        "an ONNX file or folder, a .plan, a network of torch (.pt, .pt2); or say runtime=…: " + ", ".join(RUNTIMES),
    )


def _options(runtime: str, backend: Mapping[str, Any]) -> dict[str, Any]:
    """How the builder opens its engines, by its options."""
    if runtime == "onnxruntime":
        found: dict[str, Any] = {"entries": _texts(backend.get("raw")), "provider": backend.get("provider")}
        found["provider_options"] = _texts(backend.get("provider_options"))
        return {key: value for key, value in found.items() if value}
    if runtime == "tensorrt":
        return {"host_code": bool(backend.get("version_compatible"))}
    return {}


def _refuse_other_card(backend: Mapping[str, Any]) -> None:
    """Say which card is needed before a library says something less clear."""
    several = backend.get("compute_capabilities") or backend.get("compute_capability") or ()
    wanted = [several] if isinstance(several, str) else list(several)
    here, missing = cuda.probe()
    if missing and wanted:
        raise RuntimeMissing(f"the plan runs on a GPU of compute capability {', '.join(wanted)}, and {missing}")
    is_family = backend.get("hardware_compatibility", "none") == "ampere_plus"
    if here and wanted and here not in wanted and not is_family:
        raise RuntimeMissing(
            f"the plan is for compute capability {', '.join(wanted)}, the GPU here has {here}",
            "build one for this card: mobuild target=engine hardware=auto",
        )


def _profiles(told: Mapping[str, Any]) -> list[Profile]:
    """The sizes that an engine was built for, as its sidecar writes them: `1×16 / 8×16 / 32×16`."""
    found = told.get("measurements", {}).get("profiles", ())
    try:
        return [{name: _corners(text) for name, text in profile.items()} for profile in found]
    except (ValueError, AttributeError, TypeError):
        return []


def _corners(text: str) -> tuple[Shape, Shape, Shape]:
    low, usual, high = (
        () if each == "scalar" else tuple(int(size) for size in each.split("×")) for each in text.split(" / ")
    )
    return low, usual, high


def _texts(mapping: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping.items()} if isinstance(mapping, Mapping) else {}


def _tools(told: Mapping[str, Any]) -> Mapping[str, str]:
    """The builder's own distribution and version."""
    versions = told.get("fingerprint", {}).get("toolchain", {})
    return {name: found for name, found in versions.items() if found != "-" and name.startswith(("onnxr", "tensorrt"))}
