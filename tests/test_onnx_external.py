"""External data of ONNX files, found without onnx: the same locations that onnx itself finds."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from mobuild import onnx_external
from mobuild.errors import SourceError


def external(name: str, location: str) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="offset", value="0")
    return tensor


def inline(name: str) -> TensorProto:
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], raw_data=b"location" * 2)


def graph(name: str, *tensors: TensorProto) -> onnx.GraphProto:
    return helper.make_graph([], name, [], [], initializer=list(tensors))


def saved(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_model_without_external_data_has_none(tmp_path: Path) -> None:
    model = saved(tmp_path / "m.onnx", helper.make_model(graph("g", inline("w"))))

    assert onnx_external.locations(model) == {}


def test_locations_are_found_wherever_a_tensor_may_stand(tmp_path: Path) -> None:
    inner = graph("then", external("t", "sub/branch.bin"))
    inner.node.append(helper.make_node("Constant", [], ["c"], value=external("c", "constant.bin")))
    body = graph("g", external("w", "w.bin"), external("v", "w.bin"), inline("x"))
    body.node.append(helper.make_node("If", ["cond"], ["y"], then_branch=inner, else_branch=graph("else")))
    body.sparse_initializer.add(values=external("s", "sparse.bin"), indices=inline("i"), dims=[4])
    model = helper.make_model(body)
    model.functions.add(name="f", domain="d").node.append(
        helper.make_node("Constant", [], ["c"], value=external("f", "function.bin"))
    )
    model.training_info.add().algorithm.CopyFrom(graph("a", external("t", "training.bin")))

    found = tuple(onnx_external.locations(saved(tmp_path / "m.onnx", model)))

    assert found == (
        "constant.bin", "function.bin", "sparse.bin", "sub/branch.bin", "training.bin", "w.bin"
    )  # fmt: skip


def test_location_of_a_tensor_that_is_not_external_does_not_count(tmp_path: Path) -> None:
    left_over = external("w", "old.bin")
    left_over.data_location = TensorProto.DEFAULT

    model = saved(tmp_path / "m.onnx", helper.make_model(graph("g", left_over)))

    assert onnx_external.locations(model) == {}


@pytest.mark.parametrize("location", ["/etc/passwd", "../w.bin", "a/../../w.bin", "", "C:\\w.bin", "..\\w.bin"])
def test_location_that_leaves_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    model = saved(tmp_path / "m.onnx", helper.make_model(graph("g", external("w", location))))

    with pytest.raises(SourceError) as caught:
        onnx_external.files(model)

    assert str(caught.value) == (
        f"ONNX file '{model}': its external data location {location!r} leaves the model's folder\n"
        "  save the model again with its data beside it"
    )


def test_missing_data_file_is_named(tmp_path: Path) -> None:
    model = saved(tmp_path / "m.onnx", helper.make_model(graph("g", external("w", "w.bin"))))

    with pytest.raises(SourceError) as caught:
        onnx_external.files(model)

    assert str(caught.value) == (
        f"ONNX file '{model}': its external data '{tmp_path}/w.bin' is missing\n"
        "  put it beside the model, under the name that the model has for it"
    )


@pytest.mark.parametrize(
    ("places", "least"),
    [
        ([{"offset": "0", "length": "8"}, {"offset": "8", "length": "16"}], 24),
        ([{"length": "8"}], 8),
        ([{"offset": "4096"}], 4096),
        ([{"offset": "-1", "length": "9" * 5000}], 0),
        ([{}], 0),
    ],
)
def test_a_data_file_that_is_shorter_than_its_tensors_is_refused(
    tmp_path: Path, places: list[dict[str, str]], least: int
) -> None:
    tensors = []
    for number, place in enumerate(places):
        tensors.append(TensorProto(name=str(number), data_type=1, dims=[1], data_location=TensorProto.EXTERNAL))
        for key, text in {"location": "w.bin", **place}.items():
            tensors[-1].external_data.add(key=key, value=text)
    model = saved(tmp_path / "m.onnx", helper.make_model(graph("g", *tensors)))
    data = tmp_path / "w.bin"

    data.write_bytes(bytes(least))
    assert onnx_external.files(model) == {"w.bin": data}

    if least:
        data.write_bytes(bytes(least - 1))
        with pytest.raises(SourceError) as caught:
            onnx_external.files(model)
        assert str(caught.value) == (
            f"ONNX file '{model}': its external data '{data}' is cut short: expected at least {least} bytes, "
            f"found {least - 1}\n  fetch or export both again"
        )


def test_cut_short_model_is_damaged(tmp_path: Path) -> None:
    model = saved(tmp_path / "m.onnx", helper.make_model(graph("g", inline("w"))))
    model.write_bytes(model.read_bytes()[:-12])

    with pytest.raises(SourceError, match=f"ONNX file '{model}': is damaged near byte "):
        onnx_external.locations(model)


@given(st.binary(max_size=200))
def test_any_bytes_give_locations_or_an_error_of_the_source(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.onnx"
    path.write_bytes(data)

    try:
        onnx_external.locations(path)
    except SourceError:
        return


def test_big_tensors_are_not_read(tmp_path: Path) -> None:
    head = helper.make_model(graph("g", external("w", "w.bin"))).SerializeToString()
    size_bytes = 1 << 30
    tensor = b"\x4a" + b"\x80\x80\x80\x80\x04"  # raw_data of 1 GiB
    length = size_bytes + len(tensor)
    path = tmp_path / "m.onnx"
    with open(path, "wb") as stream:  # sparse: reading it would take long, seeking over it does not
        inner = b"\x2a" + _varint(length) + tensor
        stream.write(head + b"\x3a" + _varint(len(inner) + size_bytes) + inner)
        stream.truncate(stream.tell() + size_bytes)

    assert onnx_external.locations(path) == {"w.bin": 0}


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
