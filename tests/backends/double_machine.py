"""A machine with one card and one TensorRT: the bindings are doubles, and so is the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine_nets
import fake_gpu

from mobuild.backends.tensorrt import TensorRT
from mobuild.node import encode

TEN, ELEVEN = "10.16.1.11", "11.4.0.106"
PROFILE = {"x": [[1, 16], [4, 16], [8, 16]]}
DOUBLES = Path(__file__).parent / "doubles"
_CHILD = """
import json, sys
from pathlib import Path
from mobuild import scratch
from mobuild.backend import Profile
from mobuild.errors import MobuildError
from mobuild.node import decode
request = json.loads(sys.argv[1])
scratch.folder = Path(request["scratch"])
node = decode(request["node"])
inputs = {role: Path(path) for role, path in request["inputs"].items()}
profiles = [
    Profile({name: tuple(map(tuple, corners)) for name, corners in each.items()}, request["contents"])
    for each in request["profiles"]
]
try:
    built = node.placed(inputs).build(inputs["model"], profiles, request["precision"], Path(request["out"]))
    print("ANSWER" + json.dumps({"measurements": dict(built.measurements), "warnings": list(built.warnings)}))
except MobuildError as error:
    print("ANSWER" + json.dumps({"error": type(error).__name__, "message": error.message, "hint": error.hint}))
"""


@dataclass(frozen=True)
class Machine:
    """A machine with one card and one TensorRT, and what it remembers."""

    folder: Path
    driver: Path

    def build(
        self,
        backend: TensorRT,
        version: str = TEN,
        gpu: Mapping[str, str] | None = None,
        precision: str = "fp32",
        inputs: Mapping[str, Path] | None = None,
        profiles: Any = (PROFILE,),
        contents: Any = None,
        **environment: str,
    ) -> dict[str, Any]:
        """The plan that was built beside what was measured, or the error."""
        model = self.folder / "m.onnx"
        if not model.exists():
            engine_nets.linear(model)
        request = {
            "node": encode(backend),
            "inputs": {"model": str(model), **{role: str(path) for role, path in (inputs or {}).items()}},
            "profiles": list(profiles),
            "contents": contents or {},
            "precision": precision,
            "out": str(self.folder / "out"),
            "scratch": str(self.folder / "scratch"),
        }
        card = fake_gpu.L4 if gpu is None else gpu
        variables = {**self.variables(version, card), **environment}
        command = [sys.executable, "-c", _CHILD, json.dumps(request)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout.rpartition("ANSWER")[2])
        plan = {} if "error" in answer else json.loads((self.folder / "out").read_text())
        return {"log": done.stderr, "plan": plan, **answer}

    def python(self, code: str, version: str, *words: str) -> str:
        """What a Python program prints on the machine."""
        command = [sys.executable, "-c", code, *words]
        variables = self.variables(version, fake_gpu.L4)
        done = subprocess.run(command, env=variables, cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout

    def variables(self, version: str, card: Mapping[str, str]) -> dict[str, str]:
        own = {"LD_LIBRARY_PATH": str(self.driver), **card} if card else {}
        path = os.pathsep.join([str(DOUBLES), *sys.path])
        return {**os.environ, "PYTHONPATH": path, "DOUBLE_TENSORRT": version, **own}

    def slots(self) -> list[Path]:
        return sorted(path for path in (self.folder / "scratch").iterdir() if not path.name.endswith(".lock"))


def l4(**options: Any) -> TensorRT:
    return TensorRT("8.9", "l4", 58, 24, **options)
