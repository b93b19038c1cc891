"""The door to every engine: `open_engine(path, runtime)` and the protocol of what it returns.

One module per runtime, named after it, with a function `open_engine(path, **options)`; this one only finds
it. Arrays are NumPy's.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Protocol, Sequence

from .errors import EngineError

RUNTIMES = ("onnxruntime", "tensorrt_rtx", "tensorrt", "tensorrt_lean", "torch")
ANY: tuple[Any, ...] = (...,)  # the shape of which nothing is known
LIBRARIES = "libraries"  # folder beside an engine: native code that it needs, loaded before it is opened


@dataclass(frozen=True)
class Tensor:
    """One input or output. An axis is a size, a name, or -1 where the runtime knows neither; `ANY` is any shape."""

    name: str
    dtype: str  # as NumPy names it: float32, int64; bfloat16 and the like as the runtime names them; empty: any
    shape: tuple[Any, ...]


class Engine(Protocol):
    """An opened engine. Not safe for several threads at once."""

    @property
    def inputs(self) -> tuple[Tensor, ...]: ...

    @property
    def outputs(self) -> tuple[Tensor, ...]: ...

    def run(self, feeds: Mapping[str, Any], profile: int | None = None) -> dict[str, Any]:
        """The outputs by name for one array per input, by the first optimization profile that takes them, or by that
        number.

        Raises:
            EngineError: an input is missing, unknown, or of another type or shape than the engine takes.
        """


def open_engine(path: Path, runtime: str, **options: Any) -> Engine:
    """Open the engine at `path`, a file or the folder around it; `options` are the runtime's own.

    Raises:
        RuntimeMissing: the runtime or its device is not here.
        EngineError: the file is no engine of this runtime, of another version, or for another device.
    """
    if runtime not in RUNTIMES:
        raise EngineError(f"no runtime is called {runtime!r}", f"runtimes: {', '.join(RUNTIMES)}")
    if not path.exists():
        raise EngineError(f"there is no engine at '{path}'")
    opened: Engine = importlib.import_module(f".{runtime}", __package__).open_engine(path, **options)
    return opened


def fitting(profiles: Sequence[Mapping[str, Any]], feeds: Mapping[str, Any]) -> int:
    """The number of the first profile (input → min, opt and max shape) that takes the feeds; 0 without profiles.

    Raises:
        EngineError: none does; names their limits.
    """
    for number, profile in enumerate(profiles):
        if all(takes(feeds[name].shape, corners) for name, corners in profile.items() if name in feeds):
            return number
    if not profiles:
        return 0
    found = ", ".join(f"{name} {_text(array.shape)}" for name, array in feeds.items())
    limits = "; ".join(
        f"{number}: " + ", ".join(f"{name} {_text(low)} to {_text(high)}" for name, (low, _, high) in profile.items())
        for number, profile in enumerate(profiles)
    )
    raise EngineError(
        f"no profile of the engine takes {found}", f"profiles: {limits}\nbuild it for these sizes, too: shapes"
    )


def takes(shape: Sequence[int], corners: Sequence[Sequence[int]]) -> bool:
    """Whether a shape lies within the first and last of `corners`, axis by axis."""
    low, high = corners[0], corners[-1]
    return len(shape) == len(high) and all(least <= size <= most for least, size, most in zip(low, shape, high))


def _text(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def libraries(path: Path) -> tuple[Path, ...]:
    """The libraries that the engine at `path` takes along, in the order in which they are loaded."""
    return tuple(sorted((path / LIBRARIES).glob("*.so"))) if path.is_dir() else ()


def engine_file(path: Path, suffix: str) -> Path:
    """`path`, or the only file with `suffix` in the folder `path`."""
    if path.is_file():
        return path
    files = sorted(path.glob(f"*{suffix}"))
    if len(files) != 1:
        raise EngineError(f"'{path}': expected one {suffix} file in the folder, found {len(files)}")
    return files[0]


def check_feeds(feeds: Mapping[str, Any], inputs: tuple[Tensor, ...]) -> None:
    """Raise EngineError unless `feeds` has exactly the names, types and ranks of `inputs`."""
    names = [tensor.name for tensor in inputs]
    if sorted(feeds) != sorted(names):
        raise EngineError(f"the engine takes the inputs {names}, found {sorted(feeds)}")
    for tensor in inputs:
        array = feeds[tensor.name]
        if not hasattr(array, "dtype") or not hasattr(array, "shape"):
            raise EngineError(f"input {tensor.name!r}: expected a NumPy array, found {type(array).__name__}")
        if tensor.dtype and str(array.dtype) != tensor.dtype:
            raise EngineError(f"input {tensor.name!r}: expected {tensor.dtype}, found {array.dtype}")
        if tensor.shape == ANY:
            continue
        fits = len(array.shape) == len(tensor.shape) and all(
            not isinstance(axis, int) or axis in (-1, size) for axis, size in zip(tensor.shape, array.shape)
        )
        if not fits:
            wanted, found = shape_text(tensor.shape), shape_text(array.shape)
            raise EngineError(f"input {tensor.name!r}: expected the shape {wanted}, found {found}")


def check_axes(feeds: Mapping[str, Any], inputs: tuple[Tensor, ...]) -> None:
    """Raise EngineError where an axis of one name has two sizes."""
    sizes: dict[str, tuple[int, str]] = {}
    for tensor in inputs:
        for axis, size in zip(tensor.shape, feeds[tensor.name].shape):
            if isinstance(axis, str):
                before, place = sizes.setdefault(axis, (size, tensor.name))
                if before != size:
                    both = f"{before} in input {place!r} and {size} in input {tensor.name!r}"
                    raise EngineError(f"axis {axis!r}: {both}, expected one size")


def shape_text(shape: Any) -> str:
    """`1×3×640`; `scalar` for none."""
    return "×".join("…" if axis is ... else str(axis) for axis in shape) or "scalar"
