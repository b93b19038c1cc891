"""Kind `validate`: what an engine keeps of the fp32 model, on the device and by proxy."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mobuild import usercode
from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.data import Data
from mobuild.errors import ConfigError, NodeFailed
from mobuild.node import Built
from mobuild.nodes.validate import Validate, tasks
from tests.nodes import evaluated
from tests.nodes.evaluated import Files, halved, quantized, validate

EVAL = '''\
"""Evaluates a model by the size of its file."""
import argparse, json, os

parser = argparse.ArgumentParser()
parser.add_argument("--model")
parser.add_argument("--out")
args = parser.parse_args()
scores = {"suffix": os.path.splitext(args.model)[1], "map": {"50": 0.5}, "hits": [1, 0, 1, 1], "ok": True}
json.dump(scores, open(args.out, "w"))
'''
CMD = f"{sys.executable} eval.py --model {{in.engine}} --out {{out}}/m.json"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(usercode, "folder", tmp_path)
    for name in ("metrics", "drawn"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "eval.py").write_text(EVAL)
    return evaluated.write(tmp_path)


def run(node: Validate, inputs: dict[str, Path], folder: Path) -> Built:
    return node.build(inputs, folder / "validation.json")


def test_the_same_model_loses_nothing(files: Files) -> None:
    built = run(validate(), files.inputs(files.sanitized), files.folder)

    found = built.measurements
    assert (found["device"], found["samples"], found["worst_stage"]) == ("real", 128, "")
    assert found["tensors"]["y"]["cosine_min"] == pytest.approx(1.0)
    assert found["metrics"]["accuracy"]["drop"] == 0
    assert found["metrics"]["accuracy"]["paired"]["lost"] == 0
    artifact = json.loads((files.folder / "validation.json").read_text())
    assert len(artifact.pop("scores")["accuracy"]) == 128 and len(artifact.pop("samples_digest")) == 64
    assert artifact == found


def test_a_fair_quantisation_keeps_the_direction(files: Files) -> None:
    model = quantized(files, scale=3 / 127)

    found = run(validate(precision="int8"), files.inputs(model), files.folder).measurements

    assert found["tensors"]["y"]["cosine_mean"] > 0.999
    assert found["tensors"]["y"]["max_abs"] > 0
    assert 20 < found["tensors"]["y"]["snr_db"] < 60


def test_a_bad_quantisation_shows_and_its_stage_is_blamed(files: Files) -> None:
    model = quantized(files, scale=0.1 / 127)

    found = run(validate(precision="int8"), files.inputs(model), files.folder).measurements

    assert found["tensors"]["y"]["cosine_mean"] < 0.95
    assert found["metrics"]["accuracy"]["drop"] > 0.03
    assert found["metrics"]["accuracy"]["paired"]["lost"] > found["metrics"]["accuracy"]["paired"]["gained"]
    assert found["worst_stage"] == "quantized"
    assert found["stages"]["quantized"]["outputs"]["y"]["samples"] == 64
    assert found["stages"]["engine"]["loss"] == pytest.approx(0, abs=1e-6)


def test_an_engine_that_is_none_of_the_graph_is_blamed(files: Files) -> None:
    good, bad = quantized(files, scale=3 / 127), quantized(files, scale=0.1 / 127)
    inputs = {**files.inputs(good), "engine": files.engine(bad)}

    found = run(validate(precision="int8"), inputs, files.folder).measurements

    assert found["worst_stage"] == "engine"
    assert found["stages"]["engine"]["from"] == "quantized"


def test_a_proxy_runs_the_graph_and_says_what_it_cannot_see(files: Files) -> None:
    model = quantized(files, scale=3 / 127)
    proxy = validate(precision="int8", device="proxy", backend=None)
    inputs = {**files.inputs(model), "engine": files.folder / "no-such-plan"}

    found = run(proxy, inputs, files.folder).measurements

    assert found["device"] == "proxy"
    assert found["unseen"] == (
        "not seen: what the builder makes of the graph: its fused kernels and tactics, the order in which they add "
        "up, and the precision inside them"
    )
    assert list(found["stages"]) == ["quantized"]


def test_a_proxy_rounds_every_tensor_to_half(files: Files) -> None:
    model = halved(files)
    weights = evaluated._constants(model)["w"]
    x = np.load(files.folder / "data.npz")["x"].astype(np.float16)
    exact = x.astype(np.float32) @ weights.astype(np.float32)
    reference = np.load(files.folder / "data.npz")["x"] @ evaluated._constants(files.sanitized)["w"]

    found = run(validate(precision="fp16", device="proxy", backend=None), files.inputs(model), files.folder)

    rounded = exact.astype(np.float16).astype(np.float32)
    assert found.measurements["tensors"]["y"]["max_abs"] == pytest.approx(float(np.abs(rounded - reference).max()))
    assert found.measurements["unseen"].startswith("every tensor in half precision was rounded to float16; not seen: ")


def test_overflow_in_half_is_found_by_the_proxy_and_named(files: Files) -> None:
    model = halved(files, factor=30000.0)
    node = validate(precision="fp16", device="proxy", backend=None)

    with pytest.raises(NodeFailed) as caught:
        run(node, files.inputs(model), files.folder)

    assert caught.value.message.startswith("stage 'quantized', output 'y', sample 0: expected finite numbers, found ")


def test_where_the_device_is_missing_the_proxy_is_the_last_way(files: Files) -> None:
    real, proxy = validate(device="", backend=TensorRTRTX("8.9", 1 << 30)).alternatives

    assert (real.device, real.unkeyed_roles) == ("real", ())
    assert (proxy.device, proxy.unkeyed_roles, proxy.backend, proxy.shapes) == ("proxy", ("engine",), None, None)


def test_where_the_device_is_here_there_is_no_proxy() -> None:
    assert [each.device for each in validate(device="").alternatives] == ["real"]


@pytest.mark.parametrize(
    ("fields", "unneeded"),
    [
        ({"precision": "int8"}, ()),
        ({"precision": "int8", "dynamic": True}, ("calibration",)),
        ({"precision": "fp16"}, ("calibration",)),
    ],
)
def test_calibration_is_needed_for_static_int8_alone(fields: dict[str, Any], unneeded: tuple[str, ...]) -> None:
    assert validate(**fields).unneeded == unneeded


def test_the_script_of_the_user_is_compared_number_by_number(files: Files) -> None:
    node = validate(metric="", cmd=CMD)
    inputs = files.inputs(files.sanitized, cmd=CMD)

    metrics = run(node, inputs, files.folder).measurements["metrics"]

    assert {name: each["value"] for name, each in metrics.items()} == {"hits": 0.75, "map.50": 0.5}
    assert metrics["hits"]["paired"]["samples"] == 4
    assert node.files(files.folder) == (files.folder / "eval.py",)


def test_the_script_gets_the_graph_by_proxy(files: Files) -> None:
    (files.folder / "eval.py").write_text(
        EVAL.replace("scores = {", "scores = {'is_onnx': float(args.model.endswith('.onnx')), ")
    )
    data, metric = Data(), ""
    files.reference(cmd=CMD, data=data)
    inputs = {**files.inputs(files.sanitized), "engine": files.folder / "engine.plan"}

    found = run(validate(metric=metric, data=data, cmd=CMD, device="proxy", backend=None), inputs, files.folder)

    assert found.measurements["metrics"]["is_onnx"]["value"] == 1.0
    assert "tensors" not in found.measurements


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; print('no such file'); sys.exit(3)", "ended with status 3"),
        ("pass", "on the engine, ended with status 0: expected a JSON file in {out}, found nothing"),
        (
            'import sys; open(sys.argv[4], \'w\').write(\'{"name": "best", "ok": true}\')',
            "on the engine, ended with status 0: expected numbers by name, found none in 'm.json'",
        ),
        (
            "import sys; open(sys.argv[4], 'w').write('map 0.5')",
            "on the engine: expected JSON in 'm.json', found none: Expecting value: line 1 column 1 (char 0)",
        ),
        (
            "import sys; open(sys.argv[4], 'w').write('{\"map\": NaN}')",
            "metric 'cmd:map', on the engine, 'map': expected a finite number, found NaN",
        ),
        (
            "import pathlib, sys; folder = pathlib.Path(sys.argv[4]).parent; "
            "[(folder / f'{name}.json').write_text('{\"all\": 2, \"ap\": %s}' % ap) "
            "for name, ap in (('cat', 0.5), ('dog', 0.6))]",
            "on the engine: metric 'ap' is 0.5, and once more in 'dog.json': 0.6",
        ),
    ],
)
def test_a_script_that_fails_or_writes_no_numbers_is_an_error(files: Files, script: str, message: str) -> None:
    inputs = files.inputs(files.sanitized, cmd=CMD)
    (files.folder / "eval.py").write_text(script)

    with pytest.raises(NodeFailed) as caught:
        run(validate(metric="", cmd=CMD), inputs, files.folder)

    assert caught.value.message.endswith(message)


def test_a_metric_that_returns_nan_is_an_error(files: Files) -> None:
    with pytest.raises(NodeFailed) as caught:
        run(validate(metric="metrics.py:nothing"), files.inputs(files.sanitized), files.folder)

    assert caught.value.message == (
        "metric 'metrics.py:nothing', on the reference: expected a finite number, found NaN"
    )


def test_a_metric_over_data_without_labels_warns_and_says_where_labels_go(files: Files) -> None:
    np.savez(files.folder / "data.npz", x=np.load(files.folder / "data.npz")["x"])

    built = run(validate(), files.inputs(files.sanitized), files.folder)

    assert built.warnings == [
        "metric 'metrics.py:accuracy': none of 128 samples has a label, so it proves nothing unless it needs none; "
        "labels come from an array 'label' or 'labels' in the .npz, one row a sample"
    ]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (Data(jsonl="d.jsonl"), "labels come from the key 'label' or 'labels' of each line"),
        (Data(arrays="d"), "labels come from 'label' or 'labels' in each .npz, or the name of the file's sub-folder"),
        (Data(images="d", transform="a.py:f"), "or the transform: return ({input: array}, label)"),
        (Data(iterator="a.py:f"), "labels come from the iterator: yield ({input: array}, label)"),
    ],
)
def test_each_kind_of_data_says_where_its_labels_come_from(data: Data, place: str) -> None:
    assert place in tasks.unlabelled("a.py:f", data, [None])[0]


def test_one_label_is_enough() -> None:
    assert tasks.unlabelled("a.py:f", Data(npz="d.npz"), [None, 0]) == []


def test_a_metric_of_other_names_than_for_the_reference_is_an_error(files: Files) -> None:
    inputs = files.inputs(files.sanitized)
    inputs["engine"] = inputs["model"] = _scaled(files, 1e5)

    with pytest.raises(NodeFailed, match=r"metric: expected the names of the reference, 'small', found 'big'"):
        run(validate(metric="metrics.py:by_magnitude"), inputs, files.folder)


def test_data_that_is_drawn_anew_is_found_out(files: Files) -> None:
    (files.folder / "drawn.py").write_text(
        "import numpy as np\n\ndef draw():\n    for i in range(3):\n"
        "        yield {'x': np.random.normal(size=8).astype('float32')}, 0\n"
    )
    data = Data(iterator="drawn.py:draw")
    files.reference(data=data)

    with pytest.raises(NodeFailed) as caught:
        run(validate(data=data), files.inputs(files.sanitized), files.folder)

    assert str(caught.value) == (
        "sample 0: expected the inputs that the reference was made with, found others\n"
        "  if the data changed while this ran, run again; a transform or iterator that draws at random has to be seeded"
    )


def test_samples_that_calibration_saw_are_counted(files: Files) -> None:
    inputs = files.inputs(quantized(files, scale=3 / 127))
    manifest = json.loads((inputs["reference"] / "samples.json").read_text())["manifest"]
    inputs["calibration"] = files.folder / "manifest.json"
    inputs["calibration"].write_text(json.dumps(manifest))

    built = run(validate(precision="int8"), inputs, files.folder)

    assert built.warnings == [
        "128 of 128 evaluation samples are calibration samples as well: the accuracy looks better than it is"
    ]


def test_neither_data_nor_script_is_refused() -> None:
    with pytest.raises(ConfigError, match="no evaluation data: expected `data` or `cmd`, found neither"):
        Validate()


def test_a_metric_without_data_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"metric: 'a.py:f' has no data to be measured on"):
        Validate(metric="a.py:f", cmd="eval")


def test_outputs_whose_size_depends_on_values_are_left_to_the_metric(files: Files) -> None:
    _places(files.sanitized, limit=0.0)
    engine = files.folder / "other.onnx"
    _places(engine, limit=0.1)
    (files.folder / "metrics.py").write_text(
        "def found(outputs, labels):\n    return sum(y.shape[1] for y in outputs['y'])\n"
    )
    inputs = {**files.inputs(files.sanitized), "engine": engine}

    built = run(validate(metric="metrics.py:found"), inputs, files.folder)

    differing = built.measurements["tensors"]["y"]["other_shapes"]
    assert 0 < differing < 128
    assert list(built.warnings) == [
        f"output 'y': {differing} of 128 samples have another shape than in the reference, and only the metric can "
        "compare those"
    ]
    assert built.measurements["metrics"]["found"]["drop"] > 0


def test_the_smallest_batch_of_a_profile_is_filled_up(files: Files) -> None:
    fixed = dataclasses.replace(validate(), shapes={"batch": (5, 6, 7)})

    found = run(fixed, files.inputs(files.sanitized), files.folder).measurements

    assert found["tensors"]["y"]["samples"] == 128  # 18 × 7 + 2: the last two run as five
    assert found["tensors"]["y"]["cosine_min"] == pytest.approx(1.0)


def _scaled(files: Files, factor: float) -> Path:
    from onnx import helper

    out = files.folder / "scaled.onnx"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "f"], ["y"])]
    evaluated.save(out, nodes, {**evaluated._constants(files.sanitized), "f": np.float32(factor)})
    return out


def _places(out: Path, limit: float) -> None:
    """A model that says where its input is larger than `limit`, as detectors list what they found."""
    from onnx import helper

    nodes = [
        helper.make_node("Greater", ["x", "limit"], ["mask"]),
        helper.make_node("NonZero", ["mask"], ["places"]),
        helper.make_node("Cast", ["places"], ["y"], to=1),
    ]
    evaluated.save(out, nodes, {"limit": np.float32(limit)}, shape=(2, "count"))
