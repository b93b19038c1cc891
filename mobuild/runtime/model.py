"""`model.json`: what the folder of an image holds, and how it is opened, checked and told.

    {"schema": 1, "name": "det", "version": "1", "runtime": "onnxruntime", "engine": "engine.onnx",
     "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}], "outputs": […],
     "profiles": [{"x": {"min": [1, 8], "opt": [4, 8], "max": [16, 8]}}],
     "options": {"threads": 2}, "target": {"compute_capabilities": ["8.9"], "product": ""},
     "tolerance": {"absolute": 1e-4, "relative": 1e-3},
     "key": "…", "sha256": {"engine.onnx": "…"}, "verdict": "passed", "tools": {"onnxruntime": "1.32.0"}}

The engine is a file, or a folder that also holds external data and `libraries/`. `write` is for who makes the folder,
`read` for who serves it; a field that `read` does not know is refused, since it may say what must not be ignored.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Mapping, Tuple

from .document import Fields
from .errors import EngineError
from .runner import RUNTIMES, Tensor
from .target import Target
from .tensors import DATATYPES

SCHEMA = 1
FILE = "model.json"
VERDICTS = ("passed", "failed", "proxy", "not run", None)
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": ("provider", "level", "threads", "entries", "provider_options"),
    "tensorrt": ("host_code",),
    "tensorrt_lean": ("host_code",),
    "tensorrt_rtx": (),
}
RUNTIMES_OF_IMAGES = tuple(sorted(_OPTIONS))

Shape = Tuple[int, ...]
Profile = Mapping[str, Tuple[Shape, Shape, Shape]]
"""Input → the smallest, the usual and the largest shape."""


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from the recorded one: |got - want| <= absolute + relative * |want|."""

    absolute: float = 1e-4
    relative: float = 1e-3


@dataclass(frozen=True)
class Model:
    """The document. `engine` is a name in the same folder; `options` are those of the runtime's `open_engine`.

    `profiles` are the sizes that the engine takes, none: whatever its inputs allow. `sha256` has the files of the
    engine by their names from that folder. `key` and `verdict` are mobuild's, told and not used.
    """

    name: str
    version: str
    runtime: str
    engine: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    profiles: tuple[Profile, ...] = ()
    target: Target = field(default_factory=Target)
    tolerance: Tolerance = Tolerance()
    key: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    verdict: str | None = None
    tools: Mapping[str, str] = field(default_factory=dict)


def write(folder: Path, model: Model) -> Path:
    """Write the document of `model` into `folder`; what `read` would refuse is refused here."""
    told = {**asdict(model), "profiles": [_told(profile) for profile in model.profiles]}
    document = {"schema": SCHEMA, **told}
    _parse(json.loads(json.dumps(document)), folder / FILE)
    path = folder / FILE
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read(folder: Path) -> Model:
    """The model in `folder`.

    Raises:
        EngineError: there is no document, or it says what this version does not understand.
    """
    path = folder / FILE
    try:
        document = json.loads(path.read_bytes())
    except PermissionError as error:
        raise EngineError(
            f"no model in '{folder}': '{path}' may not be read by user {os.geteuid()}",
            "let all read the folder: chmod -R a+rX FOLDER; with SELinux, mount it with ':ro,Z'",
        ) from error
    except OSError as error:
        raise EngineError(
            f"no model in '{folder}': {error.strerror}",
            f"expected there: {FILE}, the engine that it names, selftest.tensors; MOBUILD_MODEL names another folder\n"
            "an image made with image.model=mount gets it by --volume FOLDER:/model:ro",
        ) from error
    except (ValueError, RecursionError) as error:
        raise EngineError(f"'{path}': is no JSON: {error}") from error
    return _parse(document, path)


