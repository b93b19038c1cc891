"""What images weigh and take: `python -m tests.benchmarks.images`, with apt and an index at hand.

The image of crepe_tiny for ONNX Runtime on a CPU, cold but for its packages; then another engine of 25 MB.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from mobuild.image import layers, writer
from mobuild.image.tree import Tree
from tests.projects import Project

RECIPES = Path(__file__).parents[2] / "recipes"
OTHERS = ("image_base", "image_python", "image_deps", "image_app")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(RECIPES, root / "project/recipes", ignore=shutil.ignore_patterns("minilm*"))
        project = Project(root / "project", root / "cache")
        project.write("pyproject.toml", '[tool.mobuild]\nrecipe = "crepe_tiny"\n')
        project.mobuild("lock", "target=image")
        project.mobuild("target=[validation,image_model,image_debs,image_wheels]")
        for compression, seconds in (("gzip", 20), ("zstd", 6)):
            begun = time.perf_counter()
            done = project.mobuild(f"target=[image,{','.join(OTHERS)}]", f"image.compression={compression}")
            row(f"cold, wheels cached, {compression}", time.perf_counter() - begun, "s", seconds)
            image = next(Path(line) for line in done.out.splitlines() if line.endswith("image.tar"))
            told = json.loads(image.with_name("image.tar.json").read_bytes())["measurements"]
            row(f"compressed, {compression}", (told["image_bytes"] - told["layers"]["model"]) / 1e6, "MB", 42)
        row("on disk", (told["plain_bytes"] - told["layers"]["model"]) / 1e6, "MB", 122)
        found = [layer for name in OTHERS for layer in layers.read(image.with_name(name))]
        row("another engine of 25 MB", engine_only(found, root), "s", 1)


def engine_only(found: list[layers.Layer], root: Path) -> float:
    """Seconds to write the layer of another engine and the image around it, without mobuild's start."""
    tree = Tree()
    tree.file("model/engine.plan", os.urandom(25_000_000))
    begun = time.perf_counter()
    model = layers.write(tree, root / "model", "model", 0, "none")
    writer.write_tar(writer.Image("x:latest", [*found, model]), root / "image.tar")
    return time.perf_counter() - begun


def row(what: str, value: float, unit: str, aim: float) -> None:
    print(f"{what:32} {value:8.2f} {unit:2}  aim {aim}", flush=True)


if __name__ == "__main__":
    main()
