"""What a plan looked at: the files, folders and variables whose change could change the plan.

`noop` compares them to repeat an answer without planning. Too many witnesses cost a little time, one too few
a stale answer, so whole folders are named where the planner may have looked for something that is not there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mobuild.conditions import Surroundings
from mobuild.keys import Keys
from mobuild.sources import SourceContent
from mobuild.steps import Plan, Step
from mobuild.store import Condition, Record, Store
from mobuild.toolchain import Environment

_PACKAGE = str(Path(__file__).parent)
_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0")  # whether an engine can run here decides real or proxy


@dataclass(frozen=True)
class Witnesses:
    """Paths (absent ones too) and environment variables."""

    paths: frozenset[str]
    variables: frozenset[str]


def of_plan(plan: Plan, store: Store, keys: Keys) -> Witnesses:
    """The witnesses of a plan whose steps are all fresh, those of its configuration included."""
    environments = _environments(plan, keys)
    paths = _paths(plan, store, keys, environments)
    records = [step.record for step in plan.steps.values() if step.record and step.record.conditions]
    variables = {one.name for record in records for one in record.conditions if one.kind == "environment"}
    variables.update(name for each in environments for name in each.variables)
    for job in plan.jobs:
        paths.update(job.settings.witnesses)
        variables.update(job.settings.variables)
    return Witnesses(frozenset(paths), frozenset(variables))


def is_volatile(seen: Witnesses, plan: Plan) -> bool:
    """Whether the configuration asks for the time or the GPU that is here, so that no answer stays right; or a node
    would do better where this machine had more to do it with."""
    if any(job.settings.asked_device for job in plan.jobs):
        return True
    if any(getattr(step.spec.node, "is_passing", False) for step in plan.steps.values()):
        return True
    return any(b"${now:" in _content(path) for path in seen.paths if path.endswith(".yaml"))


def _content(path: str) -> bytes:
    """Of a file; nothing of what is none."""
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read()
    except OSError:
        return b""


def _paths(plan: Plan, store: Store, keys: Keys, environments: Iterable[Environment]) -> set[str]:
    """As text: thousands of steps share most of their paths, and those of the store come from digests."""
    found = {f"{store.root}/format", *_DEVICES, *_tree(_PACKAGE)}
    for environment in environments:
        found.update((str(environment.python), *environment.paths, *environment.files))
    for job in plan.jobs:
        found.add(str(job.lock))
    for step in plan.steps.values():
        for way in step.ways:
            found.update((str(way.spec.folder), str(way.spec.root)), way.traits.folders)
            for path in way.traits.files:
                found.update((str(path), str(path.parent)))
        if step.source:
            found.update(map(str, _of_source(step.source)))
        if step.record:
            found.update(_of_record(step.record, store))
            if step.record.conditions:
                found.update(_of_conditions(step, step.record.conditions, keys))
    return found


def _environments(plan: Plan, keys: Keys) -> Collection[Environment]:
    """All that the plan asked for, and those of sources, of which it need not know them."""
    for step in plan.steps.values():
        if step.source:
            keys.environment(step.spec)
    return keys.environments


def _of_source(source: SourceContent) -> Iterator[Path]:
    yield source.main
    for path in source.files.values():
        yield from (path, path.parent)
    if source.is_folder:
        yield from (path for path in source.main.rglob("*") if path.is_dir())


def _of_record(record: Record, store: Store) -> Iterator[str]:
    yield store.records.place_of(record)
    digest = record.artifact.digest
    yield store.objects.blobs.place_of(digest)
    if record.artifact.is_folder:
        yield from map(store.objects.blobs.place_of, store.objects.listing(digest).values())


def _of_conditions(step: Step, conditions: Sequence[Condition], keys: Keys) -> Iterator[str]:
    root = step.spec.root
    for one in conditions:
        if one.kind in ("file", "folder", "presence", "module", "link"):
            yield str(root / one.name)
        if one.kind in ("link", "import"):
            place = root / (one.name if one.kind == "link" else one.value)
            yield from (str(place), str(place.parent))
    if imports := [one.name for one in conditions if one.kind == "import"]:
        yield from Surroundings(root, step.spec.folder, keys.environment(step.spec)).looked(imports)


def _tree(folder: str) -> Iterator[str]:
    """A folder with its sub-folders and files, byte code aside."""
    yield folder
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".yaml")):
                yield entry.path
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _tree(entry.path)
