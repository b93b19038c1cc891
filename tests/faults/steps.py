"""A small graph of commands, whose runs are counted in a file outside of it, and its store as a test sees it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mobuild
from mobuild.fingerprint import digest_file
from mobuild.store import Store
from mobuild.store.record import decode
from tests.projects import Project

NODES = ("one", "pair", "three", "last")
RECIPE = """\
# @package _global_
secrets: [RUNS]  # where runs are counted is no input
nodes:
  data: {kind: source, uri: data}
  one: {kind: command, cmd: "sh step.sh one {out} {in.data}/a.txt {in.data}/b.txt", needs: {data: data}, out: .txt}
  pair: {kind: command, cmd: "sh pair.sh {out} {in.one}", needs: {one: one}, out: folder}
  three: {kind: command, cmd: "sh step.sh three {out} {in.one} {in.a}", needs: {one: one, a: pair/a.bin}, out: .bin}
  last: {kind: command, cmd: "sh step.sh last {out} {in.three} {in.pair}/sub/b.bin", needs: {three: three, pair: pair}}
"""
STEP = """\
echo $1 >> "$RUNS"
echo building $1
name=$1 out=$2
shift 2
{ echo $name; cat "$@"; yes $name | head -c ${BYTES:-20}; } > "$out"
"""
PAIR = """\
echo pair >> "$RUNS"
mkdir "$1/sub"
{ cat "$2"; echo a; } > "$1/a.bin"
{ cat "$2"; echo b; yes b | head -c ${BYTES:-20}; } > "$1/sub/b.bin"
"""


@dataclass(frozen=True)
class Steps:
    """One project with the graph; `runs` may be shared by several."""

    project: Project
    runs: Path

    @property
    def env(self) -> dict[str, str]:
        return {"MOBUILD_CACHE": str(self.project.cache), "RUNS": str(self.runs)}

    @property
    def build_folder(self) -> Path:
        return self.project.root / "build" / "steps" / "cpu"

    def ran(self) -> Counter[str]:
        """How often each node ran since the file was last removed."""
        return Counter(self.runs.read_text().split()) if self.runs.exists() else Counter()

    def build(self, *targets: str) -> set[str]:
        """Build in this process, in the environment `env`; the nodes that ran.

        Raises:
            MobuildError: as `mobuild.build`.
        """
        self.runs.unlink(missing_ok=True)
        mobuild.build(targets or ("last", "pair"), project=self.project.root)
        return set(self.ran())

    def artifacts(self) -> dict[str, bytes]:
        """The artifacts in build/: every file but sidecars, run.json and hidden ones, by name."""
        files = [path for path in self.build_folder.rglob("*") if path.is_file()]
        names = {str(path.relative_to(self.build_folder)): path for path in files}
        return {
            name: path.read_bytes()
            for name, path in names.items()
            if not name.endswith(".json") and not name.startswith(".")
        }


def steps_project(root: Path, cache: Path | None = None, runs: Path | None = None) -> Steps:
    project = Project(root / "project", cache or root / "cache")
    for name, text in {"recipes/steps.yaml": RECIPE, "step.sh": STEP, "pair.sh": PAIR}.items():
        project.write(name, text)
    project.write("data/a.txt", "text a\n")
    project.write("data/b.txt", "text b\n")
    return Steps(project, runs or root / "runs")


def object_files(cache: Path) -> list[Path]:
    return sorted(path for path in (cache / "objects").glob("??/*"))


def record_files(cache: Path) -> list[Path]:
    return sorted((cache / "records").glob("??/*/*.json"))


def assert_whole(cache: Path) -> None:
    """Every object has the content that its name says; every record is one, and its objects are there."""
    for path in object_files(cache):
        assert digest_file(path) == path.parent.name + path.name, path
    store = Store.open(cache)
    try:
        for path in record_files(cache):
            record = decode(path.read_bytes())
            assert record.key == path.parent.name
            assert store.objects.holds(record.artifact.digest), path
            assert record.log is None or store.objects.holds(record.log), path
        assert store.warnings == []
    finally:
        store.files.close()


def assert_right(found: Mapping[str, bytes], wanted: Mapping[str, bytes], names: Sequence[str] = ()) -> None:
    """What lies in build/ is right; all of `names` lie there."""
    assert set(names) <= found.keys()
    for name, content in found.items():
        assert content == wanted[name], name


def run_states(steps: Steps) -> dict[str, str]:
    document = json.loads((steps.build_folder / "run.json").read_text())
    return {name: node["state"] for name, node in document["nodes"].items()}


def environment(steps: Steps, **more: str) -> dict[str, str]:
    return {**os.environ, **steps.env, **more}
