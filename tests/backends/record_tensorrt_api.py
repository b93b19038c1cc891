"""Records what the real bindings of TensorRT have: `python tests/backends/record_tensorrt_api.py WHEEL…`

The wheels of `tensorrt-cu12-bindings` and `tensorrt-cu13-bindings` are public, the libraries below them are not on the
package index. The bindings need nine functions of those to be imported, which a library of ours has; that is enough to
read every class and enumeration. The result, `tensorrt_api.json`, is what the tests believe.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("tensorrt_api.json")
_CLASSES = (
    "Builder",
    "BuilderFlag",
    "HardwareCompatibilityLevel",
    "IBuilderConfig",
    "ICudaEngine",
    "IExecutionContext",
    "IHostMemory",
    "IInt8EntropyCalibrator2",
    "ILogger",
    "INetworkDefinition",
    "IOptimizationProfile",
    "IPluginRegistry",
    "IProgressMonitor",
    "ITimingCache",
    "MemoryPoolType",
    "NetworkDefinitionCreationFlag",
    "OnnxParser",
    "ParserError",
    "ProfilingVerbosity",
    "Runtime",
    "TensorIOMode",
)
_LIBRARY = """
#define S(n) void *n(void) { return 0; }
S(createInferBuilder_INTERNAL) S(createInferRefitter_INTERNAL) S(createInferRuntime_INTERNAL)
S(createNvOnnxParserRefitter_INTERNAL) S(createNvOnnxParser_INTERNAL)
S(getBuilderPluginRegistry) S(getPluginRegistry) S(initLibNvInferPlugins)
int getNvOnnxParserVersion(void) { return 0; }
"""
_PROBE = """
import json, sys
import tensorrt_bindings as trt
named = {name: getattr(trt, name) for name in dir(trt) if not name.startswith("_")}
found = {"functions": sorted(name for name, each in named.items() if callable(each) and not isinstance(each, type))}
for name in sys.argv[1].split(","):
    cls = getattr(trt, name, None)
    if cls is None:
        continue
    members = getattr(cls, "__members__", None)
    public = sorted(word for word in dir(cls) if not word.startswith("_"))
    found[name] = {word: int(member) for word, member in members.items()} if members is not None else public
print(json.dumps({trt.__version__: found}))
"""


def surface(wheel: Path) -> dict[str, Any]:
    """Version → class → its public names, with numbers where it is an enumeration."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        zipfile.ZipFile(wheel).extractall(folder)
        major = wheel.name.split("-")[1].split(".")[0]
        (folder / "library.c").write_text(_LIBRARY)
        for library in ("nvinfer", "nvinfer_plugin", "nvonnxparser"):
            file = f"lib{library}.so.{major}"
            subprocess.run(
                ["cc", "-shared", "-fPIC", f"-Wl,-soname,{file}", "-o", folder / file, folder / "library.c"], check=True
            )
        environment = {**os.environ, "LD_LIBRARY_PATH": name, "PYTHONPATH": name}
        command = [sys.executable, "-c", _PROBE, ",".join(_CLASSES)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


if __name__ == "__main__":
    recorded: dict[str, Any] = {}
    for argument in sys.argv[1:]:
        recorded |= surface(Path(argument))
    lines = [
        f' "{version}": {{\n' + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in classes.items()) + "\n }"
        for version, classes in recorded.items()
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
