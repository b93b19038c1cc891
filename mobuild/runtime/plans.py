"""Plans of TensorRT and TensorRT-RTX, opened on the card that they were built for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Iterable, Mapping

from . import cuda
from .errors import EngineError, RuntimeMissing
from .runner import Tensor, check_feeds, engine_file, fitting, libraries


def package(name: str) -> str:
    """`name`, or its bindings alone, as in an image: the package of the plain name only stands before them."""
    found = (each for each in (name, f"{name}_bindings") if importlib.util.find_spec(each))
    return next(found, name)


def open_plan(trt: Any, product: str, path: Path, **options: Any) -> PlanEngine:
    """Open a plan with the package `trt`, which messages call `product`; `options` are those of PlanEngine.

    Raises:
        RuntimeMissing: no driver, no card.
        EngineError: it is no plan of this version, or for another card.
    """
    _, missing = cuda.probe()
    if missing:
        raise RuntimeMissing(f"{product} cannot run here: {missing}")
    plan = engine_file(path, ".plan").read_bytes()
    return PlanEngine(trt, product, plan, libraries(path), **options)


class PlanEngine:
    """An opened plan behind the protocol of `runner.Engine`; owns its context and its device memory.

    `plugins` are libraries that the plan needs. `host_code` lets a version-compatible plan run the runtime that it
    carries, which is code: for plans that you trust.
    """

    def __init__(
        self,
        trt: Any,
        product: str,
        plan: bytes,
        plugins: Iterable[Path] = (),
        host_code: bool = False,
    ) -> None:
        self._trt, self._product, self._device, self._log = trt, product, cuda.Device(), _log(trt)
        self._runtime = trt.Runtime(self._log)
        if host_code:
            self._runtime.engine_host_code_allowed = True
        for library in plugins:
            if self._runtime.get_plugin_registry().load_library(str(library)) is None:
                raise EngineError(f"{product} cannot load the plugins of '{library}': {self._words()}")
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise EngineError(f"{product} {trt.__version__} refuses the plan: {self._words()}")
        self._context = self._engine.create_execution_context()
        if self._context is None:
            raise EngineError(f"{product} cannot run the plan: {self._words()}")
        self._active = -1
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        self.inputs = self._tensors(names, trt.TensorIOMode.INPUT)
        self.outputs = self._tensors(names, trt.TensorIOMode.OUTPUT)
        self._profiles = [
            {each.name: self._limits(each.name, number) for each in self.inputs}
            for number in range(self._engine.num_optimization_profiles)
        ]

    def run(self, feeds: Mapping[str, Any], profile: int | None = None) -> dict[str, Any]:
        import numpy

        check_feeds(feeds, self.inputs)
        self._log.errors.clear()  # those of earlier runs are not about this one
        self._device.enter()  # a server opens an engine in one thread and runs it in others
        self._use(fitting(self._profiles, feeds) if profile is None else profile)
        arrays = {name: numpy.ascontiguousarray(array) for name, array in feeds.items()}
        for name, array in arrays.items():
            if not self._context.set_input_shape(name, array.shape):
                raise EngineError(f"input {name!r}: profile {self._active} takes no {array.shape}: {self._words()}")
            if self._is_on_host(name):  # what it holds decides on shapes, so it is read before the run
                self._context.set_tensor_address(name, array.ctypes.data)
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
                if self._is_on_host(name):
                    self._context.set_tensor_address(name, array.ctypes.data)
                    continue
                memory[name] = self._device.allocate(array.nbytes)
                self._context.set_tensor_address(name, memory[name])
            for name in memory.keys() & arrays.keys():
                self._device.upload(memory[name], arrays[name])
            if not self._context.execute_async_v3(0):
                raise EngineError(f"{self._product} cannot run the engine: {self._words()}")
            self._device.wait()
            for name in memory.keys() & outputs.keys():
                self._device.download(outputs[name], memory[name])
        finally:
            for address in memory.values():
                self._device.free(address)

    def _use(self, profile: int) -> None:
        """Switch the context to a profile, after which all input shapes are to be set anew."""
        if profile == self._active:
            return
        if not self._context.set_optimization_profile_async(profile, 0):
            raise EngineError(f"{self._product} cannot use profile {profile}: {self._words()}")
        self._device.wait()
        self._active = profile

    def _limits(self, name: str, profile: int) -> tuple[tuple[int, ...], ...]:
        """The smallest, usual and largest shape of an input."""
        return tuple(tuple(shape) for shape in self._engine.get_tensor_profile_shape(name, profile))

    def _is_on_host(self, name: str) -> bool:
        return str(self._engine.get_tensor_location(name).name) == "HOST"

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