def _parse(document: Any, path: Path) -> Model:
    fields = Fields(f"'{path}'", document)
    schema = fields.take("schema", int)
    if schema != SCHEMA:
        raise EngineError(
            f"'{path}': expected schema {SCHEMA}, found {schema}", "serve it with the runtime it was made for"
        )
    runtime = fields.choice("runtime", RUNTIMES_OF_IMAGES)
    assert runtime in RUNTIMES
    options = fields.part("options", {})
    chosen = {name: options.take(name, object) for name in _OPTIONS[runtime] if name in options.found}
    options.end()
    model = Model(
        name=_path_part(fields, "name"),
        version=_path_part(fields, "version"),
        runtime=runtime,
        engine=_plain(fields.take("engine", str), fields.place),
        inputs=_tensors(fields, "inputs"),
        outputs=_tensors(fields, "outputs"),
        options=chosen,
        target=_target(fields.part("target", {})),
        tolerance=_tolerance(fields.part("tolerance", {})),
        key=fields.take("key", str, ""),
        sha256=fields.texts("sha256"),
        verdict=fields.choice("verdict", VERDICTS, None),
        tools=fields.texts("tools"),
        profiles=tuple(_profile(each) for each in fields.parts("profiles", [])),
    )
    fields.end()
    for name in model.sha256:
        _plain(name, fields.place)
    _refuse_other_profiles(model, fields.place)
    return model


def _path_part(fields: Fields, name: str) -> str:
    found: str = fields.take(name, str)
    if not found or "/" in found:
        raise EngineError(f"{fields.place}: {name}: expected a part of a URL, found {found!r}")
    return found


def _plain(name: str, place: str) -> str:
    """A path that stays in the folder."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        raise EngineError(f"{place}: expected a path inside the folder, found {name!r}")
    return name


def _tensors(fields: Fields, name: str) -> tuple[Tensor, ...]:
    tensors = []
    for each in fields.parts(name):
        dtype = each.choice("dtype", tuple(DATATYPES))
        shape = each.take("shape", list)
        tensors.append(Tensor(each.take("name", str), dtype, tuple(_axis(axis, each.place) for axis in shape)))
        each.end()
    names = [tensor.name for tensor in tensors]
    if len(set(names)) < len(names):
        raise EngineError(f"{fields.place}: {name}: a name is there twice in {names}")
    return tuple(tensors)


def _axis(axis: Any, place: str) -> Any:
    if isinstance(axis, str) or (type(axis) is int and axis >= -1):
        return axis
    raise EngineError(f"{place}: shape: expected sizes, names or -1, found {axis!r}")


def _profile(fields: Fields) -> Profile:
    corners = {}
    for name in fields.found:
        sizes = fields.part(name)
        low, usual, high = (tuple(sizes.take(each, list)) for each in ("min", "opt", "max"))
        sizes.end()
        is_numbers = all(type(size) is int for size in (*low, *usual, *high))
        if not is_numbers or not len(low) == len(usual) == len(high) or not _is_ordered(low, usual, high):
            raise EngineError(f"{sizes.place}: expected min <= opt <= max for each axis, found {low}, {usual}, {high}")
        corners[name] = (low, usual, high)
    return corners


def _is_ordered(low: Shape, usual: Shape, high: Shape) -> bool:
    return all(0 <= least <= size <= most for least, size, most in zip(low, usual, high))


def _refuse_other_profiles(model: Model, place: str) -> None:
    ranks = {tensor.name: len(tensor.shape) for tensor in model.inputs}
    for number, profile in enumerate(model.profiles):
        for name, (low, _, _) in profile.items():
            if ranks.get(name) != len(low):
                raise EngineError(f"{place}: profiles[{number}]: there is no input {name!r} with {len(low)} axes")


def _target(fields: Fields) -> Target:
    capabilities = fields.take("compute_capabilities", list, [])
    target = Target(tuple(map(str, capabilities)), fields.take("product", str, ""))
    fields.end()
    target.refuse_unreadable(fields.place)
    return target


def _tolerance(fields: Fields) -> Tolerance:
    default = Tolerance()
    found = Tolerance(
        float(fields.take("absolute", float, default.absolute)), float(fields.take("relative", float, default.relative))
    )
    fields.end()
    return found


def _told(profile: Profile) -> dict[str, Any]:
    return {name: {"min": low, "opt": usual, "max": high} for name, (low, usual, high) in profile.items()}
