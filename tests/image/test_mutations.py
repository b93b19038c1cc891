"""What of an image is made again after a change: what it can change, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mobuild.image import debian
from tests.image.packages import deb
from tests.image.worlds import ARCHITECTURE, World, pin

PROOFS = {"image_proof", "image_sbom"}
ABOVE = {*PROOFS, "image"}
COMPRESSED = {"image_base", "image_python", "image_deps", "image_app"}


@dataclass(frozen=True)
class Row:
    """A change, by words or to the project, and the nodes that run after it."""

    runs: set[str]
    words: tuple[str, ...] = ()
    change: Callable[[World], object] = lambda world: None


def _edit_lock(world: World, name: str, fields: dict[str, object]) -> None:
    lock = world.project.root / "recipes/toy.lock"
    document = json.loads(lock.read_bytes())
    document["sources"][name] = fields
    lock.write_text(json.dumps(document))


def _other_deb(world: World) -> None:
    """One package of the base has another content, at the same place."""
    path = world.mirror / f"debian/pool/{debian.BASE[0]}_1_{ARCHITECTURE}.deb"
    deb(path, {"usr/share/doc/base-files/copyright": b"other"})
    fields = pin(path, "1", f"debian/pool/{path.name}")
    _edit_lock(world, f"deb:bookworm/{ARCHITECTURE}/{debian.BASE[0]}", fields)


def _unused_pin(world: World) -> None:
    _edit_lock(world, "https://example.com/x", {"sha256": "0" * 64, "size_bytes": 1, "version": ""})


def _comment(world: World) -> None:
    world.project.edit("recipes/toy.yaml", "nodes:", "# a comment\nnodes:")


ROWS = {
    "nothing": Row(set()),
    "a comment of the recipe": Row(set(), change=_comment),
    "another pin of the lock file": Row(set(), change=_unused_pin),
    "another wish to push": Row(set(), ("image.push_unproven=true",)),
    "a budget": Row(set(), ("+constraints.image_mb=1000",)),
    "what may be there": Row({"image_proof"}, ("image.allow=[/nowhere]",)),
    "its name": Row({"image"}, ("image.name=toy:v2",)),
    "its format": Row({"image"}, ("image.format=layout",)),
    "no engine inside": Row(ABOVE, ("image.model=mount",)),
    "a verdict": Row({"image_model", *ABOVE}, ("+constraints.engine_mb=1000",)),
    "its compression": Row({*COMPRESSED, *ABOVE}, ("image.compression=none",)),
    "its time": Row({*COMPRESSED, "image_model", *ABOVE}, ("image.epoch=5",)),
    # The Python of the packages compiles all layers; those that come out equal stop there.
    "a package of the base": Row({"image_debs", *COMPRESSED, *ABOVE}, change=_other_deb),
}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("image"))
    world.built()
    return world


@pytest.mark.parametrize("name", ROWS)
def test_a_change_runs_what_it_can_change_and_its_revert_runs_nothing(name: str, first: World, tmp_path: Path) -> None:
    shutil.copytree(first.root, tmp_path / "world")
    world, row = World(tmp_path / "world"), ROWS[name]
    shutil.copytree(world.project.root / "recipes", tmp_path / "recipes")

    row.change(world)
    ran, again = world.built(*row.words), world.built(*row.words)
    shutil.rmtree(world.project.root / "recipes")
    shutil.copytree(tmp_path / "recipes", world.project.root / "recipes")

    assert (ran, again) == (row.runs, set())
    assert world.built() == set()
