"""Where the bytes of an ONNX artifact lie: one file, or a folder with the weights in a second file.

A protobuf message ends at 2 GiB, so large models keep their tensors in *external data*
(ONNX, ExternalData.md). Everything here works by path and never overwrites a data file: saving twice
appends to it, which leaves a dead copy of all weights inside.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed

MODEL_NAME = "model.onnx"
DATA_NAME = "model.onnx.data"
_DTYPES = {"float": "float32", "double": "float64"}
_WORDS = 400  # of what a reader says of a file: its text formats repeat the file
EXTERNAL_BYTES = 3 << 29  # 1.5 GiB: leaves room below protobuf's 2 GiB for what tools add


def model_file(path: Path) -> Path:
    """The ONNX file of an artifact: `path` itself, or the model in the folder `path`.

    Raises:
        NodeFailed: the folder holds no ONNX file, or several of which none is `model.onnx`.
    """
    if not path.is_dir():
        return path
    if (path / MODEL_NAME).exists():
        return path / MODEL_NAME
    found = sorted(path.glob("*.onnx"))
    if len(found) != 1:
        names = ", ".join(repr(file.name) for file in found) or "none"
        raise NodeFailed(f"folder '{path}': expected one ONNX file or {MODEL_NAME!r}, found {names}")
    return found[0]


def load(path: Path, external_data: bool = True) -> Any:
    """The `onnx.ModelProto` of an artifact, with its tensors unless `external_data` is False.

    Raises:
        NodeFailed: the file is no ONNX model, or its external data is missing, cut short, reached by a
            link, or outside its folder; names the file.
    """
    import onnx

    file = model_file(path)
    model = _parse(file)
    if external_data:
        for data in _checked_data_files(model, file):
            _refuse_link(data)
        onnx.load_external_data_for_model(model, str(file.parent))
    return model


def data_files(path: Path) -> tuple[Path, ...]:
    """The external data files of an artifact, each once, sorted; empty for a model in one file.

    Raises:
        NodeFailed: as `load`, but links are followed.
    """
    file = model_file(path)
    return tuple(_checked_data_files(_parse(file), file))


def plain_files(path: Path, scratch: Path) -> Path:
    """`path`, or a copy of it below `scratch` when its external data is reached by links.

    onnx refuses symbolic and hard links to external data, ONNX Runtime links that leave the folder; the
    caches of model hubs consist of such links.
    """
    file = model_file(path)
    data = data_files(path)
    if not any(_is_link(each) for each in (file, *data)) or not data:
        return file
    home = scratch / "model"
    for each in (file, *data):
        copy = home / each.relative_to(file.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        _copy(each, copy)
    return home / file.name


def save(model: Any, out: Path, external: bool = False) -> None:
    """Write `model` to `out`, which does not exist: one file, or a folder when its tensors exceed
    1.5 GiB or `external` asks for it. Equal models give equal bytes."""
    import onnx

    if out.exists():
        raise NodeFailed(f"'{out}': exists, and a model is never saved over another")
    if not external and tensor_bytes(model) <= EXTERNAL_BYTES:
        out.write_bytes(model.SerializeToString(deterministic=True))
        return
    out.mkdir()
    onnx.save_model(
        model,
        str(out / MODEL_NAME),
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=DATA_NAME,
        size_threshold=1024,
    )


def save_beside(model: Any, data_of: Path, out: Path) -> None:
    """Write `model`, loaded without external data from `data_of`, to `out`, and the data beside it.

    The tensors are not read when they lie in one file of our own name already.
    """
    import onnx

    data = data_files(data_of)
    if not data:
        save(model, out)
    elif [each.name for each in data] == [DATA_NAME]:
        out.mkdir()
        (out / MODEL_NAME).write_bytes(model.SerializeToString(deterministic=True))
        _copy(data[0], out / DATA_NAME)
    else:
        onnx.load_external_data_for_model(model, str(data_of.parent))
        save(model, out, external=True)


def tensor_bytes(model: Any) -> int:
    """Bytes of all constant tensors (initializers and attributes, subgraphs and functions included)."""
    from mobuild.onnxmodel.walk import tensors

    return sum(size_bytes(tensor) for tensor in tensors(model))


def weight_bytes(model: Any) -> dict[str, int]:
    """Bytes of constants by type. External data need not be loaded."""
    from mobuild.onnxmodel.walk import tensors, type_name

    found: Counter[str] = Counter()
    for tensor in tensors(model):
        name = type_name(tensor.data_type).lower()
        found[_DTYPES.get(name, name)] += size_bytes(tensor)
    return dict(sorted(found.items()))


def size_bytes(tensor: Any) -> int:
    """Bytes of one tensor's data, from its type and dimensions: external data is not read."""
    import onnx

    from mobuild.onnxmodel.walk import type_name

    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(len(text) for text in tensor.string_data)
    count = 1
    for dim in tensor.dims:
        count *= dim
    bits = _BITS.get(type_name(tensor.data_type), 8)
    return (count * bits + 7) // 8


