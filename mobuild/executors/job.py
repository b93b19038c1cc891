"""What goes to a worker and what comes back, as values that are JSON on the way.

The worker itself reads and writes the plain documents (`mobuild.worker`); these types are for those
that send jobs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mobuild.container import Container


@dataclass(frozen=True)
class Job:
    """One node to build: all that a worker is told. Every path is absolute."""

    name: str
    node: Mapping[str, Any]  # mobuild.node.encode(node)
    inputs: Mapping[str, str]  # role → path of the artifact
    out: str  # where the artifact goes; does not exist yet
    folder: str  # the recipe's folder: first on the module search path
    project: str  # working directory: second on the module search path
    log: str
    known_files: tuple[str, ...] = ()  # inputs and closure: keyed already, never reported
    ignored_folders: tuple[str, ...] = ()  # store, staging, build/
    env: Mapping[str, str | None] = field(default_factory=dict)  # variables to set, or to unset: keyed already
    scratch: str = ""  # folder of what builders remember on this machine; empty: nothing
    secrets: tuple[str, ...] = ()  # more environment variables whose value is never recorded

    def document(self) -> dict[str, Any]:
        return {**vars(self)}


class Executor(Protocol):
    """Where nodes run."""

    def run(
        self,
        job: Job,
        *,
        isolated: bool,
        python: Path | None,
        timeout_seconds: float | None,
        container: Container | None,
    ) -> Outcome:
        """Build `job`, alone in a process when it is `isolated`; raises MobuildError."""

    def close(self) -> None:
        """End what still runs."""


@dataclass(frozen=True)
class Observed:
    """What a node read beyond its declared inputs and the static closure; `-` stands for absent.

    `folders` are digested by `observers.files.folder_digest`. In `environment`, `*` is the list of all
    names, and the digest `secret` means that the value was not looked at.
    """

    files: Mapping[str, str] = field(default_factory=dict)  # path → SHA-256
    folders: Mapping[str, str] = field(default_factory=dict)  # path → SHA-256 of the sorted names
    presence: Mapping[str, str] = field(default_factory=dict)  # path that was only looked for → `present`
    links: Mapping[str, str] = field(default_factory=dict)  # path → SHA-256 of where it leads; `present` when no link
    environment: Mapping[str, str] = field(default_factory=dict)  # name → SHA-256 of the value
    missing: Sequence[str] = ()  # modules that the user's code asked for and that are nowhere
    modules: Mapping[str, str] = field(default_factory=dict)  # first-party, loaded at run time → path
    sources: Mapping[str, str] = field(default_factory=dict)  # path of such a module → SHA-256 as run
    distributions: Mapping[str, str] = field(default_factory=dict)  # third-party, loaded → version
    programs: Mapping[str, str] = field(default_factory=dict)  # the same, of Pythons that the node started
    unsure: Sequence[str] = ()  # those of the files and folders that others than the node may have read


@dataclass(frozen=True)
class Outcome:
    """A node that was built."""

    seconds: float  # wall time of build()
    peak_rss_mib: float
    measurements: Mapping[str, Any]
    onnx: Mapping[str, Any]
    warnings: tuple[str, ...]
    observed: Observed
    observed_by: tuple[str, ...]  # the observers that were on to the end

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> Outcome:
        plain = {spec.name: document[spec.name] for spec in dataclasses.fields(Outcome)}
        plain["warnings"] = tuple(plain["warnings"])
        plain["observed_by"] = tuple(plain["observed_by"])
        plain["observed"] = Observed(**plain["observed"])
        return Outcome(**plain)
