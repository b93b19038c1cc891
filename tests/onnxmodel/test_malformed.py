"""Files that parse as ONNX and hold what ONNX does not allow, or what the onnx here does not know."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from mobuild.errors import NodeFailed
from mobuild.onnxmodel.files import data_files
from mobuild.onnxmodel.summary import summary
from tests.onnxmodel.models import model, value

_NEWER = 99  # a type of tensors that no onnx has yet


def written(folder: Path, made: Any) -> Path:
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    return folder / "m.onnx"


def of(node: Any, *tensors: Any) -> Any:
    return model([node], [value("x", ["n", 4])], [value("y", None)], tensors)


def short() -> Any:
    return TensorProto(name="k", data_type=TensorProto.INT64, dims=[1], raw_data=b"abc")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (of(helper.make_node("Cast", [], ["y"], to=1)), "node 'y': Node with schema(::Cast:13) has input size 0"),
        (of(helper.make_node("Gather", [], ["y"])), "(::Gather:13) has input size 0"),
        (of(helper.make_node("If", [], ["y"])), "(::If:16) has input size 0"),
        (of(helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1], dilations=2)), "Mismatched attribute type"),
        (
            of(helper.make_node("TopK", ["x", "k"], ["y", "i"]), short()),
            "tensor 'k': TensorProto (tensor name: k) raw_data size (3 bytes) is too small",
        ),
    ],
    ids=["Cast", "Gather", "If", "dilations", "TopK"],
)
def test_a_model_that_cannot_be_looked_through_is_refused_in_the_words_of_onnx(
    tmp_path: Path, made: Any, words: str
) -> None:
    file = written(tmp_path, made)

    with pytest.raises(NodeFailed) as caught:
        summary(file)

    assert caught.value.message.startswith(f"'{file}': expected a model as ONNX has it, found ")
    assert words in caught.value.message


def test_a_type_that_onnx_does_not_know_here_is_told_by_its_number(tmp_path: Path) -> None:
    made = of(helper.make_node("Cast", ["x"], ["y"], to=_NEWER), TensorProto(name="w", data_type=_NEWER, dims=[3]))
    made.graph.input[0].type.tensor_type.elem_type = _NEWER

    told = summary(written(tmp_path, made))

    assert (told["inputs"][0]["dtype"], told["types"]) == ("type99", {"type99": 3})


@pytest.mark.parametrize("word", ["sequence", "optional"])
def test_an_input_that_is_no_tensor_says_what_it_is(tmp_path: Path, word: str) -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 4])
    kind = {"sequence": helper.make_sequence_type_proto, "optional": helper.make_optional_type_proto}[word](tensor)
    made = of(helper.make_node("Relu", ["x"], ["y"]))
    made.graph.input.append(helper.make_value_info("s", kind))

    assert summary(written(tmp_path, made))["inputs"][1] == {"name": "s", "dtype": word, "shape": None}


@pytest.mark.parametrize("text", ["abc", "1", "1,2,3", "1,", "nan,nan", "2,1"])
def test_metadata_that_is_no_range_is_named(tmp_path: Path, text: str) -> None:
    made = of(helper.make_node("Relu", ["x"], ["y"]))
    helper.set_model_props(made, {"mobuild.range.x": text})

    with pytest.raises(NodeFailed) as caught:
        summary(written(tmp_path, made))

    assert caught.value.message == f"metadata 'mobuild.range.x' of the model: expected 'low,high', found {text!r}"


@pytest.mark.parametrize("name", ["m.json", "m.textproto", "m.onnxtxt"])
def test_text_that_is_no_model_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("no model")

    with (
        warnings.catch_warnings(),
        pytest.raises(NodeFailed, match="expected an ONNX model, found 8 bytes that are none"),
    ):
        warnings.simplefilter("ignore")  # onnx calls one of the formats experimental
        summary(tmp_path / name)


@pytest.mark.parametrize(("key", "text"), [("length", "abc"), ("offset", "-5")])
def test_a_place_in_external_data_that_is_no_number_names_the_tensor(tmp_path: Path, key: str, text: str) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    for name, held in (("location", "w.bin"), (key, text)):
        tensor.external_data.add(key=name, value=held)
    (tmp_path / "w.bin").write_bytes(bytes(4))

    with pytest.raises(NodeFailed, match=f"tensor 'w': expected the offset and length .* found '{text}'"):
        data_files(written(tmp_path, of(helper.make_node("Add", ["x", "w"], ["y"]), tensor)))
