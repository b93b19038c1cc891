"""Kind `reference`: the answers of the fp32 model, kept for all variants."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from mobuild import usercode
from mobuild.data import Data
from mobuild.errors import ConfigError, NodeFailed
from mobuild.evaluation.reference import open_reference
from mobuild.nodes.reference import Reference
from tests.nodes import evaluated
from tests.onnxmodel.models import embedding

RAGGED = '''\
"""Samples of several lengths, and a random one."""
import numpy as np


def lengths():
    for i in range(5):
        yield {"x": np.full(8, i + 1, np.float32)}, i


def none():
    return iter(())
'''


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> evaluated.Files:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(usercode, "folder", tmp_path)
    (tmp_path / "ragged.py").write_text(RAGGED)
    for name in ("metrics", "ragged"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return evaluated.write(tmp_path)


def test_outputs_are_those_of_the_model_and_numpy_opens_them(files: evaluated.Files) -> None:
    made = files.reference()

    data = np.load(files.folder / "data.npz")
    weights = evaluated._constants(files.sanitized)["w"]
    assert np.load(made / "outputs.npz")["y"] == pytest.approx(data["x"] @ weights, abs=1e-5)
    samples = json.loads((made / "samples.json").read_text())
    assert samples["count"] == len(samples["digests"]) == 128
    assert samples["labels"] == data["label"].tolist()


def test_equal_inputs_give_equal_bytes(files: evaluated.Files) -> None:
    first = {path.name: path.read_bytes() for path in files.reference().iterdir()}
    (files.folder / "reference").rename(files.folder / "former")

    assert {path.name: path.read_bytes() for path in files.reference().iterdir()} == first


def test_outputs_of_different_shapes_are_kept_apart_and_not_padded(files: evaluated.Files) -> None:
    # The number of rows that come out depends on the values, as behind a non-maximum suppression.
    nodes = [
        helper.make_node("Greater", ["x", "limit"], ["mask"]),
        helper.make_node("NonZero", ["mask"], ["places"]),
        helper.make_node("Cast", ["places"], ["y"], to=1),
    ]
    evaluated.save(files.sanitized, nodes, {"limit": np.float32(0)}, shape=(2, "count"))
    Reference(Data(npz="data.npz")).build(
        {"model": files.sanitized, "data": files.folder / "data.npz"}, files.folder / "reference"
    )

    found = open_reference(files.folder / "reference").outputs["y"]

    x = np.load(files.folder / "data.npz")["x"]
    assert isinstance(found, list) and len(found) == 128
    assert [each.size for each in found[:10]] == [2 * int((row > 0).sum()) for row in x[:10]]


def test_ids_beyond_an_embedding_are_named_with_the_samples_that_hold_them(files: evaluated.Files) -> None:
    onnx.save(embedding(), files.folder / "ids.onnx")
    np.savez(files.folder / "ids.npz", ids=np.arange(40, 60)[:, None])
    inputs = {"model": files.folder / "ids.onnx", "data": files.folder / "ids.npz"}

    with pytest.raises(NodeFailed) as error:
        Reference(Data(npz="ids.npz")).build(inputs, files.folder / "out")

    assert error.value.message.startswith("samples 0 to 15: ONNX Runtime fails in node 'lookup': ")
    assert error.value.hint == (
        "input 'ids' holds 40 (sample 0) to 55 (sample 15); its range is [0, 50], from 0 up to, but without, 50"
    )


def test_an_empty_set_is_refused(files: evaluated.Files) -> None:
    with pytest.raises(NodeFailed) as caught:
        Reference(Data(iterator="ragged.py:none")).build({"model": files.sanitized}, files.folder / "reference")

    assert caught.value.message == "data: expected at least one sample of 'ragged.py:none', found none"


def test_a_small_set_warns_of_chance(files: evaluated.Files) -> None:
    built = Reference(Data(iterator="ragged.py:lengths")).build({"model": files.sanitized}, files.folder / "reference")

    assert built.warnings == ["only 5 evaluation samples: one of them is 20 points, so a drop may be chance"]


def test_nan_in_the_reference_names_output_and_sample(files: evaluated.Files) -> None:
    evaluated.save(files.sanitized, [helper.make_node("Log", ["x"], ["y"])], {}, shape=("batch", 8))

    with pytest.raises(NodeFailed, match=r"reference, output 'y', sample 0: expected finite numbers, found NaN at"):
        files.reference()


def test_infinity_in_the_reference_is_warned_of(files: evaluated.Files) -> None:
    """Some networks mask with it; of others it is a weight, which every form of them has, too."""
    nodes = [helper.make_node("Add", ["x", "bias"], ["y"])]
    bias = np.array([0, 0, np.inf, 0, 0, 0, 0, 0], np.float32)
    evaluated.save(files.sanitized, nodes, {"bias": bias}, shape=("batch", 8))

    built = Reference(Data(npz="data.npz")).build(
        {"model": files.sanitized, "data": files.folder / "data.npz"}, files.folder / "reference"
    )

    assert built.warnings == [
        "output 'y' holds infinity in 128 of 128 samples, which is compared by place and in no figure"
    ]


def test_a_script_alone_is_a_reference_of_scores(files: evaluated.Files) -> None:
    (files.folder / "eval.py").write_text(
        "import json, sys\njson.dump({'size': {'bytes': len(open(sys.argv[1], 'rb').read())}}, open(sys.argv[2], 'w'))"
    )
    node = Reference(cmd=f"{sys.executable} eval.py {{in.engine}} {{out}}/m.json")

    built = node.build({"model": files.sanitized}, files.folder / "reference")

    assert built.measurements["scores"] == {"size.bytes": files.sanitized.stat().st_size}
    assert node.files(files.folder) == (files.folder / "eval.py",)


def test_neither_data_nor_script_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Reference()

    assert caught.value.message == ("no evaluation data: expected `data` or `cmd` of the validation, found neither")
