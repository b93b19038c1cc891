"""Hooks of backends: code of the user's that has the last word before a session opens or an engine is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine_nets
import pytest
from engine_nets import build
from onnx import helper

from mobuild import onnxmodel, usercode
from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.errors import NodeFailed
from mobuild.evaluation.runs import open_built
from mobuild.nodes.build_engine import BuildEngine

HOOKS = """\
calls = []


def as_it_is(options):
    import onnxruntime

    calls.append(options)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def failing(options):
    raise ValueError("no such option")


def detailed(builder, network, config):
    import tensorrt_rtx

    config.profiling_verbosity = tensorrt_rtx.ProfilingVerbosity.DETAILED


def missing(builder, network, config):
    raise KeyError("layer 'head' of " + str(network.num_layers))
"""


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(usercode, "folder", tmp_path)
    path = tmp_path / "backend_hooks.py"
    path.write_text(HOOKS)
    return path


def identity(path: Path) -> Path:
    """A node that every optimizer drops."""
    nodes = [helper.make_node("Identity", ["x"], ["i"]), helper.make_node("Relu", ["i"], ["y"])]
    value = helper.make_tensor_value_info
    return engine_nets.save(path, nodes, [value("x", 1, ["batch", 4])], [value("y", 1, ["batch", 4])], {})


def test_the_options_of_a_session_are_the_hooks_while_building_proving_and_running(hooks: Path, tmp_path: Path) -> None:
    model = identity(tmp_path / "m.onnx")
    backend = OnnxRuntime(hook=f"{hooks}:as_it_is")
    BuildEngine(backend, {"batch": [1, 2, 4]}).build({"model": model}, tmp_path / "out")
    calls: list[Any] = usercode.resolve(f"{hooks}:calls")
    assert len(calls) == 2  # built, and opened to prove it

    form = open_built(tmp_path / "out", backend, onnxmodel.summary(model), {"batch": [1, 2, 4]}, "engine")
    form.run(onnxmodel.feeds(onnxmodel.summary(model), {"batch": 2}))

    assert len(calls) == 3
    assert onnxmodel.summary(tmp_path / "out")["operators"] == {"Identity": 1, "Relu": 1}


def test_a_hook_of_a_session_that_raises_is_named(hooks: Path, tmp_path: Path) -> None:
    node = BuildEngine(OnnxRuntime(hook=f"{hooks}:failing"), {"batch": 2})

    with pytest.raises(NodeFailed, match=r"hook '.*:failing' raises at .*: ValueError: no such option"):
        node.build({"model": identity(tmp_path / "m.onnx")}, tmp_path / "out")


def test_a_hook_changes_the_configuration_of_the_builder(hooks: Path, tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")
    backends = {
        "plain": TensorRTRTX("8.9"),
        "raw": TensorRTRTX("8.9", raw={"profiling_verbosity": "DETAILED"}),
        "hook": TensorRTRTX("8.9", hook=f"{hooks}:detailed"),
    }

    for name, backend in backends.items():
        assert build(BuildEngine(backend, {"batch": [1, 4, 8]}), model, tmp_path / name).error == ""

    assert (tmp_path / "hook").read_bytes() == (tmp_path / "raw").read_bytes() != (tmp_path / "plain").read_bytes()


def test_a_hook_of_the_builder_that_raises_is_named(hooks: Path, tmp_path: Path) -> None:
    node = BuildEngine(TensorRTRTX("8.9", hook=f"{hooks}:missing"), {"batch": 4})

    done = build(node, engine_nets.linear(tmp_path / "m.onnx"), tmp_path / "out")

    assert f"hook '{hooks}:missing' raises at " in done.message
    assert "in missing: KeyError: \"layer 'head' of " in done.message
