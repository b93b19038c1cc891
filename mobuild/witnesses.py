"""What a plan looked at: the files, folders and variables whose change could change the plan.

`noop` compares them to repeat an answer without planning. Too many witnesses cost a little time, one too few
a stale answer, so whole folders are named where the planner may have looked for something that is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mobuild.conditions import Surroundings
from mobuild.keys import Keys
from mobuild.steps import Plan, Step
from mobuild.store import Condition, Record, Store
from mobuild.toolchain import Environment

_PACKAGE = Path(__file__).parent
_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0")  # whether an engine can run here decides real or proxy


@dataclass(frozen=True)
class Witnesses:
    """Paths (absent ones too) and environment variables."""

    paths: frozenset[str]
    variables: frozenset[str]


def of_plan(plan: Plan, store: Store, keys: Keys) -> Witnesses:
    """The witnesses of a plan whose steps are all fresh, those of its configuration included."""
    environments = _environments(plan, keys)
    paths = set(_paths(plan, store, keys, environments))
    variables = {one.name for step in plan.steps.values() for one in _conditions(step, "environment")}
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
    files = (Path(path) for path in seen.paths if path.endswith(".yaml"))
    return any("${now:" in path.read_text(errors="replace") for path in files if path.is_file())


def _paths(plan: Plan, store: Store, keys: Keys, environments: Iterable[Environment]) -> Iterator[str]:
    """As text: thousands of steps share most of their paths, and those of the store come from digests."""
    for step in plan.steps.values():
        for way in step.ways:
            yield from (str(way.spec.folder), str(way.spec.root), *way.traits.folders)
        if step.record:
            yield from _of_record(step.record, store)
        if imports := [one.name for one in _conditions(step, "import")]:
            yield from Surroundings(step.spec.root, step.spec.folder, keys.environment(step.spec)).looked(imports)
    yield from map(str, _other_paths(plan, store, environments))


def _other_paths(plan: Plan, store: Store, environments: Iterable[Environment]) -> Iterator[Path]:
    yield from _tree(_PACKAGE)
    yield store.root / "format"
    yield from map(Path, _DEVICES)
    for job in plan.jobs:
        yield job.lock
    for step in plan.steps.values():
        yield from _read_by(step)
    for environment in environments:
        yield environment.python
        yield from map(Path, (*environment.paths, *environment.files))


def _environments(plan: Plan, keys: Keys) -> Collection[Environment]:
    """All that the plan asked for, and those of sources, of which it need not know them."""
    for step in plan.steps.values():
        if step.source:
            keys.environment(step.spec)
    return keys.environments


def _read_by(step: Step) -> Iterator[Path]:
    if step.source:
        yield step.source.main
        for path in step.source.files.values():
            yield from (path, path.parent)
        if step.source.is_folder:
            yield from (path for path in step.source.main.rglob("*") if path.is_dir())
    for way in step.ways:
        for path in way.traits.files:
            yield from (path, path.parent)
    if not step.record or not step.record.conditions:
        return
    for kind in ("file", "folder", "presence", "module"):
        yield from (step.spec.root / one.name for one in _conditions(step, kind))
    places = [one.name for one in _conditions(step, "link")] + [one.value for one in _conditions(step, "import")]
    for place in places:
        yield from (step.spec.root / place, (step.spec.root / place).parent)


def _of_record(record: Record, store: Store) -> Iterator[str]:
    yield store.records.place_of(record)
    digest = record.artifact.digest
    yield store.objects.blobs.place_of(digest)
    if record.artifact.is_folder:
        yield from map(store.objects.blobs.place_of, store.objects.listing(digest).values())


def _conditions(step: Step, kind: str) -> list[Condition]:
    return [one for one in step.record.conditions if one.kind == kind] if step.record else []


def _tree(folder: Path) -> Iterator[Path]:
    """A folder with its sub-folders and files, byte code aside."""
    yield folder
    for path in folder.iterdir():
        if path.is_dir() and path.name != "__pycache__":
            yield from _tree(path)
        elif path.suffix in (".py", ".yaml"):
            yield path
