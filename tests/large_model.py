"""Sanitize a model of more than 2 GiB, by hand: `python tests/large_model.py FOLDER`.

Needs 6 GB of memory and 12 GB of disk for a minute, which is why it is no part of the suite.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from onnx import TensorProto, helper

from mobuild import onnxmodel
from mobuild.nodes.sanitize import Sanitize

ROWS, COLUMNS = 270_000, 1024


def tensor(name: str) -> TensorProto:
    made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS])
    made.raw_data = b"\0" * (ROWS * COLUMNS * 4)
    return made


def write(out: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["w0", "i"], ["a"]),
        helper.make_node("Gather", ["w1", "i"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Identity", ["c"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", COLUMNS])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [tensor("w0"), tensor("w1")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnxmodel.save(model, out)


def main(folder: Path) -> None:
    write(folder / "large")
    start = time.monotonic()
    built = Sanitize().build({"model": folder / "large"}, folder / "sanitized")
    seconds = time.monotonic() - start
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{seconds:.0f} s, peak {peak_mib} MiB here", built.measurements, built.warnings, built.onnx["nodes"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as made:
        main(Path(made))
