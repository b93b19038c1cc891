"""Kind `rewrite`: the user's changes to a graph stay when they do not show, and are refused by name when they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mobuild import usercode
from mobuild.errors import ConfigError, NodeFailed
from mobuild.nodes.rewrite import Rewrite

HOOKS = '''\
from pathlib import Path

import onnx
import onnx_graphsurgeon as surgeon
from onnxscript.rewriter import pattern, rewrite


def merged(model):
    """Add(x, x) as Mul(x, 2), in place."""
    (node,) = model.graph.node
    model.graph.initializer.append(onnx.numpy_helper.from_array(__import__("numpy").float32(2), "two"))
    node.op_type, node.input[1] = "Mul", "two"


def surgeons(model):
    graph = surgeon.import_onnx(model)
    graph.nodes[0].name = "doubled"
    return surgeon.export_onnx(graph.cleanup())


def by_rule(model):
    rule = pattern.RewriteRule(lambda op, x: op.Add(x, x), lambda op, x: op.Sum(x, x))
    return rewrite(model, pattern_rewrite_rules=[rule])


def wrong(model):
    model.graph.node[0].op_type = "Mul"


def renamed(model):
    model.graph.output[0].name = model.graph.node[0].output[0] = "z"


def frozen(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2


def nothing(model):
    return model.graph


def failing(model):
    raise ValueError("no such layer")


def told(model, table):
    model.graph.node[0].name = Path(table).read_text()
'''


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """y = x + x; the hooks lie beside it."""
    (tmp_path / "hooks.py").write_text(HOOKS)
    monkeypatch.setattr(usercode, "folder", tmp_path)
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 3])], [value("y", TensorProto.FLOAT, ["n", 3])]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"], name="add")], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    model.metadata_props.add(key="mobuild.range.x", value="0.0,1.0")
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def rewritten(model: Path, hook: str, **inputs: Path) -> Any:
    return Rewrite(hook=f"hooks.py:{hook}").build({"model": model, **inputs}, model.with_name("out.onnx"))


@pytest.mark.parametrize(("hook", "operator"), [("merged", "Mul"), ("surgeons", "Add"), ("by_rule", "Sum")])
def test_a_change_that_does_not_show_stays(model: Path, hook: str, operator: str) -> None:
    built = rewritten(model, hook)

    assert built.onnx["operators"] == {operator: 1}
    assert built.measurements["parity_max_abs"] == 0.0
    assert built.onnx["ranges"] == {"x": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("wrong", "the model differs from that before: output 'y': expected "),
        ("renamed", "the outputs changed from [('y', 'float32')] to [('z', 'float32')]"),
        ("frozen", "axis 'n' of input 'x' became 2"),
        ("nothing", "expected an onnx.ModelProto or nothing, found GraphProto"),
    ],
)
def test_a_change_that_shows_is_refused(model: Path, hook: str, message: str) -> None:
    with pytest.raises(NodeFailed) as caught:
        rewritten(model, hook)

    assert caught.value.message.startswith(f"hook 'hooks.py:{hook}': {message}")


def test_a_hook_that_raises_is_named_with_its_line(model: Path) -> None:
    with pytest.raises(NodeFailed) as caught:
        rewritten(model, "failing")

    line = 1 + HOOKS.splitlines().index('    raise ValueError("no such layer")')
    assert caught.value.message.startswith("hook 'hooks.py:failing' raises at ")
    assert caught.value.message.endswith(f"hooks.py:{line} in failing: ValueError: no such layer")
    assert caught.value.hint.startswith("it is called as hook(model: onnx.ModelProto)")


def test_a_hook_gets_the_needs_that_it_names(model: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("doubled")

    rewritten(model, "told", table=tmp_path / "names.txt")

    assert onnx.load(model.with_name("out.onnx")).graph.node[0].name == "doubled"


def test_a_model_that_cannot_run_is_rewritten_with_a_warning(model: Path) -> None:
    loaded = onnx.load(model)
    loaded.graph.node[0].op_type = "Frobnicate"
    onnx.save(loaded, model)
    (model.parent / "hooks.py").write_text("def mended(model):\n    model.graph.node[0].op_type = 'Add'\n")

    built = rewritten(model, "mended")

    assert built.onnx["operators"] == {"Add": 1}
    assert built.warnings[0].startswith("what it computes is not compared: ")


def test_external_data_stays_beside_the_model(model: Path, tmp_path: Path) -> None:
    big = onnx.load(model)
    big.graph.initializer.append(numpy_helper.from_array(np.ones(4096, np.float32), "unused"))
    folder = tmp_path / "big"
    folder.mkdir()
    onnx.save_model(big, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")

    built = rewritten(folder, "surgeons")

    assert built.onnx["operators"] == {"Add": 1}


def test_a_rewriting_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Rewrite()

    assert caught.value.message == "expected rules or a hook, found neither"
