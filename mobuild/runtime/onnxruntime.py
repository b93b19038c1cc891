"""Engines of ONNX Runtime: an ONNX file and one execution provider.

ONNX Runtime falls back to the CPU with no more than a warning when a provider is not there; here the
provider that was asked for is the one that runs, or opening fails and says which library is missing.
"""

from __future__ import annotations

import ctypes
import difflib
import os
import re
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Sequence

from .errors import EngineError, RuntimeMissing
from .runner import Tensor, check_feeds, engine_file, fitting, libraries

CPU = "CPUExecutionProvider"
LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_DTYPES = {"float": "float32", "double": "float64", "string": "object"}
# Names of the shared libraries that hold the providers which are no part of the main library.
LIBRARIES = {
    "CUDAExecutionProvider": "libonnxruntime_providers_cuda.so",
    "TensorrtExecutionProvider": "libonnxruntime_providers_tensorrt.so",
    "NvTensorRTRTXExecutionProvider": "libonnxruntime_providers_nv_tensorrt_rtx.so",
    "OpenVINOExecutionProvider": "libonnxruntime_providers_openvino.so",
}
_PACKAGES = {
    "CUDAExecutionProvider": "onnxruntime-gpu",
    "TensorrtExecutionProvider": "onnxruntime-gpu",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-trt-rtx",
    "OpenVINOExecutionProvider": "onnxruntime-openvino",
}


def module() -> Any:
    """The package `onnxruntime`, imported with its telemetry off."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise RuntimeMissing(
            f"onnxruntime cannot be imported: {error}", "pip install 'mobuild[onnxruntime]'"
        ) from error
    return onnxruntime


def open_session(path: Path, provider: str = CPU, options: Any = None, provider_options: Mapping[str, str] = {}) -> Any:
    """An `InferenceSession` that runs on `provider`, with `options` as its SessionOptions.

    Raises:
        RuntimeMissing: the provider is not here.
        EngineError: ONNX Runtime refuses the file, in its own words, or an option is none of the provider's.
    """
    ort = module()
    refuse_missing_provider(ort, provider)
    try:
        session = ort.InferenceSession(str(path), options, providers=[(provider, dict(provider_options))])
    except Exception as error:  # its exceptions share no base class but Exception
        raise EngineError(f"onnxruntime {ort.__version__} cannot load the model: {_words(error)}") from error
    got = session.get_providers()
    if got[0] != provider:
        raise RuntimeMissing(
            f"onnxruntime {ort.__version__}: asked for the provider {provider!r}, got {got[0]!r}",
            _missing_library(ort, provider),
        )
    ignored = [name for name in provider_options if name not in session.get_provider_options()[provider]]
    if ignored:
        raise EngineError(
            f"onnxruntime {ort.__version__}: {provider} ignores the option {ignored[0]!r}",
            "ONNX Runtime's page on that execution provider lists its options",
        )
    return session


def register(ort: Any, options: Any, files: Iterable[Path]) -> None:
    """Let the session of `options` have the custom operators of the libraries `files`.

    Raises:
        EngineError: one cannot be loaded, or holds no operators.
    """
    for file in files:
        try:
            options.register_custom_ops_library(str(file))
        except Exception as error:  # its exceptions share no base class but Exception
            raise EngineError(
                f"onnxruntime {ort.__version__} cannot load the operators of '{file}': {_words(error)}",
                "it has to be built for this processor, with all that it links to, and to export RegisterCustomOps",
            ) from error


def refuse_missing_provider(ort: Any, provider: str) -> None:
    """Raise RuntimeMissing when this build of ONNX Runtime does not have `provider`."""
    available = ort.get_available_providers()
    if provider in available:
        return
    package, library = _PACKAGES.get(provider), LIBRARIES.get(provider)
    hint = f"pip install {package}" if package else f"choose one of: {', '.join(available)}"
    raise RuntimeMissing(
        f"onnxruntime {ort.__version__}: asked for the provider {provider!r}, "
        f"this build has only {', '.join(map(repr, available))}"
        + (f" and no {library}" if library else _meant(provider, [*ort.get_all_providers(), *LIBRARIES])),
        hint,
    )


def _meant(provider: str, known: Sequence[str]) -> str:
    """`. Did you mean …?`, whatever the case of the letters; empty for a provider that exists, or like none."""
    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(provider.lower(), lower, n=1, cutoff=0.9)
    return f". Did you mean {lower[close[0]]!r}?" if close and lower[close[0]] != provider else ""


def open_engine(
    path: Path,
    provider: str = CPU,
    level: str = "all",
    threads: int = 0,
    entries: Mapping[str, str] = {},
    provider_options: Mapping[str, str] = {},
    operators: Iterable[Path] = (),
    configure: Callable[[Any], None] | None = None,
    profiles: Sequence[Mapping[str, Any]] = (),
) -> OnnxEngine:
    """Open an ONNX file, or the only ONNX file in a folder.

    `level` is what ONNX Runtime still optimizes while loading; `threads` 0 leaves the number to it; `operators` are
    libraries of custom operators beside those that the engine takes along; `configure` may change the
    SessionOptions last. With `profiles` the engine takes no other sizes than those that it was proven at.
    """
    ort = module()
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    options.intra_op_num_threads = threads
    for key, value in entries.items():
        options.add_session_config_entry(str(key), str(value))
    register(ort, options, (*libraries(path), *operators))
    if configure:
        configure(options)
    return OnnxEngine(open_session(engine_file(path, ".onnx"), provider, options, provider_options), profiles)


class OnnxEngine:
    """An opened session behind the protocol of `runner.Engine`."""

    def __init__(self, session: Any, profiles: Sequence[Mapping[str, Any]] = ()) -> None:
        self._session, self._profiles = session, profiles
        self.inputs = _tensors(session.get_inputs())
        self.outputs = _tensors(session.get_outputs())

    def run(self, feeds: Mapping[str, Any], profile: int | None = None) -> dict[str, Any]:
        check_feeds(feeds, self.inputs)
        fitting(self._profiles, feeds)
        names = [tensor.name for tensor in self.outputs]
        try:
            return dict(zip(names, self._session.run(names, dict(feeds))))
        except Exception as error:  # its exceptions share no base class but Exception
            raise EngineError(f"onnxruntime cannot run the engine: {_words(error)}") from error


def _tensors(arguments: Any) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(
            argument.name,
            _dtype(argument.type),
            tuple(-1 if axis is None else axis for axis in argument.shape),
        )
        for argument in arguments
    )


def _dtype(type_text: str) -> str:
    """`tensor(float)` → `float32`; other than tensors stay as they are."""
    inner = type_text[len("tensor(") : -1] if type_text.startswith("tensor(") else type_text
    return _DTYPES.get(inner, inner)


def _missing_library(ort: Any, provider: str) -> str:
    """What the dynamic loader says about the provider's library."""
    name = LIBRARIES.get(provider)
    if name is None:
        return ""
    try:
        ctypes.CDLL(str(Path(ort.__file__).parent / "capi" / name))
    except OSError as error:
        return f"the library of the provider cannot be loaded: {error}"
    return "the library of the provider can be loaded, but it found no usable device"


def _words(error: Exception) -> str:
    """ONNX Runtime's message without its preamble: `[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : `."""
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error)).strip()
