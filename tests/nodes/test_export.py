"""Kind `export`: the file is what the recipe asked for and computes what torch computes."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import onnx
import torch

from mobuild import onnxmodel, usercode
from mobuild.errors import ConfigError, MobuildError
from mobuild.nodes.export import Export
from tests.nodes.exporting import HERE, export

BOTH = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
TOKENS = {"shape": ["batch", "sequence"], "dtype": "int64", "range": [0, 49]}


@pytest.fixture(autouse=True)
def _networks_beside_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usercode, "folder", HERE)


@BOTH
def test_file_has_asked_names_axes_and_opset(tmp_path: Path, exporter: str) -> None:
    built = export(tmp_path / "m.onnx", "Linear", {"x": ["batch", 4]}, outputs=["y"], exporter=exporter, opset=18)

    assert built.onnx["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
    assert built.onnx["outputs"] == [{"name": "y", "dtype": "float32", "shape": ["batch", 4]}]
    assert built.onnx["opsets"]["ai.onnx"] == 18
    assert built.measurements["parity_max_abs"] < 1e-5
    assert built.measurements["proven_sizes"] == [{"batch": 2}, {"batch": 4}, {"batch": 34}]


@BOTH
@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["a", "a", "c"], "output name 'a' is also the name of another output"),
        (["a", "b", "x"], "output name 'x' is also the name of an input"),
    ],
)
def test_repeated_name_is_refused(tmp_path: Path, exporter: str, outputs: list[str], message: str) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Three", {"x": ["batch", 4]}, outputs=outputs, exporter=exporter)

    assert caught.value.message == message
    assert caught.value.status == 1


@BOTH
def test_one_tensor_returned_twice_keeps_asked_names(tmp_path: Path, exporter: str) -> None:
    built = export(tmp_path / "m.onnx", "Three", {"x": ["batch", 4]}, outputs=["a", "b", "c"], exporter=exporter)

    assert [each["name"] for each in built.onnx["outputs"]] == ["a", "b", "c"]


@BOTH
@pytest.mark.parametrize(("given", "output"), [("x", "linear"), ("linear", "y"), ("x", "val_0")])
def test_name_of_a_tensor_inside_may_be_asked(tmp_path: Path, exporter: str, given: str, output: str) -> None:
    """The dynamo exporter calls the inner tensors after their operators: `linear`, `linear_1`."""
    built = export(tmp_path / "m.onnx", "Twice", {given: ["batch", 4]}, outputs=[output], exporter=exporter)

    assert [each["name"] for each in (*built.onnx["inputs"], *built.onnx["outputs"])] == [given, output]


def test_wrong_number_of_output_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Three", {"x": ["batch", 4]}, outputs=["a"])

    assert caught.value.message == (
        "outputs: 1 asked, but the network returns 3 tensors of shapes [2, 4], [2, 4], [2, 4]"
    )


def test_batch_baked_by_torchscript_names_axis_and_node(tmp_path: Path) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "BakedBatch", {"x": ["batch", 3, 4]}, exporter="torchscript")

    assert "axis 'batch' is dynamic in name only; at batch=4" in caught.value.message
    assert "in node '/Reshape'" in caught.value.message


def test_python_int_of_a_shape_is_no_fault_in_dynamo(tmp_path: Path) -> None:
    built = export(tmp_path / "m.onnx", "BakedBatch", {"x": ["batch", 3, 4]})

    assert built.onnx["dynamic_axes"] == ["batch"]


@BOTH
def test_branch_on_data_names_file_and_line(tmp_path: Path, exporter: str) -> None:
    line = 1 + (HERE / "networks.py").read_text().splitlines().index("        if x.sum() > 0:")

    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Branch", {"x": ["n"]}, exporter=exporter)

    assert f"networks.py:{line} in forward: `if x.sum() > 0:` branches on the data" in caught.value.message
    assert "\x1b" not in "".join(traceback.format_exception(caught.value))


@BOTH
def test_branch_on_a_shape_is_no_fault(tmp_path: Path, exporter: str) -> None:
    built = export(tmp_path / "m.onnx", "BranchOnShape", {"x": ["batch", 4]}, exporter=exporter)

    assert built.onnx["dynamic_axes"] == ["batch"]


@BOTH
def test_branch_on_a_size_that_examples_do_not_reach_names_the_axis(tmp_path: Path, exporter: str) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "BranchOnSize", {"x": ["batch", 8]}, exporter=exporter)

    assert caught.value.message.startswith("axis 'batch' is dynamic in name only; at batch=34: output 'output' ")


@BOTH
def test_axis_with_an_end_stays_within_it_and_the_others_grow(tmp_path: Path, exporter: str) -> None:
    built = export(tmp_path / "m.onnx", "Positions", {"ids": TOKENS}, exporter=exporter)

    assert built.measurements["proven_sizes"][-1] == {"batch": 34, "sequence": 3}


@BOTH
def test_large_case_that_fails_names_all_axes_that_grew(tmp_path: Path, exporter: str) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "BranchOnSize", {"x": ["batch", "width"]}, exporter=exporter)

    assert caught.value.message.startswith(
        "axes 'batch', 'width' are dynamic in name only; at batch=34, width=35: output 'output' "
    )


def test_axes_that_would_make_inputs_too_large_do_not_grow(tmp_path: Path) -> None:
    built = export(tmp_path / "m.onnx", "Linear", {"x": ["batch", "length", 4]}, sizes={"length": 1 << 16})

    assert built.measurements["proven_sizes"][-1] == {"batch": 2, "length": (1 << 16) + 32}


def test_opset_that_dynamo_misses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Normed", {"x": ["batch", 3, "h", "w"]}, opset=17)

    assert caught.value.message == "asked for opset 17, got 18: the dynamo exporter does not meet it"
    assert caught.value.hint == "exporter: torchscript meets opset 17; or ask for opset: 18"


@BOTH
def test_opset_that_no_exporter_meets_says_which_are_met(tmp_path: Path, exporter: str) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Linear", {"x": ["batch", 4]}, opset=99, exporter=exporter)

    assert caught.value.message.startswith("asked for opset 99")
    assert caught.value.message.endswith(f": the {exporter} exporter does not meet it")
    newest = onnx.defs.onnx_opset_version()
    assert caught.value.hint == f"dynamo meets 18 to {newest}, torchscript 7 to 20"


@BOTH
def test_raw_argument_that_torch_does_not_take_is_named(tmp_path: Path, exporter: str) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Linear", {"x": ["batch", 4]}, raw={"optimise": True}, exporter=exporter)

    assert caught.value.message == ("raw: 'optimise' is no argument of torch.onnx.export. Did you mean 'optimize'?")
    assert caught.value.hint.startswith("arguments: model, args, f, ")


def test_that_opset_is_met_by_torchscript(tmp_path: Path) -> None:
    built = export(tmp_path / "m.onnx", "Normed", {"x": ["batch", 3, "h", "w"]}, opset=17, exporter="torchscript")

    assert built.onnx["opsets"]["ai.onnx"] == 17


def test_input_dropped_by_torchscript_is_refused(tmp_path: Path) -> None:
    inputs = {"input_ids": TOKENS, "token_type_ids": TOKENS, "attention_mask": {**TOKENS, "range": [0, 1]}}

    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Encoder", inputs, exporter="torchscript")

    assert caught.value.message.startswith("input 'token_type_ids' is not in the file")
    assert "droppable: [token_type_ids]" in caught.value.hint


@pytest.mark.parametrize(
    ("exporter", "droppable", "kept"),
    [
        ("dynamo", (), ["input_ids", "token_type_ids", "attention_mask"]),
        ("torchscript", ("token_type_ids",), ["input_ids", "attention_mask"]),
    ],
)
def test_unused_input_is_kept_or_dropped_as_declared(
    tmp_path: Path, exporter: str, droppable: tuple[str, ...], kept: list[str]
) -> None:
    inputs = {"input_ids": TOKENS, "token_type_ids": TOKENS, "attention_mask": {**TOKENS, "range": [0, 1]}}

    built = export(tmp_path / "m.onnx", "Encoder", inputs, exporter=exporter, droppable=droppable)

    assert [each["name"] for each in built.onnx["inputs"]] == kept
    assert built.onnx["ranges"]["input_ids"] == [0, 49]


@BOTH
def test_train_mode_exports_as_evaluation(tmp_path: Path, exporter: str) -> None:
    """exp-train-mode, with both exporters; a control."""
    images = {"x": ["batch", 3, 8, 8]}
    export(tmp_path / "train.onnx", "dropped_mode", images, exporter=exporter)
    export(tmp_path / "eval.onnx", "Normed", images, exporter=exporter)

    assert (tmp_path / "train.onnx").read_bytes() == (tmp_path / "eval.onnx").read_bytes()


@BOTH
def test_folder_and_comment_leave_bytes_equal(tmp_path: Path, exporter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (HERE / "networks.py").read_text()
    for name, text in (("checkout_a", source), ("other_place_b", "# one comment\n# more\n" + source)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "networks.py").write_text(text)
        monkeypatch.setattr(usercode, "folder", folder)
        export(folder / "m.onnx", "Linear", {"x": ["batch", 4]}, exporter=exporter)

    first = (tmp_path / "checkout_a" / "m.onnx").read_bytes()
    assert first == (tmp_path / "other_place_b" / "m.onnx").read_bytes()
    assert b"checkout_a" not in first
    assert b"networks.py" not in first


def test_network_with_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MobuildError, match="the network answers differently when asked twice at batch=2"):
        export(tmp_path / "m.onnx", "Counting", {"x": ["batch", 4]})


def test_a_parameter_among_the_outputs_is_exported(tmp_path: Path) -> None:
    built = export(tmp_path / "m.onnx", "WithAnchors", {"x": ["batch", 4]}, outputs=["y", "anchors"])

    assert built.measurements["parity_max_abs"] == 0


def test_an_output_that_is_no_plain_tensor_is_named(tmp_path: Path) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "InBfloat16", {"x": ["batch", 4]})

    assert "output 0 of the network is bfloat16, torch.strided, which no ONNX file can be" in caught.value.message


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    weights = tmp_path / "other.pt"
    torch.save({"layer.weight": torch.zeros(4, 5), "head.bias": torch.zeros(1)}, weights)

    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "fits", {"x": ["batch", 4]}, weights)

    assert caught.value.message == ("loader 'networks.py:fits': the weights 'other.pt' do not fit the network 'Linear'")
    assert 'Missing key(s) in state_dict: "layer.bias".' in caught.value.hint
    assert "size mismatch for layer.weight" in caught.value.hint


def test_weights_reach_the_file(tmp_path: Path) -> None:
    weights = tmp_path / "w.pt"
    torch.save({"layer.weight": torch.full((4, 4), 0.5), "layer.bias": torch.ones(4)}, weights)

    export(tmp_path / "m.onnx", "fits", {"x": ["batch", 4]}, weights)

    session = onnxmodel.open_session(tmp_path / "m.onnx")
    feeds = {"x": torch.ones(1, 4).numpy()}
    assert onnxmodel.run(session, feeds)["output"].tolist() == [[3.0, 3.0, 3.0, 3.0]]


def test_loader_that_raises_is_shown_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "raises", {"x": ["batch", 4]})

    assert caught.value.message.startswith("loader 'networks.py:raises' raises at ")
    assert caught.value.message.endswith(" in raises: `raise KeyError(\"backbone\")`: KeyError: 'backbone'")


def test_loader_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "no_module", {"x": ["batch", 4]})

    assert caught.value.message == ("loader 'networks.py:no_module': expected a torch.nn.Module, found dict")


def test_external_data_on_request_makes_a_folder(tmp_path: Path) -> None:
    raw = {"external_data": True}

    built = export(tmp_path / "m", "Deep", {"x": ["batch", 3, 32, 32]}, raw=raw)

    assert sorted(each.name for each in (tmp_path / "m").iterdir()) == ["model.onnx", "model.onnx.data"]
    assert built.onnx["external_data"]
    onnx.checker.check_model(str(tmp_path / "m" / "model.onnx"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": {}}, "inputs: expected at least one"),
        (
            {"inputs": {"ids": {"shape": ["batch"], "dtype": "int64"}}},
            "input 'ids': is int64 and has no range, so no example of it can be made",
        ),
        (
            {"inputs": {"x": {"shape": ["batch"], "dtyp": "int64"}}},
            "input 'x': 'dtyp' is no property of an input. Did you mean 'dtype'?",
        ),
        (
            {"inputs": {"x": ["batch", 0]}},
            "input 'x': expected axis names and sizes above 0 in its shape, found 0",
        ),
        (
            {"inputs": {"x": ["batch"]}, "sizes": {"bach": 3}},
            "sizes: 'bach' is no axis of the inputs. Did you mean 'batch'?",
        ),
        (
            {"inputs": {"x": ["batch"]}, "exporter": "torch_script"},
            "exporter: 'torch_script' is none. Did you mean 'torchscript'?",
        ),
    ],
)
def test_wrong_field_is_refused_before_anything_runs(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Export(model="networks.py:Linear", **fields)

    assert caught.value.message == message


def test_a_hook_changes_the_network_that_is_exported(tmp_path: Path) -> None:
    built = export(tmp_path / "m.onnx", "Linear", {"x": ["batch", 4]}, hook="networks.py:clamped")

    assert "Relu" not in built.onnx["operators"]
    assert built.measurements["parity_max_abs"] < 1e-5


def test_a_hook_changes_the_arguments_of_the_exporter(tmp_path: Path) -> None:
    built = export(tmp_path / "m.onnx", "Linear", {"x": ["batch", 4]}, hook="networks.py:translated")

    assert built.onnx["operators"]["Max"] == 1
    assert "Relu" not in built.onnx["operators"]


@BOTH
def test_a_hook_that_changes_the_numbers_is_refused(tmp_path: Path, exporter: str) -> None:
    with pytest.raises(MobuildError, match="the file differs from torch"):
        export(tmp_path / "m.onnx", "Linear", {"x": ["batch", 4]}, hook="networks.py:doubled", exporter=exporter)


def test_a_hook_that_returns_no_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Linear", {"x": ["batch", 4]}, hook="networks.py:counted")

    assert caught.value.message == (
        "hook 'networks.py:counted': expected a torch.nn.Module or ExportedProgram or nothing, found int"
    )
