"""Rules for what exporters write and TensorRT's parsers refuse; each leaves the numbers as they were.

torch 2.13 writes most of the usual suspects (`repeat_interleave`, `masked_fill`, `tril`, `triu`, attention, `index_put`
by numbers) as every builder takes them, so there are no rules for those. These remain:

- `scatter_add`: ScatterND and ScatterElements that add (`index_add`, `scatter_add`, `index_put(accumulate=True)`), as a
  product with a matrix of zeros and ones. That costs memory: rows times updates.
- `masked_put`: an assignment by mask (`x[mask] = 0`), which becomes NonZero and ScatterND, as Where.

A rule leaves alone what it does not fully understand: other types than floats, shapes that the graph does not say.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from mobuild.nodes.rewrite.writing import Writer, attribute, drop_unused, int_list

_FLOATS = (1, 10, 11, 16)  # onnx.TensorProto.FLOAT, FLOAT16, DOUBLE, BFLOAT16
_FIRST_OPSET = 13  # the first whose Squeeze, Unsqueeze and ReduceSum take their axes as inputs
_ALIKE = ("Expand", "Reshape", "Unsqueeze", "Squeeze", "Identity")

Rule = Callable[[Any, Writer], bool]


def apply(model: Any, names: Iterable[str]) -> dict[str, int]:
    """Apply the rules to the main graph of `model`, in place; how many nodes each of them replaced."""
    opset = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
    found = dict.fromkeys(names, 0)
    for name in found if opset >= _FIRST_OPSET else ():
        types = Writer.types_of(model)
        nodes = list(model.graph.node)
        del model.graph.node[:]
        writer = Writer(model.graph, types, {each: node for node in nodes for each in node.output})
        for node in nodes:
            if RULES[name](node, writer):
                found[name] += 1
            else:
                model.graph.node.append(node)
        drop_unused(model.graph)
    return found


def masked_put(node: Any, write: Writer) -> bool:
    """ScatterND(x, Transpose(NonZero(mask)), one value for all) as Where(mask, value, x)."""
    if node.op_type != "ScatterND" or attribute(node, "reduction", b"none") != b"none":
        return False
    data, indices, updates = node.input
    places = write.made.get(indices)
    if places is None or places.op_type != "Transpose" or int_list(places, "perm", [1, 0]) != [1, 0]:
        return False
    nonzero = write.made.get(places.input[0])
    if nonzero is None or nonzero.op_type != "NonZero":
        return False
    mask, value = nonzero.input[0], write.single(updates, _ALIKE)
    if not value or not _may_be_one_shape(write.shape(mask), write.shape(data)):
        return False
    if write.dtype(mask) != 9:  # onnx.TensorProto.BOOL
        mask = write("Cast", [mask], to=9)
    write("Where", [mask, write("Reshape", [value, write.ints([1])]), data], node.output[0])
    return True


def _may_be_one_shape(mask: Any, data: Any) -> bool:
    """Whether no axis is known to differ. Where would repeat the one that is 1, and ScatterND does not."""
    if mask is None or data is None or len(mask) != len(data):
        return False
    return all(
        a == b or (1 not in (a, b) and not (isinstance(a, int) and isinstance(b, int))) for a, b in zip(mask, data)
    )


def scatter_add(node: Any, write: Writer) -> bool:
    """A scatter that adds, as data + (what falls where) · updates."""
    if attribute(node, "reduction", b"none") != b"add" or write.dtype(node.input[0]) not in _FLOATS:
        return False
    if node.op_type == "ScatterND":
        return _scatter_nd(node, write)
    return node.op_type == "ScatterElements" and _scatter_elements(node, write)


RULES: Mapping[str, Rule] = {"scatter_add": scatter_add, "masked_put": masked_put}


def _scatter_nd(node: Any, write: Writer) -> bool:
    data, indices, updates = node.input
    shape = write.shape(indices)
    depth = shape[-1] if shape else None
    if not isinstance(depth, int):
        return False
    sizes = write("Shape", [data])
    flat = write("Reshape", [indices, write.ints([-1, depth])])
    row: str | None = None
    count: str | None = None
    for i in range(depth):  # the row of each update, were the indexed axes one
        size = write("Gather", [sizes, write.int(i)])
        index = _from_the_front(write("Gather", [flat, write.int(i)], axis=1), size, write)
        row = index if row is None else write("Add", [write("Mul", [row, size]), index])
        count = size if count is None else write("Mul", [count, size])
    assert row and count
    rows = write("Range", [write.int(0), count, write.int(1)])
    hits = write("Equal", [write("Unsqueeze", [rows, write.ints([1])]), write("Unsqueeze", [row, write.ints([0])])])
    matrix = write("Cast", [hits], to=write.dtype(data))
    number = write("Shape", [row])
    table = write("Reshape", [updates, write("Concat", [number, write.ints([-1])], axis=0)])
    added = write("Reshape", [write("MatMul", [matrix, table]), sizes])
    write("Add", [data, added], node.output[0])
    return True


def _scatter_elements(node: Any, write: Writer) -> bool:
    data, indices, updates = node.input
    shapes = write.shape(data), write.shape(indices)
    if not shapes[0] or not shapes[1] or len(shapes[0]) != len(shapes[1]):
        return False
    rank = len(shapes[0])
    axis = attribute(node, "axis", 0) % rank
    others = [i for i in range(rank) if i != axis]
    if any(shapes[0][i] is None or shapes[0][i] != shapes[1][i] for i in others):
        return False  # updates of a part of the data
    size = write("Gather", [write("Shape", [data]), write.int(axis)])
    index = _from_the_front(indices, size, write)
    rows = write("Range", [write.int(0), size, write.int(1)])
    hits = write("Equal", [write("Unsqueeze", [index, write.ints([rank])]), rows])
    matrix = write("Cast", [hits], to=write.dtype(data))
    each = write("Mul", [matrix, write("Unsqueeze", [updates, write.ints([rank])])])
    added = write("ReduceSum", [each, write.ints([axis])], keepdims=0)  # the others in their order, then the rows
    added = write("Transpose", [added], perm=[*range(axis), rank - 1, *range(axis, rank - 1)])
    write("Add", [data, added], node.output[0])
    return True


def _from_the_front(index: str, size: str, write: Writer) -> str:
    """The index with what counts from the end, below 0, counted from the front."""
    index = write("Cast", [index], to=7)  # onnx.TensorProto.INT64, the type of sizes
    return write("Where", [write("Less", [index, write.int(0)]), write("Add", [index, size]), index])
