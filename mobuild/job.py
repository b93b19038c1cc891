"""What one point of a sweep asks for: plain values that `config` makes and the verbs work on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobuild.contract.findings import Finding
from mobuild.contract.request import Machine
from mobuild.fetch.uris import scrubbed
from mobuild.graph import Graph
from mobuild.hardware import Hardware

_OF_BUILD = (
    "target",
    "keep_going",
    "debug",
    "frozen",
    "here",
    "report.junit",
)  # keys that mean nothing to a verb that takes one node


@dataclass(frozen=True)
class Upkeep:
    """Options of the verbs that look after the cache."""

    size_bytes: int | None = None  # gc.size
    age_seconds: int | None = None  # gc.age
    dry_run: bool = False  # gc.dry_run
    rebuild: bool = False  # verify.rebuild
    remove: bool = False  # pin.remove


@dataclass(frozen=True)
class Checking:
    """What rules are told beside the configuration itself."""

    strict: bool = False  # check.strict: warnings are errors
    ignore: tuple[str, ...] = ()  # check.ignore: codes that are not heard
    parser: bool = False  # check.parser: ask TensorRT-RTX's own parser as well
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True)
class Publishing:
    """Where a built image goes, None for nowhere, and whether also one that was judged by proxy."""

    push: str | None = None
    push_unproven: bool = False


@dataclass(frozen=True)
class Settings:
    """What steers a run and enters no key."""

    cache: Path
    build: Path
    project: Path
    strict: bool
    keep_going: bool
    frozen: bool  # fail where anything would be built
    here: bool  # leave what this machine cannot build
    debug: bool  # run stale nodes in mobuild's own process, for a debugger
    compare_build: bool  # compare.build
    junit: Path | None  # report.junit: where a build tells its nodes as test cases
    offline: bool  # ask no network: what is to be fetched must be in the cache
    format: str
    against: str | None  # a git revision, for `why`
    slots: int | None
    timeout_seconds: float | None
    witnesses: frozenset[str]  # what the configuration was read from, absent files too
    variables: frozenset[str]  # environment variables that it read
    secrets: tuple[str, ...]  # names and patterns of variables whose values are written nowhere
    asked_device: bool  # whether the GPU of this machine decided something
    upkeep: Upkeep = Upkeep()
    checking: Checking = Checking()
    publishing: Publishing = Publishing()


@dataclass(frozen=True)
class Job:
    """One point of a sweep: what to build, for which hardware, and what it is called."""

    recipe: str
    variant: str
    root: Path  # where the recipe's relative paths start
    graph: Graph
    hardware: Hardware
    constraints: Mapping[str, Any]
    lock: Path  # the file of the recipe's pinned sources
    overrides: tuple[str, ...]
    settings: Settings

    @property
    def shown(self) -> tuple[str, ...]:
        """The overrides as they may be shown and written: URLs without credentials."""
        return tuple(map(scrubbed, self.overrides))

    @property
    def words(self) -> str:
        """What to write after a verb to mean this job again."""
        given = [word for word in self.shown if not word.startswith("recipe=") or not self._is_model]
        return shlex.join(word.removeprefix("++") for word in given)

    def words_for(self, node: str) -> str:
        """What to write after a verb that takes one node of this job."""
        given = (word for word in shlex.split(self.words) if word.partition("=")[0] not in _OF_BUILD)
        return shlex.join([node, *given])

    @property
    def _is_model(self) -> bool:
        """Whether a model stands for the recipe."""
        return any(word.startswith("model=") and word != "model=null" for word in self.overrides)


@dataclass(frozen=True)
class Unmade:
    """A point of a sweep that becomes no job, since rules refuse what it asks for; `check` tells of it."""

    recipe: str
    variant: str
    lock: Path
    settings: Settings
    findings: tuple[Finding, ...]
