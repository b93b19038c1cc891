"""`mobuild why against=REV`: what differs from another revision of the project, with the files that say so.

The other revision is planned by mobuild itself, in a folder of its own, with the same words.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.conditions import changed
from mobuild.errors import SourceError
from mobuild.fingerprint import Change
from mobuild.job import Job
from mobuild.report.terminal import label
from mobuild.revisions import unpacked
from mobuild.sources import local_digest
from mobuild.store import StatCache
from mobuild.verbs.session import Session
from mobuild.verbs.sides import answer, words_of
from mobuild.whereabouts import listed, located

_OF_THE_PROJECT = ("file", "folder", "presence", "link", "module")


@dataclass(frozen=True)
class Difference:
    """One change since a revision, and where it stands: a file of the configuration, or a node."""

    place: str
    change: Change

    def __str__(self) -> str:
        return f"{self.place}: {self.change}"


def against(jobs: Sequence[Job]) -> int:
    """Print the keys that resolve differently and the code and files that differ.

    Raises:
        ConfigError: there is no such revision, or the same words mean nothing there.
    """
    settings = jobs[0].settings
    assert settings.against
    found: list[Difference] = []
    with unpacked(settings.against, settings.project, (settings.build, settings.cache)) as other:
        for job in jobs:
            here, there = (_Side.of(job, folder) for folder in (settings.project, other))
            found += [*_keys(there, here), *_nodes(there, here), *_observed(job, other)]
    found = list(dict.fromkeys(found))
    if settings.format == "json":
        rows = [{"place": one.place, **one.change.document()} for one in found]
        print(json.dumps({"schema": 1, "against": settings.against, "changes": rows}, indent=2, ensure_ascii=False))
        return 0
    for one in found:
        print(one)
    if not found:
        print(f"nothing differs from {settings.against}")
    return 0


@dataclass(frozen=True)
class _Side:
    """One state of the project: every key with its value and file, every node with what it is made of."""

    keys: Mapping[str, tuple[Any, str]]
    nodes: Mapping[str, Mapping[str, Any]]
    folder: Path

    def listing(self, place: str) -> Mapping[str, str] | None:
        """The files of a folder of this state; None where there is none that can be read."""
        try:
            return local_digest(self.folder / place, StatCache(None)).listed or None
        except SourceError:
            return None

    @staticmethod
    def of(job: Job, folder: Path) -> _Side:
        words = words_of(job)
        place = "here" if folder == job.settings.project else f"at {job.settings.against}"
        keys = answer(folder, job, place, "mobuild.config.origins", words)
        plan = answer(folder, job, place, "mobuild", ["plan", "format=json", *words])
        return _Side(keys, {name: step for step in plan["steps"] for name in step["names"]}, folder)


def _keys(there: _Side, here: _Side) -> list[Difference]:
    absent = ("-", "")
    names = sorted(there.keys.keys() | here.keys.keys())
    pairs = [(name, there.keys.get(name, absent), here.keys.get(name, absent)) for name in names]
    return [
        Difference(new[1] or old[1], Change(name, _shown(old[0]), _shown(new[0])))
        for name, old, new in pairs
        if old[0] != new[0]
    ]


def _nodes(there: _Side, here: _Side) -> list[Difference]:
    """Code and content of the nodes on both sides; their parameters are keys already."""
    found = []
    for node in here.nodes:
        old, new = there.nodes.get(node, {}), here.nodes[node]
        name = new["node"]
        for part in ("code", "toolchain"):
            before, after = old.get(part, {}), new.get(part, {})
            changed = [one for one in sorted(before.keys() | after.keys()) if before.get(one) != after.get(one)]
            files = {**old.get("code_files", {}), **new["code_files"]} if part == "code" else {}
            changes = [Change(f"{part}.{one}", before.get(one, "-"), after.get(one, "-")) for one in changed]
            found += [Difference(name, each) for each in located(changes, files, {}, lambda _: None)]
        if old.get("content") and new.get("content") and old["content"] != new["content"]:
            where = listed(new["content_file"], *(side.listing(new["content_file"]) for side in (there, here)))
            found.append(Difference(name, Change("content", old["content"], new["content"], where)))
    return found


def _observed(job: Job, other: Path) -> list[Difference]:
    """What the last builds here read of the project beyond that, where it is not the same there: code that was loaded
    by a computed name or from a path of its own, files that are declared nowhere."""
    session = Session.open([job])
    found = []
    plan = session.plan([job])
    for step in plan.steps.values():
        last = session.planner.last(step)
        read = [one for one in last.conditions if one.kind in _OF_THE_PROJECT] if last else []
        own = [one for one in read if not Path(one.name).is_absolute()]
        here = session.planner.surroundings(step.spec)
        there = dataclasses.replace(here, root=other)
        name = label(plan, step)
        found += [Difference(name, change) for change in changed(own, there, here, StatCache(None))]
    return found


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
