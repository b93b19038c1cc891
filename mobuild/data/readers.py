"""Raw samples with their labels, as they lie in each kind of file; one at a time.

Whatever is wrong with a file is said here, with the file and the place in it. Making a model's inputs of
a raw sample is left to `samples`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence, Tuple

from mobuild.data import npz
from mobuild.errors import NodeFailed

Raw = Tuple[Any, Any]
LABELS = ("label", "labels")
IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
ARRAYS = (".npy", ".npz")


def from_npz(path: Path, limit: int) -> Iterator[Raw]:
    """Rows of an `.npz` file: `{input: row}`, and the row of `label` or `labels`."""
    for row in npz.rows(path):
        yield _split(row)


def from_jsonl(path: Path, limit: int) -> Iterator[Raw]:
    """Mappings of a file with one JSON object on each line; empty lines do not count."""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                mapping = _mapping(path, number, line)
                yield mapping, mapping.get("label", mapping.get("labels"))


def from_images(path: Path, limit: int) -> Iterator[Raw]:
    """The path of each image below the folder; the label is the name of its sub-folder."""
    for file in _spread(_files(path, IMAGES), limit):
        yield file, _folder_label(path, file)


def from_arrays(path: Path, limit: int) -> Iterator[Raw]:
    """The array of each `.npy`, or the arrays of each `.npz`, below the folder."""
    for file in _spread(_files(path, ARRAYS), limit):
        loaded = _load(file)
        raw, label = _split(loaded) if isinstance(loaded, dict) else (loaded, None)
        yield raw, _folder_label(path, file) if label is None else label


READERS = {"npz": from_npz, "jsonl": from_jsonl, "images": from_images, "arrays": from_arrays}


def _split(values: Mapping[str, Any]) -> Raw:
    labels = [values[name] for name in LABELS if name in values]
    return {name: array for name, array in values.items() if name not in LABELS}, _plain(labels[0]) if labels else None


def _plain(label: Any) -> Any:
    return label.item() if getattr(label, "shape", None) == () else label


def _mapping(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise NodeFailed(f"'{path}', line {number}: expected a JSON object, found no JSON ({error})") from error
    if not isinstance(found, dict):
        raise NodeFailed(f"'{path}', line {number}: expected a JSON object, found a {type(found).__name__}")
    return found


def _files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    if not folder.is_dir():
        raise NodeFailed(f"'{folder}': expected a folder with a file for each sample, found a file")
    visible = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    files = [path for path in visible if path.suffix.lower() in suffixes]
    if not files and visible:
        others = ", ".join(sorted({path.suffix.lower() or path.name for path in visible})[:5])
        raise NodeFailed(
            f"'{folder}': expected files of {', '.join(suffixes)}, found only {others}",
            "other files are read by an iterator of your own: iterator: file.py:function",
        )
    return sorted(files, key=lambda path: path.relative_to(folder).as_posix())


def _spread(files: Sequence[Path], limit: int) -> list[Path]:
    """At most `limit` files, evenly spread: the first ones would all be of the first sub-folders."""
    if not limit or limit >= len(files):
        return list(files)
    return [files[i * len(files) // limit] for i in range(limit)]


def _folder_label(folder: Path, file: Path) -> Any:
    return file.parent.name if file.parent != folder else None


def _load(file: Path) -> Any:
    import numpy as np

    try:
        loaded = np.load(str(file), allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in sorted(loaded.files)}
    except (ValueError, EOFError, OSError) as error:
        if "pickle" in str(error):
            raise NodeFailed(
                f"'{file}': holds pickled Python objects, which are refused",
                "save plain arrays, with numpy.save or numpy.savez",
            ) from error
        raise NodeFailed(f"'{file}': cannot be read: {error}") from error