_BITS = {
    "FLOAT": 32,
    "INT32": 32,
    "UINT32": 32,
    "INT16": 16,
    "UINT16": 16,
    "FLOAT16": 16,
    "BFLOAT16": 16,
    "INT64": 64,
    "UINT64": 64,
    "DOUBLE": 64,
    "COMPLEX64": 64,
    "COMPLEX128": 128,
    "INT4": 4,
    "UINT4": 4,
    "FLOAT4E2M1": 4,
    "INT2": 2,
    "UINT2": 2,
}


def _copy(source: Path, target: Path) -> None:
    """Copy inside the kernel, which shares the blocks on file systems that can."""
    with open(source, "rb") as reading, open(target, "xb") as writing:
        left = source.stat().st_size
        try:
            while left > 0:
                copied = os.copy_file_range(reading.fileno(), writing.fileno(), left)
                left = left - copied if copied else 0
        except OSError:  # across some file systems, and in some sandboxes
            reading.seek(0)
            writing.seek(0)
            shutil.copyfileobj(reading, writing, 1 << 24)


def _parse(file: Path) -> Any:
    import onnx
    from google.protobuf import json_format, text_format  # type: ignore[import-untyped,unused-ignore]
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]

    # onnx reads .json, .textproto and the like as text
    unreadable = (DecodeError, json_format.ParseError, text_format.ParseError, onnx.parser.ParseError, UnicodeError)
    try:
        model = onnx.load(str(file), load_external_data=False)
    except FileNotFoundError as error:
        raise NodeFailed(f"'{file}': expected an ONNX file, found none") from error
    except unreadable as error:
        raise NodeFailed(
            f"'{file}': expected an ONNX model, found {file.stat().st_size} bytes that are none ({one_line(error)})",
            "the file is damaged or of another format; fetch or export it again",
        ) from error
    if not model.HasField("graph") or not model.opset_import:
        raise NodeFailed(
            f"'{file}': expected an ONNX model, found one without a graph or opset",
            "the file is damaged or cut short; fetch or export it again",
        )
    return model


def one_line(error: Exception) -> str:
    """The words of an error in one line that is not too long."""
    return " ".join(str(error).split())[:_WORDS] or type(error).__name__


def _checked_data_files(model: Any, file: Path) -> list[Path]:
    needed: dict[str, int] = {}
    for location, end in _locations(model):
        needed[location] = max(end, needed.get(location, 0))
    return [_checked(file, location, needed[location]) for location in sorted(needed)]


def _locations(model: Any) -> Iterator[tuple[str, int]]:
    from mobuild.onnxmodel.walk import tensors

    for tensor in tensors(model):
        if tensor.data_location == tensor.EXTERNAL:
            place = {entry.key: entry.value for entry in tensor.external_data}
            length = _number(tensor, place.get("length", "0")) or size_bytes(tensor)
            yield place.get("location", ""), _number(tensor, place.get("offset", "0")) + length


def _number(tensor: Any, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise NodeFailed(
            f"tensor {tensor.name!r}: expected the offset and length of its external data in bytes, found {text!r}",
            "the file is damaged; fetch or export it again",
        )
    return int(text)


def _checked(file: Path, location: str, needed_bytes: int) -> Path:
    if not location or Path(location).is_absolute() or ".." in Path(location).parts:
        raise NodeFailed(
            f"'{file}': its external data {location!r} lies outside its folder",
            "put the data file beside the model and save the model with that relative location",
        )
    data = file.parent / location
    if not data.is_file():
        raise NodeFailed(
            f"'{file}': its external data '{data}' is missing",
            "move the model and its data file together",
        )
    found = data.stat().st_size
    if found < needed_bytes:
        raise NodeFailed(
            f"'{data}': expected at least {needed_bytes} bytes of external data, found {found}",
            "the data file is cut short; fetch or export the model again",
        )
    return data


def _refuse_link(data: Path) -> None:
    if _is_link(data):
        raise NodeFailed(f"'{data}': external data reached by a link, which onnx refuses")


def _is_link(file: Path) -> bool:
    return file.is_symlink() or file.stat().st_nlink > 1
