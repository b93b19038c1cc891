"""Requests and responses of the Open Inference Protocol, without a network."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import numpy
import pytest

from mobuild.runtime.model import Model
from mobuild.runtime.runner import Tensor
from mobuild.runtime.server import protocol
from mobuild.runtime.tensors import DATATYPES, Malformed
from tests.runtime.servers import TOY

BITS = numpy.array([0, 1, 2, 100], numpy.uint8)
DTYPES = [dtype for dtype in DATATYPES if dtype not in ("object", "bfloat16")]


def of(dtype: str, shape: tuple[Any, ...] = ("n",)) -> Model:
    """A model that takes and gives one tensor."""
    return replace(TOY, inputs=(Tensor("x", dtype, shape),), outputs=(Tensor("x", dtype, shape),), profiles=())


def one(datatype: str, shape: Any, data: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": shape, **({} if data is None else {"data": data}), **more}


def body(*inputs: Any, raw: bytes = b"", **more: Any) -> tuple[bytearray, str | None]:
    head = json.dumps({"inputs": list(inputs), **more}).encode()
    return bytearray(head + raw), str(len(head)) if raw else None


def values(dtype: str) -> Any:
    return (BITS > 0) if dtype == "bool" else BITS.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pad", ["", "a", "ab", "abc"])  # raw bytes begin at any address
def test_each_datatype_goes_in_and_out_as_raw_bytes(dtype: str, pad: str) -> None:
    array = values(dtype)
    told = one(DATATYPES[dtype], [4], parameters={"binary_data_size": array.nbytes})

    sent = body(told, raw=array.tobytes(), id=pad, parameters={"binary_data_output": True})
    inference = protocol.parse(of(dtype), *sent)
    parts, headers = protocol.respond(of(dtype), inference, inference.feeds)

    assert inference.feeds["x"].dtype == dtype and (inference.feeds["x"] == array).all()
    assert inference.feeds["x"].flags.aligned
    assert bytes(parts[1]) == array.tobytes() and headers == {protocol.HEADER_LENGTH: str(len(parts[0]))}
    assert json.loads(parts[0])["outputs"][0]["parameters"] == {"binary_data_size": array.nbytes}


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_datatype_goes_in_and_out_as_json(dtype: str) -> None:
    array = values(dtype)

    inference = protocol.parse(of(dtype), *body(one(DATATYPES[dtype], [4], array.tolist())))
    parts, headers = protocol.respond(of(dtype), inference, inference.feeds)

    assert inference.feeds["x"].dtype == dtype and (inference.feeds["x"] == array).all()
    assert json.loads(parts[0])["outputs"][0]["data"] == array.tolist() and not headers


def test_bfloat16_goes_in_and_out() -> None:
    import ml_dtypes

    array = numpy.array([1, 2.5], ml_dtypes.bfloat16)
    told = one("BF16", [2], parameters={"binary_data_size": 4})

    inference = protocol.parse(of("bfloat16"), *body(told, raw=array.tobytes()))
    parts, _ = protocol.respond(of("bfloat16"), inference, inference.feeds)

    assert (inference.feeds["x"] == array).all() and json.loads(parts[0])["outputs"][0]["data"] == [1, 2.5]


def test_texts_go_in_and_out() -> None:
    raw = b"".join(struct.pack("<I", len(each)) + each for each in (b"a", "üb".encode(), b""))
    told = one("BYTES", [3], parameters={"binary_data_size": len(raw)})

    coded = protocol.parse(of("object"), *body(told, raw=raw, parameters={"binary_data_output": True}))
    plain = protocol.parse(of("object"), *body(one("BYTES", [3], ["a", "üb", ""])))

    assert coded.feeds["x"].tolist() == ["a", "üb", ""] == plain.feeds["x"].tolist()
    assert protocol.respond(of("object"), coded, coded.feeds)[0][1] == raw
    assert json.loads(protocol.respond(of("object"), plain, plain.feeds)[0][0])["outputs"][0]["data"] == ["a", "üb", ""]


@pytest.mark.parametrize(
    ("shape", "data"), [([2, 2], [[1, 2], [3, 4]]), ([2, 2], [1, 2, 3, 4]), ([0, 2], []), ([], [5])]
)
def test_lists_may_be_nested_or_flat(shape: list[int], data: list[Any]) -> None:
    model = of("int32", tuple("abc"[: len(shape)]))

    inference = protocol.parse(model, *body(one("INT32", shape, data)))

    assert inference.feeds["x"].shape == tuple(shape) and inference.feeds["x"].dtype == "int32"


def test_large_integers_stay_exact() -> None:
    data = [2**64 - 1, 2**53 + 1, 0]

    inference = protocol.parse(of("uint64"), *body(one("UINT64", [3], data)))

    assert inference.feeds["x"].tolist() == data


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (one("FP64", [1], [1]), "input 'x': expected the datatype FP32, found FP64"),
        (one("FLOAT", [1], [1]), "expected a datatype (BF16, BOOL, BYTES, FP16, FP32, FP64, INT16"),
        (one("FP32", [2], [1]), "input 'x': expected 2 elements for shape [2], found 1"),
        (one("FP32", [-1], [1]), "input 'x': expected a list of sizes as 'shape', found [-1]"),
        (one("FP32", [True], [1]), "input 'x': expected a list of sizes as 'shape', found [true]"),
        (one("FP32", "2", [1]), "input 'x': expected a list of sizes as 'shape', found \"2\""),
        (one("FP32", [1, 1], [1]), "input 'x': expected 1 axes (n), found 2 (1×1)"),
        (one("FP32", [1], ["1"]), "input 'x': expected numbers in 'data' for FP32"),
        (one("FP32", [1], [None]), "input 'x': expected numbers in 'data' for FP32"),
        (one("FP32", [2], [[1], [2, 3]]), "input 'x': 'data' is no regular list of numbers"),
        (one("FP32", [1], [1e39]), "input 'x': a number in 'data' is outside FP32"),
        (one("FP32", [1], {"0": 1}), "input 'x': expected a list in 'data', found dict"),
        (one("FP32", [1]), "input 'x': expected one of 'data' and the parameter 'binary_data_size'"),
        (one("FP32", [1], [1], parameters={"binary_data_size": 4}), "expected one of 'data' and the parameter"),
        (one("FP32", [1], parameters={"binary_data_size": 4}), "binary_data_size is 4, and 0 bytes are there"),
        (one("FP32", [1], parameters={"binary_data_size": -4}), "binary_data_size is -4, and 0 bytes are there"),
        (one("FP32", [1], parameters={"shared_memory_region": "a"}), "does not have the extension of 'shared_memory_"),
        (one("FP32", [1], [1], parameters=[]), "input 'x': parameters: expected an object of JSON, found []"),
        ({**one("FP32", [1], [1]), "name": "z"}, "there is no input 'z': the model takes x"),
        ({**one("FP32", [1], [1]), "name": 7}, "inputs[0]: expected a text as 'name', found 7"),
        ([1], "inputs[0]: expected an object of JSON, found [1]"),
    ],
)
def test_an_input_that_does_not_fit_is_refused(told: Any, message: str) -> None:
    with pytest.raises(Malformed) as caught:
        protocol.parse(of("float32"), *body(told))

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "data", "message"),
    [
        ("int8", [128], "128 is outside INT8"),
        ("uint8", [-1], "-1 is outside UINT8"),
        ("int64", [1.5], "expected integers in its range in 'data' for INT64"),
        ("int64", [2**63], f"{2**63} is outside INT64"),
        ("uint64", [2**64], "expected integers in its range in 'data' for UINT64"),
        ("bool", [1], "expected true and false in 'data' for BOOL"),
        ("float16", [70000], "a number in 'data' is outside FP16"),
        ("float32", [10**40], "a number in 'data' is outside FP32"),
        ("float64", [10**400], "a number in 'data' is outside FP64"),
        ("object", ["\ud800"], "element 0 of 'data' has no UTF-8"),
        ("object", [1], "expected strings in 'data' for BYTES"),
    ],
)
def test_a_number_is_never_rounded_or_wrapped_in_silence(dtype: str, data: list[Any], message: str) -> None:
    with pytest.raises(Malformed) as caught:
        protocol.parse(of(dtype), *body(one(DATATYPES[dtype], [1], data)))

    assert str(caught.value) == f"input 'x': {message}"


@pytest.mark.parametrize(
    ("dtype", "size", "raw", "message"),
    [
        ("float32", 8, b"1234", "input 'x': binary_data_size is 8, and 4 bytes are there"),
        ("float32", 4, b"12345", "1 bytes follow the data of the inputs"),
        ("float32", 2, b"12", "input 'x': expected 4 bytes for FP32 of shape [1], found 2"),
        ("bool", 1, b"\2", "input 'x': expected bytes 0 and 1 for BOOL, found 2"),
        ("object", 3, b"\0\0\0", "input 'x': BYTES end within element 0"),
        ("object", 6, b"\7\0\0\0ab", "input 'x': BYTES end within element 0"),
        ("object", 8, b"\0\0\0\0" * 2, "input 'x': expected 1 elements of BYTES, found 2"),
    ],
)
def test_raw_bytes_that_do_not_fit_are_refused(dtype: str, size: int, raw: bytes, message: str) -> None:
    told = one(DATATYPES[dtype], [1], parameters={"binary_data_size": size})

    with pytest.raises(Malformed) as caught:
        protocol.parse(of(dtype), *body(told, raw=raw))

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "the request is no JSON: "),
        (b"\xff\xfe{", "the request is no JSON: "),
        (b"[]", "the request: expected an object of JSON, found []"),
        (b"{}", "the request: expected a list as 'inputs', found nothing"),
        (b'{"inputs": []}', "input 'x' is missing: the model takes x"),
        (b'{"inputs": [' + b"[" * 100_000, "nested too deeply"),
        (b'{"inputs": [{"name": "x", "data": [NaN]}]}', "NaN is no number there"),
        (b'{"inputs": [{"name": "x", "data": [-Infinity]}]}', "-Infinity is no number there"),
        (b'{"inputs": [{"name": "x", "data": [' + b"1" * 5000 + b"]}]}", "the request is no JSON: "),
        (b'{"inputs": [{"name": "x"}, {"name": "x"}]}', "input 'x' is there twice"),
    ],
)
def test_garbage_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(Malformed) as caught:
        protocol.parse(of("float32"), bytearray(raw), None)

    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "1000", "9" * 400, "0" * 17 + "1" + "9" * 5000, "²"])
def test_a_bad_length_of_the_json_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="Inference-Header-Content-Length: expected a number from 1 to "):
        protocol.parse(of("float32"), bytearray(b"{}"), text)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"id": 7}, "expected a text as 'id', found 7"),
        ({"outputs": [{"name": "z"}]}, 'there is no output "z": the model gives x'),
        ({"outputs": {}}, None),
        ({"outputs": [{"name": "x", "parameters": {"classification": 3}}]}, "the extension of 'classification'"),
        (
            {"outputs": [{"name": "x", "parameters": {"binary_data": 1}}]},
            "binary_data: expected true or false, found 1",
        ),
        ({"parameters": {"binary_data_output": "yes"}}, 'binary_data_output: expected true or false, found "yes"'),
    ],
)
def test_wishes_that_are_not_understood_are_refused(more: dict[str, Any], message: str | None) -> None:
    sent = body(one("FP32", [1], [1]), **more)
    if message is None:
        assert list(protocol.parse(of("float32"), *sent).outputs) == ["x"]
        return

    with pytest.raises(Malformed) as caught:
        protocol.parse(of("float32"), *sent)

    assert message in str(caught.value)


def test_null_is_what_is_not_given() -> None:
    sent = body({**one("FP32", [1], [1]), "parameters": None}, id=None, parameters=None, outputs=None)

    assert protocol.parse(of("float32"), *sent).feeds["x"].tolist() == [1]

    told = {**one("FP32", [1], parameters={"binary_data_size": 4}), "data": None}
    assert protocol.parse(of("float32"), *body(told, raw=bytes(4))).feeds["x"].tolist() == [0]


@pytest.mark.parametrize(
    ("dtype", "shape", "how"),
    [
        ("float32", [0, 10**30], {"data": []}),
        ("float32", [0, 1 << 40, 1 << 40], {"data": []}),
        ("float32", [0, 10**30], {"parameters": {"binary_data_size": 0}}),
        ("object", [0, 10**30], {"parameters": {"binary_data_size": 0}}),
    ],
)
def test_a_shape_that_no_array_has_is_refused(dtype: str, shape: list[int], how: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match=r"input 'x': no array has the shape \[0, "):
        protocol.parse(of(dtype, tuple("abc"[: len(shape)])), *body(one(DATATYPES[dtype], shape, **how)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_integers_of_any_size_are_numbers(dtype: str) -> None:
    sent = body(one(DATATYPES[dtype], [2], [10**20, 0.5]))  # as JavaScript writes 1e20

    assert protocol.parse(of(dtype), *sent).feeds["x"].tolist() == [numpy.dtype(dtype).type(1e20), 0.5]


def test_what_json_has_no_number_for_is_said() -> None:
    inference = protocol.parse(of("float32"), *body(one("FP32", [1], [1])))

    with pytest.raises(Malformed, match="output 'x': it holds NaN or infinity, which JSON cannot say"):
        protocol.respond(of("float32"), inference, {"x": numpy.float32([numpy.nan])})


def test_the_nearest_of_several_profiles_says_what_does_not_fit() -> None:
    model = replace(of("float32"), profiles=({"x": ((1,), (2,), (4,))}, {"x": ((8,), (8,), (16,))}))

    assert protocol.parse(model, *body(one("FP32", [9], [0] * 9))).feeds["x"].shape == (9,)
    with pytest.raises(Malformed) as caught:
        protocol.parse(model, *body(one("FP32", [5], [0] * 5)))
    assert str(caught.value) == "input 'x', axis 0 ('n'): expected 1 to 4, found 5 (the nearest of 2 profiles)"


def test_an_axis_of_one_name_has_one_size() -> None:
    model = replace(of("float32"), inputs=(Tensor("x", "float32", ("n",)), Tensor("z", "float32", ("n",))))

    with pytest.raises(Malformed, match="axis 'n': expected one size, found 1 in input 'x' and 2 in input 'z'"):
        protocol.parse(model, *body(one("FP32", [1], [1]), {**one("FP32", [2], [1, 2]), "name": "z"}))
