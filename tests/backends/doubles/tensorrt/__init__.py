"""TensorRT without its libraries: the names of one real release, as recorded, and just enough behind them.

`DOUBLE_TENSORRT` names the release. What the release does not have raises AttributeError, as the bindings do. The plan
is a JSON document of all that was configured, so that tests can read what reached the builder. Log lines are real ones.
"""

from __future__ import annotations

import enum
import json
import os
from pathlib import Path

_RECORDED = json.loads((Path(__file__).parents[2] / "tensorrt_api.json").read_text())
__version__ = os.environ["DOUBLE_TENSORRT"]
_API = _RECORDED[__version__]
_FAULT = os.environ.get("DOUBLE_FAULT", "")

for _name, _members in _API.items():
    if isinstance(_members, dict):
        globals()[_name] = enum.IntEnum(_name, _members)


class _Surface:
    """An object with the public names of the release's class `_cls` and no others."""

    _cls = ""

    def __getattribute__(self, name):
        if not name.startswith("_") and name not in _API[type(self)._cls]:
            raise AttributeError(f"'{type(self)._cls}' object has no attribute '{name}'")
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        if not name.startswith("_") and name not in _API[type(self)._cls]:
            raise AttributeError(f"'{type(self)._cls}' object has no attribute '{name}'")
        object.__setattr__(self, name, value)


