"""What mobuild adds to the work of a node that is built: deciding, staging, a process, publishing, recording.

    python tests/benchmarks/overhead.py [N]

Wall seconds of each step less those of its `build`, by run.json and the sidecars: medians over N nodes of a kind of
mobuild's own, which share a warm process, over N more of them that take turns with others, and over those N that each
get a process of their own. One node at a time.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

import onnx
from measures import Row, cpu_seconds, show, surroundings


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, environment = Path(place, "project"), surroundings(place)
        _project(folder, 2 * count + 1)
        mobuild = [str(Path(sys.executable).with_name("mobuild")), "executor.slots=1"]
        cpu_seconds([*mobuild, "target=[half0,copy0]"], folder, environment)  # byte code, and what is compiled once

        def build(names: list[str]) -> tuple[list[float], float]:
            """Seconds that mobuild added to each node, and the CPU seconds of all."""
            took = cpu_seconds([*mobuild, f"target=[{','.join(names)}]"], folder, environment)
            return [_added(folder / "build/small/cpu", name) for name in names], took

        warm, took = build([f"half{i}" for i in range(1, count + 1)])
        mixed, _ = build([f"{name}{i}" for i in range(count + 1, 2 * count + 1) for name in ("half", "copy")])
    turns, own = mixed[::2], mixed[1::2]
    show(
        [
            Row("a kind of mobuild's own, in a warm process", 1000 * statistics.median(warm), "ms", None, "3 ms"),
            Row("the same, by turns with the last row", 1000 * statistics.median(turns), "ms"),
            Row("the first of them, which starts the process", max(warm), "s"),
            Row(f"the first {count}, their work included", took, "CPU s"),
            Row("a node with a process of its own", statistics.median(own), "s", None, "0.3 s plus imports"),
        ]
    )


def _project(folder: Path, count: int) -> None:
    """A project with that many nodes of both sorts, none of which takes long."""
    (folder / "recipes").mkdir(parents=True)
    (folder / "text.txt").write_text("one\n")
    lines = ["  text: {kind: source, uri: text.txt}"]
    for i in range(count):
        onnx.save(_model(i), folder / f"{i}.onnx")
        lines += [
            f"  model{i}: {{kind: source, uri: {i}.onnx}}",
            f"  half{i}: {{kind: quantize, precision: fp16, rest: fp32, needs: {{model: model{i}}}}}",
            f'  copy{i}: {{kind: command, cmd: "cp {{in.text}} {{out}}", env: {{N: "{i}"}}, in: {{text: text}}}}',
        ]
    (folder / "recipes" / "small.yaml").write_text("# @package _global_\nnodes:\n" + "\n".join(lines) + "\n")


def _model(number: int) -> onnx.ModelProto:
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    x, y = (helper.make_tensor_value_info(name, float32, ["n", 4]) for name in "xy")
    factor = helper.make_tensor("factor", float32, [4], [float(number)] * 4)
    graph = helper.make_graph([helper.make_node("Mul", ["x", "factor"], ["y"])], "small", [x], [y], [factor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _added(folder: Path, name: str) -> float:
    whole = json.loads((folder / "run.json").read_text())["nodes"][name]
    (sidecar,) = (path for path in folder.glob(f"{name}*.json") if path.name.split(".")[0] == name)
    assert whole["state"] == "built", name
    return float(whole["seconds"] - json.loads(sidecar.read_text())["seconds"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
