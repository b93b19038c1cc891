"""A state of the project that is not the one at hand: another revision, the working tree, a run.

A revision is planned by mobuild itself, in a folder of its own, with the words of the job.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mobuild.errors import ConfigError, MobuildError, NodeFailed
from mobuild.firstparty import PACKAGE
from mobuild.job import Job
from mobuild.keys import Keys
from mobuild.report.comparison import Node, Side
from mobuild.revisions import commit, counterparts, unpacked
from mobuild.store import Record, Store, runs
from mobuild.store.record import file_name

_HERE = (".", "worktree")
# Keys that steer one verb and say nothing of what is built.
_STEERING = ("against", "format", "compare", "report", "frozen", "here", "debug", "keep_going", "gc", "verify", "pin")


def words_of(job: Job) -> list[str]:
    """What was said of the job, without what steers a verb."""
    return [word for word in job.overrides if re.split(r"[.=]", word.lstrip("+~"), maxsplit=1)[0] not in _STEERING]


def answer(folder: Path, job: Job, place: str, module: str, words: Sequence[str]) -> Any:
    """The JSON that a program of mobuild's prints in `folder`; a plan with blocked steps is one, too.

    Raises:
        ConfigError: it prints none; `place` says where that was.
    """
    done = _run(folder, job, module, words)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        said, _, hint = done.stderr.strip().removeprefix("error: ").replace(f"{folder}/", "").partition("\n")
        hint = hint.replace("\n  ", "\n").strip()
        raise ConfigError(f"{place}, these words cannot be composed: {said}", hint) from error


@contextmanager
def side(asked: str, job: Job, store: Store, build: bool = False) -> Iterator[Side]:
    """What `asked` means for `job`: a run by its name, `.` for the working tree, or a revision.

    With `build`, what is missing is built first. While this lasts the revision's files are there.

    Raises:
        ConfigError: no such revision, or the job means nothing there.
        StoreError: no such run.
        NodeFailed: it has no such variant, or its build failed.
    """
    if runs.is_name(asked):
        yield _of_run(asked, job, store)
    elif asked in _HERE:
        yield _planned(asked, "the working tree", job.settings.project, job, store, build)
    else:
        told = f"{asked} (commit {commit(asked, job.settings.project)[:8]})"
        with unpacked(asked, job.settings.project, (job.settings.build, job.settings.cache)) as folder:
            yield _planned(asked, told, folder, job, store, build)


def _of_run(name: str, job: Job, store: Store) -> Side:
    members = store.runs.get(name, job.settings.project)
    own = [one for one in members if (one.recipe, one.variant) == (job.recipe, job.variant)]
    if not own:
        known = ", ".join(dict.fromkeys(f"{one.recipe}/{one.variant}" for one in members)) or "nothing"
        raise NodeFailed(
            f"run {name!r}: has no {job.recipe}/{job.variant}; it has {known}", "say recipe= and hardware="
        )
    records = {one.node: store.runs.record(store.records, one, members[one]) for one in own}
    nodes = {node: _node(store, record.fingerprint.kind, "fresh", (), record) for node, record in records.items()}
    return Side(name, f"run {name}", nodes)


def _planned(asked: str, told: str, folder: Path, job: Job, store: Store, build: bool) -> Side:
    place = "here" if asked in _HERE else f"at {asked}"
    words, plan = _plan(folder, job, place)
    if build and any(step["state"] not in ("fresh", "blocked") for step in plan["steps"]):
        done = _run(folder, job, "mobuild", [*words, "++constraints.against=null"])
        if done.returncode not in (0, 1):
            raise NodeFailed(f"{place}, the build failed: {done.stderr.strip()}")
        sys.stderr.write(done.stderr)
        words, plan = _plan(folder, job, place)
    keys = answer(folder, job, place, "mobuild.config.origins", words_of(job))
    builds = "" if build else f"compare.build=true builds it, as mobuild {shlex.join(words)} does there"
    return Side(asked, told, _nodes(plan, store), keys, builds)


def _plan(folder: Path, job: Job, place: str) -> tuple[list[str], Any]:
    """The plan there, and its words: of what was asked for, else of the engine with its validation where it has one."""
    words = words_of(job)
    plain = ["++constraints.against=null"]  # which would look for a third revision
    tries = [["target=[engine,validation]"], []]
    if any(word.startswith("target=") for word in words):
        tries = [[]]
    for number, more in enumerate(tries):
        try:
            plan = answer(folder, job, place, "mobuild", ["plan", "format=json", *words, *more, *plain])
            return [*words, *more], plan
        except ConfigError:
            if number + 1 == len(tries):
                raise
    raise AssertionError


def _nodes(plan: Any, store: Store) -> dict[str, Node]:
    found = {}
    for step in plan["steps"]:
        for name in step["names"]:
            node = _node(store, step["kind"], step["state"], tuple(step["reasons"]), _record(store, step["record"]))
            found[name] = replace(node, code=step["code"], code_files=step["code_files"], content=step["content"])
    return found


def _record(store: Store, name: str | None) -> Record | None:
    key, _, file = (name or "").partition("/")
    return next((one for one in store.records.find(key) if file_name(one.conditions) == file), None) if key else None  # type: ignore[arg-type]


def _node(store: Store, kind: str, state: str, reasons: tuple[str, ...], record: Record | None) -> Node:
    scores = _scores(store, record) if record and kind == "validate" else {}
    return Node(kind, state, reasons, record, scores=scores)


def _scores(store: Store, record: Record) -> Mapping[str, Any]:
    """What the artifact of a validation keeps beside its measurements; empty for one of an older mobuild."""
    try:
        document = json.loads(store.objects.path(record.artifact.digest).read_bytes())
        found = {key: document[key] for key in ("samples_digest", "scores")}
        return found if isinstance(found["scores"], dict) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _own_packages(folder: Path, job: Job) -> list[str]:
    """The folders of a revision that the job's interpreters have as packages in the working tree (`pip install -e .`):
    what is imported from them must be of the revision, too."""
    store = Store.open(job.settings.cache, make=False)
    keys, paths = Keys(store.local, store.files), list[str]()
    for spec in job.graph.nodes.values():
        with suppress(MobuildError):  # which planning there tells
            paths += keys.environment_of(spec).paths
    mine = str(Path(PACKAGE).parent)
    return counterparts([path for path in dict.fromkeys(paths) if path != mine], job.settings.project, folder)


def _run(folder: Path, job: Job, module: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    cache = str(job.settings.cache).replace("'", "\\'").replace("${", "\\${")  # over one said from that folder on
    # -P: a queue.py of the project's is not Python's
    command = [sys.executable, "-P", "-m", module, *words, f"cache.dir='{cache}'"]
    environment = {**os.environ, "MOBUILD_CACHE": str(job.settings.cache)}
    if folder != job.settings.project and (own := _own_packages(folder, job)):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [*own, os.environ.get("PYTHONPATH")]))
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
