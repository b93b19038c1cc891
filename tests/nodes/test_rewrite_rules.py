"""Rules of kind `rewrite`: what exporters write and TensorRT-RTX refuses; and what needs no rule any more."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mobuild import onnxmodel, usercode
from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.errors import ConfigError
from mobuild.nodes.build_engine import BuildEngine
from mobuild.nodes.export import Export
from mobuild.nodes.rewrite import Rewrite

sys.path.insert(0, str(Path(__file__).parents[1] / "backends"))
from engine_nets import build

MASK = {"mask": {"shape": ["batch", 5, 8], "dtype": "bool"}}
value, node = helper.make_tensor_value_info, helper.make_node


@pytest.fixture(autouse=True)
def _networks_beside_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usercode, "folder", Path(__file__).parent)


def exported(out: Path, network: str, second: Any, **fields: Any) -> Path:
    pytest.importorskip("torch")
    inputs = {"x": ["batch", 5, 8], **second}
    Export(model=f"networks.py:{network}", inputs=inputs, outputs=["y"], **fields).build({}, out)
    return out


def plan(model: Path, out: Path) -> Any:
    return build(BuildEngine(TensorRTRTX("8.9"), {"batch": [1, 2, 4]}), model, out)


@pytest.mark.parametrize(("exporter", "opset"), [("dynamo", 20), ("torchscript", 17)])
def test_what_modern_exports_write_of_the_usual_suspects_needs_no_rule(
    tmp_path: Path, exporter: str, opset: int
) -> None:
    """repeat_interleave, masked_fill, tril, triu, index_put, attention, einsum: torch's numbers, and a plan."""
    model = exported(tmp_path / "m.onnx", "Usual", MASK, exporter=exporter, opset=opset)

    assert plan(model, tmp_path / "plan").error == ""


def test_scatters_that_add_and_masks_are_built_once_rewritten(tmp_path: Path) -> None:
    model = exported(tmp_path / "m.onnx", "Scattered", {"index": {"shape": [5], "dtype": "int64", "range": [0, 6]}})
    refused = plan(model, tmp_path / "no_plan")
    assert "reduction" in refused.message

    built = Rewrite(rules=("scatter_add", "masked_put")).build({"model": model}, tmp_path / "rewritten.onnx")

    assert built.measurements["rules"] == {"scatter_add": 3, "masked_put": 1}
    assert built.measurements["parity_max_abs"] < 1e-5
    assert not {"ScatterND", "ScatterElements", "NonZero"} & built.onnx["operators"].keys()
    assert plan(tmp_path / "rewritten.onnx", tmp_path / "plan").error == ""


def scatter(path: Path, operator: str, data: Any, indices: Any, updates: Any, **attributes: Any) -> Path:
    """One scatter into the input x, whose indices and updates are constants."""
    constants = {"i": np.asarray(indices, np.int64), "u": np.asarray(updates, data)}
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(data))
    shape = ["n", 4] if operator == "ScatterND" else [3, 4]
    graph = helper.make_graph(
        [node(operator, ["x", "i", "u"], ["y"], **attributes)],
        "g",
        [value("x", dtype, shape)],
        [value("y", dtype, shape)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.parametrize(
    ("operator", "indices", "updates", "axis"),
    [
        ("ScatterND", [[0], [-1], [0]], np.arange(12).reshape(3, 4), {}),
        ("ScatterND", [[0, 1], [1, -2], [0, 1]], [1, 2, 3], {}),
        ("ScatterND", [[[0], [1]], [[1], [1]]], np.arange(16).reshape(2, 2, 4), {}),
        ("ScatterElements", [[0, 1, 2, 2], [2, 2, 2, -1]], np.arange(8).reshape(2, 4), {"axis": 0}),
        ("ScatterElements", [[3], [0], [-1]], [[1], [2], [3]], {"axis": -1}),
    ],
)
def test_a_scatter_that_adds_is_a_product(tmp_path: Path, operator: str, indices: Any, updates: Any, axis: Any) -> None:
    model = scatter(tmp_path / "m.onnx", operator, np.float32, indices, updates, reduction="add", **axis)

    built = Rewrite(rules=("scatter_add",), sizes={"n": 3}).build({"model": model}, tmp_path / "out.onnx")

    assert built.measurements["rules"] == {"scatter_add": 1}
    assert operator not in built.onnx["operators"]


@pytest.mark.parametrize(
    ("data", "attributes"), [(np.float32, {}), (np.float32, {"reduction": "max"}), (np.int64, {"reduction": "add"})]
)
def test_what_a_rule_does_not_understand_stays_with_a_warning(tmp_path: Path, data: Any, attributes: Any) -> None:
    model = scatter(tmp_path / "m.onnx", "ScatterND", data, [[0]], np.ones((1, 4)), **attributes)

    built = Rewrite(rules=("scatter_add", "masked_put")).build({"model": model}, tmp_path / "out.onnx")

    assert built.onnx["operators"] == {"ScatterND": 1}
    assert built.warnings == [
        "rule 'scatter_add' found nothing to rewrite",
        "rule 'masked_put' found nothing to rewrite",
    ]


def test_updates_of_a_part_of_the_data_stay(tmp_path: Path) -> None:
    model = scatter(tmp_path / "m.onnx", "ScatterElements", np.float32, [[1, 1]], [[1, 2]], reduction="add", axis=0)

    built = Rewrite(rules=("scatter_add",)).build({"model": model}, tmp_path / "out.onnx")

    assert built.measurements["rules"] == {"scatter_add": 0}


def masked(path: Path, mask: list[Any], rest: list[int]) -> Path:
    """`x[mask] = 0` with x of shape (n, 4); `rest` are the axes of x that the places do not name."""
    graph = helper.make_graph(
        [
            node("NonZero", ["mask"], ["n"]),
            node("Transpose", ["n"], ["t"]),
            node("Shape", ["t"], ["s"], end=1),
            node("Concat", ["s", "rest"], ["shape"], axis=0),
            node("Expand", ["zero", "shape"], ["u"]),
            node("ScatterND", ["x", "t", "u"], ["y"]),
        ],
        "g",
        [value("x", TensorProto.FLOAT, ["n", 4]), value("mask", TensorProto.BOOL, mask)],
        [value("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(np.float32(0), "zero"), numpy_helper.from_array(np.array(rest, np.int64), "rest")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.parametrize(("mask", "rest"), [(["n"], [4]), ([1, 4], [])], ids=["of rows", "of the first row"])
def test_a_mask_of_another_shape_stays(tmp_path: Path, mask: list[Any], rest: list[int]) -> None:
    """Its places name rows and no elements, or Where would repeat it for every row."""
    model = masked(tmp_path / "m.onnx", mask, rest)

    built = Rewrite(rules=("masked_put",)).build({"model": model}, tmp_path / "out.onnx")

    assert "ScatterND" in built.onnx["operators"]
    assert onnxmodel.summary(tmp_path / "out.onnx")["dynamic_axes"] == ["n"]


def test_an_unknown_rule_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        Rewrite(rules=("scater_add",))

    assert caught.value.message == "rules: there is no rule 'scater_add'. Did you mean 'scatter_add'?"
