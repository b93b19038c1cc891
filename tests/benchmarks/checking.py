"""What `check` of an ONNX file of 100 MB takes beyond reading it, beside one of a few kilobytes.

    python tests/benchmarks/checking.py [ROUNDS]

Medians of interleaved runs. Reading is `onnx.load` in a process of its own. Works in a temporary project and cache.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from measures import Row, medians, show, surroundings
from onnx import TensorProto, helper, numpy_helper

NODES = 1000
BIG, SMALL, READ, IMPORT = "check, 100 MB", "check, a few kB", "onnx.load, 100 MB", "import onnx"


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "project")
        folder.mkdir()
        _save(folder / "big.onnx", 160)  # 1000 matrices of 160 × 160
        _save(folder / "small.onnx", 1)
        mobuild = [str(Path(sys.executable).with_name("mobuild")), "check", "hardware=l4", "shapes.n=[1,4,8]"]
        commands = {
            IMPORT: [sys.executable, "-c", "import onnx"],
            READ: [sys.executable, "-c", "import onnx; onnx.load('big.onnx')"],
            SMALL: [*mobuild, "model=small.onnx"],
            BIG: [*mobuild, "model=big.onnx"],
        }
        environment = surroundings(place)
        medians(commands, 1, folder, environment)  # which leaves byte code and the pages of the file
        took = medians(commands, rounds, folder, environment)
    reading = took[READ] - took[IMPORT]
    rows = [Row(name, value, "CPU s") for name, value in took.items()]
    beyond = took[BIG] - took[SMALL] - reading
    show([*rows, Row("of that, the file beyond reading it", beyond, "CPU s", aim="0.3 CPU s")])


def _save(path: Path, width: int) -> None:
    """A chain of a thousand matrix products."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal((width, width), np.float32), f"w{i}") for i in range(NODES)
    ]
    nodes = [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], name=f"product{i}") for i in range(NODES)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name in ("h0", f"h{NODES}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
