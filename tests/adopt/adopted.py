"""Lines adopted in a folder with small models, and read back as a line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper

from mobuild import onnxmodel
from mobuild.adopt.adopting import Adopted, adopt
from mobuild.adopt.place import Place
from mobuild.config.compose import hydra_for
from mobuild.config.entry import compose_job
from mobuild.config.overrides import complete, take_apart
from mobuild.config.project import find_project
from mobuild.job import Job


def detector(path: Path, images: tuple[Any, ...] = ("batch", 3, "h", "w")) -> Path:
    """y = relu(conv(images)), with a 1×1 convolution of three channels."""
    import numpy

    weights = numpy.linspace(-1, 1, 9, dtype=numpy.float32).reshape(3, 3, 1, 1)
    nodes = [helper.make_node("Conv", ["images", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, images) for name in ("images", "y")]
    return _saved(path, nodes, shapes[:1], shapes[1:], {"w": weights})


def constant(path: Path) -> Path:
    """y = 1, of no input."""
    import numpy

    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    one = {"one": numpy.ones(1, numpy.float32)}
    return _saved(path, [helper.make_node("Identity", ["one"], ["y"])], [], [output], one)


def encoder(path: Path) -> Path:
    """y = table[ids] · mask, ids and mask of shape (batch, sequence)."""
    import numpy

    table = numpy.linspace(-1, 1, 32, dtype=numpy.float32).reshape(8, 4)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["g"]),
        helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m", "last"], ["u"]),
        helper.make_node("Mul", ["g", "u"], ["y"]),
    ]
    axes = ["batch", "sequence"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, axes) for name in ("ids", "mask")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [*axes, 4])]
    return _saved(path, nodes, inputs, outputs, {"table": table, "last": numpy.array([2])})


def calibration_cache(path: Path, digits: str, *tensors: str) -> Path:
    rows = [f"{name}: 3c010a14" for name in tensors or ("images", "c", "y")]
    path.write_text("\n".join([f"TRT-{digits}-EntropyCalibration2", *rows, ""]))
    return path


def written(folder: Path, line: str, version: str = "", name: str = "") -> Adopted:
    """Adopt a line as `mobuild adopt` does, without the checks."""
    made = adopt([line], Place(folder, folder), version, name)
    for place, text in made.files.items():
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(text)
    return made


def job(folder: Path, *words: str) -> Job:
    project = find_project(folder)
    with hydra_for(project):
        return compose_job(complete(take_apart(words), project), project)


def told(folder: Path, made: Adopted, version: str, *words: str) -> str:
    """The line that `mobuild command engine` tells for a recipe."""
    node: Any = job(folder, f"recipe={made.name}", "backend=tensorrt", "hardware=l4", *words).graph.nodes["engine"].node
    model = next(folder.glob("*.onnx"))
    lines = node.command(onnxmodel.summary(model), str(model), "e.plan", version).splitlines()
    return next(each for each in lines if each.startswith("trtexec"))


def flags(line: str) -> dict[str, Any]:
    """The flags of a line by name, their values in one form, several profiles by their number."""
    found: dict[str, Any] = {}
    profile = ""
    for word in shlex.split(line)[1:]:
        name, _, value = word.partition("=")
        if name == "--profile":
            profile = f"#{value}"
        elif name == "--memPoolSize":
            found.update(
                {f"pool {pool}": _bytes(size) for pool, _, size in (p.partition(":") for p in value.split(","))}
            )
        elif name == "--workspace":
            found["pool workspace"] = _bytes(value)
        elif name.endswith("Shapes"):
            found[name + profile] = dict(part.replace("'", "").rsplit(":", 1) for part in value.split(","))
        elif name in ("--staticPlugins", "--plugins"):
            found["plugins"] = (*found.get("plugins", ()), value)
        elif name not in ("--onnx", "--saveEngine"):
            found[{"--vc": "--versionCompatible", "--buildOnly": "--skipInference"}.get(name, name)] = value
    return found


def _bytes(text: str) -> float:
    units = {"K": 10, "M": 20, "G": 30}
    unit = units.get(text[-1].upper())
    return float(text[:-1]) * (1 << unit) if unit else float(text) * (1 << 20)


def _saved(path: Path, nodes: Any, inputs: Any, outputs: Any, constants: dict[str, Any]) -> Path:
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path
