"""Engines of TensorRT-RTX: a plan, opened on the card that it was built for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from . import cuda
from .errors import EngineError, RuntimeMissing
from .runner import Tensor, check_feeds


def module() -> Any:
    """The package `tensorrt_rtx`."""
    try:
        import tensorrt_rtx
    except ImportError as error:
        raise RuntimeMissing(
            f"tensorrt_rtx cannot be imported: {error}", "pip install 'mobuild[tensorrt-rtx]'"
        ) from error
    return tensorrt_rtx


def open_engine(path: Path, profile: int = 0) -> PlanEngine:
    """Open a plan for its optimization profile number `profile`.

    Raises:
        RuntimeMissing: no package, no driver, no card.
        EngineError: TensorRT-RTX refuses the plan: no plan, another version, another card.
    """
    trt = module()
    _, missing = cuda.probe()
    if missing:
        raise RuntimeMissing(f"TensorRT-RTX cannot run here: {missing}")
    return PlanEngine(trt, path.read_bytes(), profile)


class PlanEngine:
    """An opened plan behind the protocol of `runner.Engine`; owns its context and its device memory."""

    def __init__(self, trt: Any, plan: bytes, profile: int) -> None:
        self._trt, self._device, self._log = trt, cuda.Device(), _log(trt)
        self._runtime = trt.Runtime(self._log)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise EngineError(f"TensorRT-RTX {trt.__version__} refuses the plan: {self._words()}")
        self._context = self._engine.create_execution_context()
        if self._context is None or not self._context.set_optimization_profile_async(profile, 0):
            raise EngineError(f"TensorRT-RTX cannot use profile {profile}: {self._words()}")
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        self.inputs = self._tensors(names, trt.TensorIOMode.INPUT)
        self.outputs = self._tensors(names, trt.TensorIOMode.OUTPUT)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        import numpy

        check_feeds(feeds, self.inputs)
        arrays = {name: numpy.ascontiguousarray(array) for name, array in feeds.items()}
        for name, array in arrays.items():
            if not self._context.set_input_shape(name, array.shape):
                raise EngineError(f"input {name!r}: no profile takes {array.shape}: {self._words()}")
        outputs = {
            tensor.name: numpy.empty(tuple(self._context.get_tensor_shape(tensor.name)), tensor.dtype)
            for tensor in self.outputs
        }
        self._execute(arrays, outputs)
        return outputs

    def _execute(self, arrays: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Run with device memory that lives for this call, on the default stream."""
        memory: dict[str, int] = {}
        try:
            for name, array in {**arrays, **outputs}.items():
                memory[name] = self._device.allocate(array.nbytes)
                self._context.set_tensor_address(name, memory[name])
            for name, array in arrays.items():
                self._device.upload(memory[name], array)
            if not self._context.execute_async_v3(0):
                raise EngineError(f"TensorRT-RTX cannot run the engine: {self._words()}")
            self._device.wait()
            for name, array in outputs.items():
                self._device.download(array, memory[name])
        finally:
            for address in memory.values():
                self._device.free(address)

    def _tensors(self, names: list[str], mode: Any) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(name, self._dtype(name), tuple(self._engine.get_tensor_shape(name)))
            for name in names
            if self._engine.get_tensor_mode(name) == mode
        )

    def _dtype(self, name: str) -> str:
        import numpy

        dtype = self._engine.get_tensor_dtype(name)
        try:
            return str(numpy.dtype(self._trt.nptype(dtype)))
        except TypeError:  # NumPy has no such type: bfloat16, float8
            return str(dtype.name).lower()

    def _words(self) -> str:
        return "; ".join(self._log.errors) or "it gives no reason"


def _log(trt: Any) -> Any:
    """A logger that keeps the errors; TensorRT logs what other libraries raise."""

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.ERROR, trt.ILogger.INTERNAL_ERROR):
                self.errors.append(message)

    return Log()
