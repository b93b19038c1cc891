"""A project whose image is made of packages of a few bytes, from a mirror and an index that are folders."""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mobuild.image import debian
from tests.image.packages import deb, wheel
from tests.projects import Project

LAYERS = {"image_base", "image_python", "image_deps", "image_app", "image_model", "image"}
PROOFS = {"image_proof", "image_sbom"}
# Of another machine than the tests', so that no byte code is made of packages that hold none.
ARCHITECTURE = "arm64" if platform.machine() == "x86_64" else "amd64"


class World:
    """A project at one ONNX file, and where its packages come from."""

    def __init__(self, root: Path) -> None:
        self.root, self.project = root, Project(root / "project", root / "cache")
        self.mirror, self.index = root / "mirror", root / "index"
        if self.index.exists():
            return
        self.project.write("recipes/toy.yaml", RECIPE)
        self.model(1.0)
        self.lock()

    def model(self, gain: float) -> None:
        weights = numpy_helper.from_array(np.full((8, 4), gain, np.float32), "w")
        tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", s]) for n, s in (("x", 8), ("y", 4))]
        node = helper.make_node("MatMul", ["x", "w"], ["y"], name="first")
        graph = helper.make_graph([node], "toy", tensors[:1], tensors[1:], [weights])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.save(made, str(self.project.root / "toy.onnx"))

    def lock(self) -> None:
        pool, pins = self.mirror / "debian/pool", {}
        pool.mkdir(parents=True)
        for name in (*debian.BASE, *debian.PYTHONS):
            files = {f"usr/share/doc/{name}/copyright": b"free", f"lib/aarch64-linux-gnu/{name[:5]}.so.1": b"code"}
            if name == "python3.11-minimal":
                files["usr/bin/python3.11"] = b"code"
            if name == "libpython3.11-stdlib":
                files["usr/lib/python3.11/json/__init__.py"] = b"'json'\n"
            path = deb(pool / f"{name}_1_{ARCHITECTURE}.deb", files)
            pins[f"deb:bookworm/{ARCHITECTURE}/{name}"] = pin(path, "1", f"debian/pool/{path.name}")
        self.index.mkdir()
        machine = {"arm64": "aarch64", "amd64": "x86_64"}[ARCHITECTURE]
        for name, version in (("onnxruntime", "1.99.0"), ("numpy", "2.0.0")):
            info = f"{name}-{version}.dist-info"
            files = {
                f"{name}/__init__.py": b"x = 1\n",
                f"{name}/tests/test_x.py": b"",
                f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nLicense: MIT\n".encode(),
                f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_28_{machine}\n".encode(),
                f"{info}/RECORD": b"",
            }
            path = wheel(self.index / f"{name}-{version}-cp311-cp311-manylinux_2_28_{machine}.whl", files)
            pins[f"wheel:onnxruntime/cp311/{ARCHITECTURE}/{name}"] = pin(path, version, path.name)
        self.project.write("recipes/toy.lock", json.dumps({"schema": 1, "sources": pins}))

    @property
    def words(self) -> tuple[str, ...]:
        return ("target=image", f"image.architecture={ARCHITECTURE}", f"image.mirror=file://{self.mirror}")

    @property
    def variables(self) -> dict[str, str]:
        return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index), "PIP_CONFIG_FILE": "/dev/null"}

    def built(self, *words: str) -> set[str]:
        self.project.mobuild(*self.words, *words, env=self.variables)
        return {name for name, state in self.states().items() if state == "built"}

    def states(self) -> dict[str, str]:
        return {name: node["state"] for name, node in json.loads(self.run.read_bytes())["nodes"].items()}

    @property
    def run(self) -> Path:
        runs = (self.project.root / "build/toy").glob("*/run.json")
        return max(runs, key=lambda path: path.stat().st_mtime_ns)

    @property
    def image(self) -> dict[str, Any]:
        return json.loads((self.run.parent / "image.tar.json").read_bytes())["measurements"]  # type: ignore[no-any-return]


RECIPE = """\
# @package _global_
defaults:
  - /recipe/standard
  - _self_
nodes:
  onnx: {kind: source, uri: toy.onnx}
shapes: {batch: [1, 2, 4]}
"""


def pin(path: Path, version: str, place: str) -> dict[str, Any]:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return {"sha256": digest, "size_bytes": len(content), "version": version, "place": place}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world with its image."""
    world = World(tmp_path_factory.mktemp("image"))
    assert world.built() >= LAYERS | PROOFS
    return world


@pytest.fixture
def world(first: World, tmp_path: Path) -> World:
    """The same once more, to change."""
    shutil.copytree(first.root, tmp_path / "world")
    return World(tmp_path / "world")


def in_tar(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The configuration of an image, and the paths in all its layers."""
    with tarfile.open(path) as archive:

        def member(name: str) -> Any:
            return archive.extractfile(name)

        told = json.load(member("manifest.json"))[0]
        config = json.load(member(told["Config"]))
        names: list[str] = []
        for layer in told["Layers"]:
            with tarfile.open(fileobj=member(layer)) as inner:
                names += [each.name for each in inner if not each.isdir()]
    return config, names


def in_layers(path: Path) -> bytes:
    """All that an image holds, unpacked: its configuration, names and contents of files."""
    with tarfile.open(path) as archive:
        blobs = [archive.extractfile(each) for each in archive if each.isfile()]
        return b"".join(unpacked(blob.read()) for blob in blobs if blob)


def unpacked(blob: bytes) -> bytes:
    return gzip.decompress(blob) if blob.startswith(b"\x1f\x8b") else blob
