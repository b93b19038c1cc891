"""A small sentence encoder as ONNX, as exporters write one: attention with a mask, norms, mean pooling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, WORDS, LENGTH = 64, 4, 100, 64


def transformer(path: Path, layers: int = 2, opset: int = 20, mask: float = -1e9, epsilon: float = 1e-9) -> Path:
    """Inputs `input_ids` and `attention_mask` (batch, sequence), output `embedding` (batch, 64), of length 1.

    `mask` is added to hidden scores, `epsilon` is the least divisor of the mean.
    """
    net = _Net(opset)
    hidden = net.node("Add", [net.node("Gather", ["words", "input_ids"]), net.positions()])
    hidden = net.norm(hidden)
    bias = net.mask(mask)
    for i in range(layers):
        hidden = net.layer(hidden, bias, f"layer{i}")
    net.pool(hidden, epsilon)
    graph = helper.make_graph(net.nodes, "net", net.inputs(), net.outputs(), net.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), path)
    return path


def ranges(path: Path, count: int = 4) -> dict[str, tuple[float, float]]:
    """The lowest and highest value of each float tensor, over a few random sentences."""
    import onnxruntime

    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    values = {each.name: each for each in model.graph.value_info}
    outputs = {each.name for each in model.graph.output}
    model.graph.output.extend(
        value for name, value in values.items() if value.type.tensor_type.elem_type == 1 and name not in outputs
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found: dict[str, tuple[float, float]] = {}
    for seed in range(count):
        feeds = sentences(seed)
        for each, array in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            if array.dtype == numpy.float32:
                low, high = found.get(each.name, (0.0, 0.0))
                found[each.name] = (min(low, float(array.min())), max(high, float(array.max())))
    return found


def sentences(seed: int, batch: int = 8, length: int = 24) -> dict[str, Any]:
    random = numpy.random.default_rng(seed)
    lengths = random.integers(4, length + 1, (batch, 1))
    return {
        "input_ids": random.integers(0, WORDS, (batch, length)),
        "attention_mask": (numpy.arange(length) < lengths).astype(numpy.int64),
    }


class _Net:
    """Nodes and constants, written one after the other."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._random = numpy.random.default_rng(0)
        self.weight("words", WORDS, WIDTH)
        self.weight("places", LENGTH, WIDTH)

    def node(self, operator: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        output = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], name=f"/{output}", **attributes))
        return output

    def constant(self, value: Any, dtype: Any = numpy.float32) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.array(value, dtype), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        values = self._random.standard_normal(shape) / numpy.sqrt(shape[0] if name != "words" else 1)
        self.constants.append(numpy_helper.from_array(values.astype(numpy.float32), name))
        return name

    def linear(self, x: str, name: str, width: int = WIDTH, wide: int = WIDTH) -> str:
        product = self.node("MatMul", [x, self.weight(f"{name}.weight", width, wide)], name)
        return self.node("Add", [product, self.weight(f"{name}.bias", wide)])

    def positions(self) -> str:
        """Embeddings of 0, 1, …, up to the length of the input, as exporters write `arange(length)`."""
        length = self.node("Gather", [self.node("Shape", ["input_ids"]), self.constant(1, numpy.int64)])
        places = self.node("Range", [self.constant(0, numpy.int64), length, self.constant(1, numpy.int64)])
        return self.node("Gather", ["places", places])

    def mask(self, value: float) -> str:
        """(batch, 1, 1, sequence): 0 for words, `value` for padding."""
        wide = self.node("Unsqueeze", ["attention_mask", self.constant([1, 2], numpy.int64)])
        padding = self.node("Sub", [self.constant(1), self.node("Cast", [wide], to=TensorProto.FLOAT)])
        return self.node("Mul", [padding, self.constant(value)], "mask")

    def norm(self, x: str) -> str:
        one = self.constant(numpy.ones(WIDTH))
        return self.node("LayerNormalization", [x, one, self.constant(numpy.zeros(WIDTH))], axis=-1)

    def heads(self, x: str, order: tuple[int, ...]) -> str:
        shape = self.constant([0, 0, HEADS, WIDTH // HEADS], numpy.int64)
        return self.node("Transpose", [self.node("Reshape", [x, shape])], perm=order)

    def layer(self, x: str, bias: str, name: str) -> str:
        query = self.heads(self.linear(x, f"{name}.query"), (0, 2, 1, 3))
        turned = self.heads(self.linear(x, f"{name}.key"), (0, 2, 3, 1))
        value = self.heads(self.linear(x, f"{name}.value"), (0, 2, 1, 3))
        scores = self.node("Mul", [self.node("MatMul", [query, turned], f"{name}.scores"), self.constant(0.25)])
        weights = self.node("Softmax", [self.node("Add", [scores, bias])], axis=-1)
        mixed = self.node("Transpose", [self.node("MatMul", [weights, value], f"{name}.mix")], perm=(0, 2, 1, 3))
        flat = self.node("Reshape", [mixed, self.constant([0, 0, WIDTH], numpy.int64)])
        x = self.norm(self.node("Add", [x, self.linear(flat, f"{name}.out")]))
        inner = self.node("Gelu", [self.linear(x, f"{name}.up", WIDTH, 4 * WIDTH)]) if self.opset >= 20 else ""
        inner = inner or self.node("Relu", [self.linear(x, f"{name}.up", WIDTH, 4 * WIDTH)])
        return self.norm(self.node("Add", [x, self.linear(inner, f"{name}.down", 4 * WIDTH, WIDTH)]))

    def pool(self, x: str, epsilon: float) -> None:
        """The mean over words, brought to length 1."""
        last = self.constant([-1], numpy.int64)
        mask = self.node("Cast", [self.node("Unsqueeze", ["attention_mask", last])], to=TensorProto.FLOAT)
        middle = self.constant([1], numpy.int64)
        total = self.node("ReduceSum", [self.node("Mul", [x, mask]), middle], keepdims=0)
        count = self.node("Clip", [self.node("ReduceSum", [mask, middle], keepdims=0), self.constant(epsilon)], "count")
        mean = self.node("Div", [total, count], "mean")
        squares = self.node("ReduceSum", [self.node("Mul", [mean, mean]), last], keepdims=1)
        length = self.node("Sqrt", [squares])
        self.node("Div", [mean, self.node("Clip", [length, self.constant(1e-12)], "length")], "embedding")

    @staticmethod
    def inputs() -> list[Any]:
        shape = ["batch", "sequence"]
        return [
            helper.make_tensor_value_info(each, TensorProto.INT64, shape) for each in ("input_ids", "attention_mask")
        ]

    @staticmethod
    def outputs() -> list[Any]:
        return [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])]
