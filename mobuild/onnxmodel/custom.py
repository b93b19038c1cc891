"""Types of tensors that custom operators make, which only their library knows.

onnx's shape inference ends at an operator that it has never heard of, and behind it every type is unknown: nothing
there could be lowered or quantised. ONNX Runtime, with the library, knows the types, and the file can say them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed
from mobuild.onnxmodel.files import load, model_file, save_beside
from mobuild.onnxmodel.session import open_session


def typed(path: Path, scratch: Path, libraries: Sequence[Path]) -> Path:
    """The model at `path`, or a copy below `scratch` that declares the types of its custom operators' outputs.

    A model that ONNX Runtime does not load, even so, is left as it is.
    """
    model = load(path, external_data=False)
    names = _untyped(model)
    if not (libraries and names):
        return path
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        watched = Path(folder) / "watched.onnx"
        del model.graph.output[:]
        for name in names:
            model.graph.output.add(name=name)
        save_beside(model, model_file(path), watched)
        try:
            found = open_session(watched, libraries=libraries).get_outputs()
        except NodeFailed:
            return path
    model = load(path, external_data=False)
    model.graph.value_info.extend(filter(None, map(_declared, found)))
    save_beside(model, model_file(path), scratch / "typed")
    return model_file(scratch / "typed")


def _untyped(model: Any) -> list[str]:
    """Outputs of nodes of other domains than ONNX's, as far as the main graph does not say their types."""
    known = {each.name for each in (*model.graph.value_info, *model.graph.output)}
    own = {(each.domain, each.name) for each in model.functions}
    foreign = (node for node in model.graph.node if node.domain not in ("", "ai.onnx"))
    outputs = (name for node in foreign if (node.domain, node.op_type) not in own for name in node.output)
    return [name for name in dict.fromkeys(outputs) if name and name not in known]


def _declared(found: Any) -> Any:
    """A tensor of a session as the file would declare it, its type alone; None for what is no tensor."""
    import onnx

    inner = found.type[len("tensor(") : -1] if found.type.startswith("tensor(") else ""
    member = onnx.TensorProto.DataType.keys()
    name = inner.upper()
    if name not in member:
        return None
    return onnx.helper.make_tensor_value_info(found.name, onnx.TensorProto.DataType.Value(name), None)