class _Severity(enum.Enum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class ILogger:
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = _Severity

    def __init__(self):
        pass


class IProgressMonitor:
    def __init__(self):
        pass


if "IInt8EntropyCalibrator2" in _API:

    class IInt8EntropyCalibrator2:
        def __init__(self):
            pass


def init_libnvinfer_plugins(logger, namespace):
    return True


class _Registry(_Surface):
    _cls = "IPluginRegistry"

    def __init__(self, log):
        self._log, self._loaded = log, []

    def load_library(self, path):
        if not Path(path).is_file() or not Path(path).read_text():
            self._log.log(ILogger.ERROR, f"IPluginRegistry::loadLibrary: Unable to load library: {path}")
            return None
        self._loaded.append(Path(path).read_text())
        return object()


class _TimingCache(_Surface):
    """Lines of text stand for the timings; the first is the header."""

    _cls = "ITimingCache"

    def __init__(self, content):
        self._lines = (bytes(content).decode() or __version__).splitlines()

    def combine(self, other, ignore_mismatch):
        if other._lines[0] != self._lines[0]:
            return False
        self._lines += [line for line in other._lines if line not in self._lines]
        return True

    def serialize(self):
        return "\n".join(self._lines).encode()


class _Profile(_Surface):
    _cls = "IOptimizationProfile"

    def __init__(self):
        self._shapes = {}

    def set_shape(self, name, *corners):
        self._shapes[name] = [list(corner) for corner in corners]

    def get_shape(self, name):
        return self._shapes[name]

    def set_shape_input(self, name, *corners):
        self._shapes[f"{name} holds"] = [list(corner) for corner in corners]

    def get_shape_input(self, name):
        return self._shapes[f"{name} holds"]


class _Config(_Surface):
    _cls = "IBuilderConfig"

    def __init__(self):
        self._flags, self._pools, self._profiles, self._calibrated = set(), {}, [], []
        self._cache = None

    def set_flag(self, flag):
        self._flags.add(flag)

    def clear_flag(self, flag):
        self._flags.discard(flag)

    def get_flag(self, flag):
        return flag in self._flags

    def set_memory_pool_limit(self, pool, size):
        self._pools[pool.name] = size

    def get_memory_pool_limit(self, pool):
        return self._pools[pool.name]

    def add_optimization_profile(self, profile):
        self._profiles.append(profile._shapes)
        return len(self._profiles) - 1

    def set_calibration_profile(self, profile):
        self._calibrated = profile._shapes

    def create_timing_cache(self, content):
        return _TimingCache(content)

    def set_timing_cache(self, cache, ignore_mismatch):
        if cache._lines[0] != __version__:
            return False
        self._cache = cache
        return True

    def get_timing_cache(self):
        return self._cache


class _Named:
    def __init__(self, name):
        self.name = name


def nptype(dtype):
    import numpy

    return numpy.float32


class _Engine(_Surface):
    """y = x + the number of the profile in use, whatever the model was."""

    _cls = "ICudaEngine"
    num_io_tensors = 2

    def __init__(self, plan, log):
        self._log = log
        self._profiles = plan["profiles"]
        self.num_optimization_profiles = len(self._profiles)

    def get_tensor_name(self, i):
        return "xy"[i]

    def get_tensor_mode(self, name):
        return TensorIOMode.INPUT if name == "x" else TensorIOMode.OUTPUT  # noqa: F821

    def get_tensor_shape(self, name):
        return (-1, 16)

    def get_tensor_dtype(self, name):
        return _Named("FLOAT")

    def get_tensor_location(self, name):
        return _Named("DEVICE")

    def get_tensor_profile_shape(self, name, profile_index):
        return self._profiles[profile_index][name]

    def create_execution_context(self):
        return _Context(self)


class _Context(_Surface):
    _cls = "IExecutionContext"

    def __init__(self, engine):
        self._engine, self._profile, self._shape, self._addresses = engine, 0, None, {}

    def set_optimization_profile_async(self, profile_index, stream_handle):
        self._profile, self._shape = profile_index, None
        return True

    def set_input_shape(self, name, shape):
        low, _, high = self._engine._profiles[self._profile][name]
        self._shape = tuple(shape)
        fits = all(least <= size <= most for least, size, most in zip(low, shape, high, strict=True))
        if not fits:
            self._engine._log.log(ILogger.ERROR, f"setInputShape: {name}: {shape[0]} is beyond profile {self._profile}")
        return fits

    def get_tensor_shape(self, name):
        return self._shape

    def set_tensor_address(self, name, address):
        self._addresses[name] = address

    def execute_async_v3(self, stream_handle):
        import ctypes

        count = self._shape[0] * self._shape[1]
        x, y = ((ctypes.c_float * count).from_address(self._addresses[name]) for name in "xy")
        y[:] = [each + self._profile for each in x]
        return True


class Runtime(_Surface):
    """Loads plugins, opens plans of its own release, and refuses others in the words of a real one."""

    _cls = "Runtime"
    engine_host_code_allowed = False

    def __init__(self, log):
        self._log, self._registry = log, _Registry(log)

    def get_plugin_registry(self):
        return self._registry

    def deserialize_cuda_engine(self, plan):
        found = json.loads(plan)["version"]
        if found == __version__:
            return _Engine(json.loads(plan), self._log)
        words = f"Version tag does not match. Note: Current Version: {__version__}, Serialized Engine Version: {found}"
        self._log.log(ILogger.ERROR, f"{words}; host code {self.engine_host_code_allowed}; {self._registry._loaded}")


class _Network(_Surface):
    _cls = "INetworkDefinition"

    def __init__(self, flags):
        self._flags = flags


class OnnxParser(_Surface):
    _cls = "OnnxParser"
    num_errors = 0

    def __init__(self, network, log):
        network._parser = self
        self._model = ""

    def parse_from_file(self, path):
        self._model = Path(path).name
        return True


class Builder(_Surface):
    _cls = "Builder"

    def __init__(self, log):
        self._log, self._registry = log, _Registry(log)

    def create_network(self, flags):
        return _Network(flags)

    def create_builder_config(self):
        return _Config()

    def create_optimization_profile(self):
        return _Profile()

    def get_plugin_registry(self):
        return self._registry

    def build_serialized_network(self, network, config):
        monitor = config.progress_monitor
        monitor.phase_start("Building engine", None, 1)
        monitor.step_complete("Building engine", 0)
        monitor.phase_finish("Building engine")
        self._log.log(ILogger.INFO, "Total Host Persistent Memory: 19024 bytes")
        self._log.log(ILogger.INFO, "Max Scratch Memory: 512 bytes")
        if _FAULT:
            self._log.log(ILogger.WARNING, _FAULT)
        if config._cache is not None:
            config._cache._lines.append(os.environ.get("DOUBLE_TIMING", "kernel 1"))
        calibrator = getattr(config, "int8_calibrator", None) if "int8_calibrator" in _API["IBuilderConfig"] else None
        plan = {
            "version": __version__,
            "network_flags": network._flags,
            "flags": sorted(flag.name for flag in config._flags),
            "pools": config._pools,
            "profiles": config._profiles,
            "calibrated": config._calibrated,
            "level": config.builder_optimization_level,
            "compatibility": config.hardware_compatibility_level.name,
            "plugins": self._registry._loaded,
            "table": calibrator.read_calibration_cache().decode() if calibrator else "",
        }
        return json.dumps(plan).encode()
