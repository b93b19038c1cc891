"""TensorRT engines of a project: what is in their key, what is not. With doubles of the card and of the bindings.

The model is of bfloat16, for which no parity is measured, so no plan is opened.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import engine_nets
import fake_gpu
import pytest
from onnx import TensorProto

from tests.projects import Project

WORDS = ("target=engine", "model=det.onnx", "nodes.engine.needs.model=onnx", "hardware=l4", "backend=tensorrt")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_gpu.compiled(tmp_path_factory.mktemp("driver"))


class Card:
    """A project on a machine with an L4 and TensorRT 10.16."""

    def __init__(self, folder: Path, driver: Path) -> None:
        self.project = Project(folder / "project", folder / "cache")
        self.project.write("conf/project/default.yaml", "# @package _global_\nshapes: {batch: [1, 4, 8]}\n")
        engine_nets.linear(self.project.root / "det.onnx", TensorProto.BFLOAT16)
        doubles = str(Path(__file__).parent / "doubles")
        path = os.pathsep.join([doubles, *filter(None, [os.environ.get("PYTHONPATH")])])
        own = {"LD_LIBRARY_PATH": str(driver), "PYTHONPATH": path, "DOUBLE_TENSORRT": "10.16.1.11"}
        self.environment = {**own, **fake_gpu.L4}

    def state(self, *words: str, **environment: str) -> str:
        """Build, and say whether the engine was fresh or built."""
        self.folder = Path(self.project.mobuild(*WORDS, *words, env={**self.environment, **environment}).out.strip())
        document = json.loads((self.project.root / self.folder).with_name("run.json").read_text())
        return str(document["nodes"]["engine"]["state"])

    def measured(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(f"{self.project.root / self.folder}.json").read_text())["measurements"]
        return found


@pytest.fixture
def card(tmp_path: Path, driver: Path) -> Card:
    return Card(tmp_path, driver)


def test_driver_and_timing_cache_are_recorded_and_not_keyed(card: Card) -> None:
    assert card.state() == "built"
    (slot,) = [path for path in card.project.cache.glob("local/*/scratch/*") if path.suffix != ".lock"]

    slot.write_text("10.16.1.11\nkernel 7")

    assert card.state(GPU_CUDA="13020") == "fresh"
    assert card.measured()["driver_cuda"] == "13.0"


def test_builds_of_other_options_share_the_timing_cache_of_the_machine(card: Card) -> None:
    card.state()
    first = card.measured()["timing_cache"]["after"]

    assert card.state("backend.builder_optimization_level=5") == "built"

    assert card.measured()["timing_cache"]["before"] == first


def test_plugins_count_by_their_content(card: Card) -> None:
    card.project.write("lib/a.so", "one")
    card.project.write("lib/b.so", "one")
    assert card.state("backend.plugins=[lib/a.so]") == "built"

    assert card.state("backend.plugins=[lib/b.so]") == "fresh"

    card.project.write("lib/b.so", "two")
    assert card.state("backend.plugins=[lib/b.so]") == "built"


def test_a_plugin_that_a_node_makes_is_loaded_and_taken_along(card: Card) -> None:
    card.project.write("swirl.txt", "one")
    plugin = ("nodes.swirl.kind=command", "nodes.swirl.cmd='cp swirl.txt {out}'", "nodes.swirl.out=.so")

    assert card.state(*plugin, "plugins.swirl=swirl") == "built"

    engine = card.project.root / card.folder
    assert json.loads((engine / "engine.plan").read_text())["plugins"] == ["one"]
    assert (engine / "libraries" / "plugin_swirl.so").read_text() == "one"
    card.project.write("swirl.txt", "two")
    assert card.state(*plugin, "plugins.swirl=swirl") == "built"


def test_a_pinned_timing_cache_counts_by_its_content(card: Card) -> None:
    card.project.write("l4.cache", "10.16.1.11\nkernel 1")
    assert card.state("backend.timing_cache=l4.cache") == "built"
    assert card.state("backend.timing_cache=l4.cache") == "fresh"

    card.project.write("l4.cache", "10.16.1.11\nkernel 2")

    assert card.state("backend.timing_cache=l4.cache") == "built"


@pytest.mark.parametrize(
    ("level", "state"), [("none", "built"), ("same_compute_capability", "fresh"), ("ampere_plus", "fresh")]
)
def test_cards_of_a_family_share_an_engine(card: Card, level: str, state: str) -> None:
    word = f"backend.hardware_compatibility={level}"
    assert card.state(word) == "built"

    assert card.state(word, "hardware=l20", **fake_gpu.L20) == state


def test_memory_is_told_beside_that_of_the_last_build(card: Card) -> None:
    card.project.write("lib/a.so", "one")
    card.state("backend.plugins=[lib/a.so]")
    assert "host_persistent_bytes_before" not in card.measured()
    card.project.write("lib/a.so", "two")

    assert card.state("backend.plugins=[lib/a.so]") == "built"

    assert card.measured()["host_persistent_bytes_before"] == 19024


def test_an_engine_is_never_taken_for_another_release(card: Card, tmp_path: Path) -> None:
    """trt-version-mismatch: TensorRT#3898; each release, and each build of it, has an engine of its own."""

    def state(version: str, build: str = "") -> str:
        name = f"tensorrt-{version}{build}"
        (tmp_path / name / f"{name}.dist-info").mkdir(parents=True, exist_ok=True)
        metadata = f"Metadata-Version: 2.1\nName: tensorrt\nVersion: {version}{build}\n"
        (tmp_path / name / f"{name}.dist-info" / "METADATA").write_text(metadata)
        path = os.pathsep.join([str(tmp_path / name), card.environment["PYTHONPATH"]])
        return card.state(PYTHONPATH=path, DOUBLE_TENSORRT=version)

    assert [state("10.16.1.11"), state("10.9.0.34"), state("10.16.1.11", ".post1")] == ["built"] * 3
    assert [state("10.16.1.11"), state("10.9.0.34")] == ["fresh"] * 2
    assert card.measured()["builder"] == "TensorRT 10.9.0.34"
