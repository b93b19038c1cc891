"""What a trained model's file is and holds: weights, a network, or something that only looks like one."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.errors import SourceError
from mobuild.fetch import placeholders
from mobuild.starting import pickles, programs
from mobuild.starting.pickles import Made, Name
from mobuild.starting.tensors import Input, Tensor, inside, tensors_of

_LEGACY = 0x1950A86A20F9469CFC6C  # what torch.save wrote before 1.6 begins with
_LEGACY_HEAD = 3  # its pickles before the object: this number, a version, facts of the machine
_MOST_BYTES = 256 << 20  # of a pickle or a header; weights lie beside it
_HOLDERS = (
    "state_dict",
    "model_state_dict",
    "model",
    "net",
    "network",
    "module",
    "model_ema",
    "ema",
    "params",
    "weights",
)
_TRUSTED = ("collections", "_codecs", "builtins", "__builtin__", "torch._utils", "torch._tensor", "torch.nn.parameter")
_ST_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32"}
_SAVE_NETWORK = "save the network's state_dict, or the network: torch.export.save, torch.jit.save"
_OTHERS: Sequence[tuple[int, bytes, str, str]] = (
    (0, b"GGUF", "GGUF, weights for llama.cpp", "take the PyTorch or safetensors weights that it was made of"),
    (4, b"TFL3", "a TensorFlow Lite model", "convert it to ONNX: python -m tf2onnx.convert --tflite …"),
    (4, b"ORTM", "ONNX Runtime's own format", "take the ONNX file that it was made of"),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes", "convert the model to ONNX: python -m tf2onnx.convert --keras …"),
    (0, b"ftrt", "a TensorRT plan: already an engine", "take the ONNX file that it was made of"),
    (0, b"ptrt", "a TensorRT plan: already an engine", "take the ONNX file that it was made of"),
    (0, b"\x93NUMPY", "a NumPy array", _SAVE_NETWORK),
    (0, b"\x1f\x8b", "compressed (gzip)", "unpack it first"),
    (0, b"BZh", "compressed (bzip2)", "unpack it first"),
    (0, b"\xfd7zXZ", "compressed (xz)", "unpack it first"),
    (0, b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first"),
)


@dataclass(frozen=True)
class Weights:
    """Tensors by name. In a checkpoint they lie below `key`, beside `others`; `strangers` are what is pickled with
    them and `weights_only=True` refuses."""

    tensors: Mapping[str, Tensor]
    form: str  # torch, safetensors
    key: str = ""
    others: Sequence[str] = ()
    strangers: Sequence[str] = ()


@dataclass(frozen=True)
class Pickled:
    """An object of a class, which is code that must be there, and runs, when it is read."""

    cls: str
    key: str = ""


@dataclass(frozen=True)
class Network:
    """A network with its code: `script` (TorchScript) or `program` (torch.export)."""

    form: str
    inputs: Sequence[Input]
    outputs: int  # 0: not told


Contents = Weights | Pickled | Network


def look(path: Path, shown: str) -> Contents:
    """What the file at `path` holds.

    Raises:
        SourceError: it is no file that a recipe can begin with; says what it is.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(512)
        if not start:
            raise placeholders.empty(shown, is_remote=False)
        placeholders.check(shown, start[: placeholders.START_BYTES], path.suffix, is_remote=False)
        _refuse_others(start, shown)
        if start.startswith(b"PK\x03\x04"):
            return _archive(path, shown)
        if start[8:9] == b"{" and struct.unpack("<Q", start[:8])[0] <= path.stat().st_size:
            return Weights(_safetensors(path, shown), "safetensors")
        if start.startswith(b"\x80"):
            return _legacy(path, shown)
    except OSError as error:
        raise SourceError(f"source {shown!r}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise SourceError(f"source {shown!r}: holds a network within itself", _SAVE_NETWORK) from error
    raise SourceError(
        f"source {shown!r}: is no file of torch, safetensors or ONNX",
        "an ONNX file ends with .onnx; else see what it is",
    )


def _refuse_others(start: bytes, shown: str) -> None:
    for place, magic, what, todo in _OTHERS:
        if start[place:].startswith(magic):
            raise SourceError(f"source {shown!r}: is {what}", todo)


def _archive(path: Path, shown: str) -> Contents:
    """A zip: what torch writes since 1.6, or another program's."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if member := next((name for name in names if name.endswith(programs.MEMBERS)), ""):
                return Network("program", *programs.program(_member(archive, member, shown), shown))
            if any("aotinductor/" in name for name in names):
                raise SourceError(f"source {shown!r}: is compiled already (AOTInductor)", _SAVE_NETWORK)
            pickle = next((name for name in names if name.endswith("/data.pkl")), "")
            if not pickle:
                raise _no_torch(names, shown)
            found = pickles.read(_member(archive, pickle, shown), shown)
            top = pickle[: -len("data.pkl")]
            if any(name.startswith(f"{top}code/") for name in names):
                traced = f"{top}traced_inputs.pkl"
                sample = pickles.read(_member(archive, traced, shown), shown).value if traced in names else None
                codes = [name for name in names if name.startswith(f"{top}code/") and name.endswith(".py")]
                code = {name[len(f"{top}code/") : -3]: _member(archive, name, shown) for name in codes}
                return Network("script", *programs.script(found.value, code, sample, inside(found.value)))
            return _of_pickle(found.value, found.names, shown)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise SourceError(f"source {shown!r}: is a damaged archive: {error}", "fetch or save it again") from error


def _no_torch(names: Sequence[str], shown: str) -> SourceError:
    if names and all(name.endswith(".npy") for name in names):
        return SourceError(f"source {shown!r}: is an archive of NumPy arrays", _SAVE_NETWORK)
    if "model.weights.h5" in names:
        return SourceError(f"source {shown!r}: is a Keras model", "convert it to ONNX: python -m tf2onnx.convert …")
    listed = ", ".join(names[:4])
    return SourceError(f"source {shown!r}: is a zip archive, not a file of torch's: {listed}", "unpack it first")


def _member(archive: zipfile.ZipFile, name: str, shown: str) -> bytes:
    if archive.getinfo(name).file_size > _MOST_BYTES:
        raise SourceError(f"source {shown!r}: its member {name!r} is too large to be looked into")
    return archive.read(name)


def _legacy(path: Path, shown: str) -> Contents:
    """What torch.save wrote before 1.6: several pickles, then the storages."""
    with path.open("rb") as stream:
        content = stream.read(_MOST_BYTES)
    start = pickles.read(content, shown)
    if start.value != _LEGACY:
        what = _class(start.value)
        raise SourceError(
            f"source {shown!r}: is a plain pickle{f' of {what}' if what else ''}, not what torch.save writes",
            f"load it where you trust it; then {_SAVE_NETWORK}",
        )
    for _ in range(_LEGACY_HEAD):
        start = pickles.read(content, shown, start.end)
    return _of_pickle(start.value, start.names, shown)


def _of_pickle(value: Any, names: Sequence[Name], shown: str) -> Contents:
    strangers = tuple(dict.fromkeys(str(name) for name in names if not _is_trusted(name)))
    if tensors := tensors_of(value):
        return Weights(tensors, "torch", strangers=strangers)
    if isinstance(value, Made):
        return Pickled(str(value.function))
    if not isinstance(value, Mapping):
        raise SourceError(f"source {shown!r}: holds {type(value).__name__}, no weights by name", _SAVE_NETWORK)
    others = [str(key) for key in value]
    for key in [*_HOLDERS, *others]:
        if key in value and (tensors := tensors_of(value[key])):
            return Weights(tensors, "torch", key, [each for each in others if each != key], strangers)
    for key in [*_HOLDERS, *others]:
        if key in value and (what := _class(value[key])) and inside(_network(value[key])):
            return Pickled(what, key)
    listed = ", ".join(others[:8]) or "nothing"
    raise SourceError(f"source {shown!r}: is a checkpoint without weights by name; it has {listed}", _SAVE_NETWORK)


def _is_trusted(name: Name) -> bool:
    """Whether `torch.load(weights_only=True)` takes it: what is needed for tensors, and plain containers."""
    is_of_torch = name.module == "torch" or name.module.startswith("torch.storage")
    return is_of_torch or name.module in _TRUSTED


def _class(value: Any) -> str:
    return str(value.function) if isinstance(value, Made) else ""


def _network(value: Any) -> Any:
    """An object whose parameters and parts lie where a torch.nn.Module keeps them, as if they were its state."""
    if not isinstance(value, Made) or not isinstance(value.state, Mapping):
        return value
    parts = [value.state.get(name) for name in ("_parameters", "_buffers", "_modules")]
    merged = {name: _network(each) for part in parts if isinstance(part, Mapping) for name, each in part.items()}
    return Made(value.function, value.arguments, merged)


def _shape(sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, list) or not all(type(size) is int for size in sizes):
        raise TypeError("a shape is a list of whole numbers")
    return tuple(sizes)


def _safetensors(path: Path, shown: str) -> dict[str, Tensor]:
    with path.open("rb") as stream:
        size_bytes = struct.unpack("<Q", stream.read(8))[0]
        if size_bytes > _MOST_BYTES:
            raise SourceError(f"source {shown!r}: its header is too large to be looked into")
        header = stream.read(size_bytes)
    try:
        described = {name: each for name, each in json.loads(header).items() if name != "__metadata__"}
        return {
            name: Tensor(_ST_TYPES.get(each["dtype"], ""), _shape(each["shape"])) for name, each in described.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SourceError(
            f"source {shown!r}: is damaged: its header is none of safetensors", "fetch it again"
        ) from error
