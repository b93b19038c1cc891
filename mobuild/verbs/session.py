"""What every verb that looks at artifacts opens: the store, the planner, the contracts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mobuild import judging
from mobuild.contract.findings import Finding
from mobuild.job import Job
from mobuild.keys import Keys
from mobuild.planner import Planner
from mobuild.report import messages
from mobuild.steps import Plan
from mobuild.store import Store
from mobuild.verbs.baselines import resolved


@dataclass(frozen=True)
class Session:
    """One command's store and planner. All jobs of a command share the settings of the first."""

    store: Store
    keys: Keys
    planner: Planner

    @staticmethod
    def open(jobs: Sequence[Job], make: bool = False) -> Session:
        """Open the cache of `jobs`; `make` is for verbs that write into it, the others leave no new one behind.

        Raises:
            StoreError: it cannot be read.
        """
        store = Store.open(jobs[0].settings.cache, make)
        keys = Keys(store.local, store.files)
        return Session(store, keys, Planner(store, keys, parses=make))

    def plan(self, jobs: Sequence[Job]) -> Plan:
        """The steps of `jobs`, whose constraints have their baselines."""
        return self.planner.plan([resolved(job, self.store) for job in jobs])


def findings(job: Job, keys: Keys) -> tuple[Finding, ...]:
    """What the contracts say about a job by configuration alone."""
    return judging.of_configuration(job, keys)


def refuse(job: Job, found: Sequence[Finding]) -> None:
    """Stop a job that cannot work.

    Raises:
        Refused: some findings are errors; all of them are named.
    """
    if error := judging.refusal(found, f"recipe {job.recipe!r}, hardware {job.hardware.name!r}: "):
        raise error


def warn(jobs: Sequence[Job], found: Mapping[int, Sequence[Finding]]) -> None:
    """Say each finding once, with the jobs that it is about when there are others; `found` goes by their numbers."""
    concerned: dict[str, list[Job]] = {}
    for number, findings in found.items():
        for one in findings:
            concerned.setdefault(f"{one.code}: {judging.told(one)}", []).append(jobs[number])
    for text, some in concerned.items():
        names = ", ".join(dict.fromkeys(f"{job.recipe}/{job.variant}" for job in some))
        messages.warning(text if len(some) == len(jobs) else f"{names}: {text}")


def default_slots() -> int:
    """Nodes at a time: one per two processors that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) // 2)
