"""Kind `export`: the sizes and numbers of the examples that a network is exported with."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("torch")


from mobuild import usercode
from mobuild.errors import ConfigError, MobuildError
from mobuild.nodes.export import Export
from tests.nodes.exporting import HERE, export


@pytest.fixture(autouse=True)
def _networks_beside_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usercode, "folder", HERE)


def test_examples_grow_until_the_network_takes_them(tmp_path: Path) -> None:
    built = export(tmp_path / "m.onnx", "Deep", {"x": ["batch", 3, "h", "w"]})

    assert built.measurements["proven_sizes"][0] == {"batch": 2, "h": 64, "w": 96}


def test_given_sizes_are_the_example(tmp_path: Path) -> None:
    built = export(tmp_path / "m.onnx", "Deep", {"x": ["batch", 3, "h", "w"]}, sizes={"h": 16, "w": 32})

    assert built.measurements["proven_sizes"][0] == {"batch": 2, "h": 16, "w": 32}


def test_axis_of_which_the_network_takes_one_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Linear", {"x": ["batch", "features"]}, sizes={"features": 4})

    assert caught.value.message.startswith(
        "axis 'features' is dynamic, but the network takes no size but 4: the network fails at "
    )
    assert caught.value.hint == "write 4 in place of 'features' in `inputs`, or mend the network"


@pytest.mark.parametrize("high", [60, 51])  # 51: met by chance, at a later size alone
def test_range_with_numbers_that_the_network_does_not_take_is_blamed_and_not_the_sizes(
    tmp_path: Path, high: int
) -> None:
    ids = {"shape": ["batch", "sequence"], "dtype": "int64", "range": [0, high]}

    with pytest.raises(MobuildError) as caught:
        export(tmp_path / "m.onnx", "Tokens", {"ids": ids})

    message = f"input 'ids': the network does not take every number of its range [0, {high}]: the network fails at "
    assert caught.value.message.startswith(message)
    assert "IndexError: index out of range in self" in caught.value.message
    assert caught.value.hint == (
        "a range goes from low up to, but without, high, as Python's range; of two neighbours, [0, 1], both occur: "
        "an embedding of 50 rows has range: [0, 50]"
    )


def test_range_ends_before_its_high_number(tmp_path: Path) -> None:
    ids = {"shape": ["batch", "sequence"], "dtype": "int64", "range": [0, 50]}

    built = export(tmp_path / "m.onnx", "Tokens", {"ids": ids}, sizes={"batch": 64, "sequence": 64})

    assert built.onnx["ranges"] == {"ids": [0, 50]}


WRONG_RANGES = {
    "60": "range: expected [low, high], two whole numbers, found 60",
    "[0]": "range: expected [low, high], two whole numbers, found [0]",
    "['0', '50']": "range: expected [low, high], two whole numbers, found ['0', '50']",
    "[0.5, 50]": "range: expected [low, high], two whole numbers, found [0.5, 50]",
    "[50, 0]": "range: expected low below high, found [50, 0]",
    "[0, 257]": "range: uint8 holds 0 to 255, found [0, 257]",
}


@pytest.mark.parametrize(("limits", "message"), WRONG_RANGES.items(), ids=list(WRONG_RANGES))
def test_wrong_range_is_named_as_one_and_its_end_explained(limits: str, message: str) -> None:
    ids = {"shape": ["batch"], "dtype": "uint8", "range": ast.literal_eval(limits)}

    with pytest.raises(ConfigError) as caught:
        Export(model="networks.py:Tokens", inputs={"ids": ids})

    assert caught.value.message == f"input 'ids': {message}"
    assert caught.value.hint == (
        "range: [low, high]: from low up to, but without, high, as Python's range; of two neighbours, [0, 1], both "
        "occur"
    )
