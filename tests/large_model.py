"""Take a random model of 3 GB to an engine, by hand: `python tests/large_model.py FOLDER`.

Needs 10 GB of memory and 25 GB of disk for some minutes, which is why it is no part of the suite.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data

ROWS, COLUMNS, STEP = 375_000, 1024, 25_000
NAMES = ("w0", "w1")


def write(folder: Path) -> None:
    """Two tables of random weights, an input that picks rows of both, and a node that sanitizing removes."""
    bytes_each = ROWS * COLUMNS * 4
    random = np.random.default_rng(0)
    with (folder / "large.data").open("wb") as stream:
        for _ in range(len(NAMES) * ROWS // STEP):
            stream.write(random.standard_normal((STEP, COLUMNS), dtype=np.float32).tobytes())
    tables = []
    for number, name in enumerate(NAMES):
        table = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS], raw_data=b"")
        set_external_data(table, "large.data", number * bytes_each, bytes_each)
        table.ClearField("raw_data")
        tables.append(table)
    nodes = [
        helper.make_node("Gather", ["w0", "i"], ["a"]),
        helper.make_node("Gather", ["w1", "i"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Identity", ["c"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", COLUMNS])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "large.onnx")


def main(folder: Path) -> None:
    write(folder)
    words = ["target=[sanitized,engine]", "model=large.onnx", "shapes.n=[1,4,16]"]
    for _ in range(2):
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "mobuild", *words], cwd=folder, check=True)
        print(f"{time.monotonic() - begun:.1f} s in all")
    for path in sorted(folder.glob("build/large/*/*.json")):
        found = json.loads(path.read_bytes())
        if "seconds" in found and "peak_rss_mib" in found:
            print(f"{path.name}: {found['seconds']:.0f} s, peak {found['peak_rss_mib']:.0f} MiB", found["warnings"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as made:
        main(Path(made))
