"""What a plan is made of: steps with their states and reasons. `planner` makes them, everything after reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from mobuild.contract.findings import Finding
from mobuild.errors import MobuildError
from mobuild.fingerprint import Change, Digest, Fingerprint, Key, canonical, digest_bytes
from mobuild.gates import Verdict, judge
from mobuild.graph import NodeSpec
from mobuild.job import Job
from mobuild.keys import Traits
from mobuild.node import Fact
from mobuild.sources import SourceContent
from mobuild.store import Record
from mobuild.values import value
from mobuild.whereabouts import shown

State = Literal["fresh", "stale", "waiting", "blocked", "elsewhere"]  # the last: with `here=true`, not built here


class Edge(NamedTuple):
    """Where a role's input comes from: a step, and the member of its folder that is meant."""

    identity: str
    member: str = ""


class User(NamedTuple):
    """One job that wants a step, and what it calls it."""

    job: int
    name: str


@value
class Way:
    """One way to do a step; most nodes have one."""

    spec: NodeSpec
    traits: Traits

    def fingerprint(self, inputs: Mapping[str, str]) -> Fingerprint:
        return self.traits.fingerprint(self.spec, self._keyed(inputs))

    def key(self, inputs: Mapping[str, str]) -> Key:
        """The key of that fingerprint."""
        return self._key_of(self._keyed(inputs))

    @cached_property
    def _key_of(self) -> Callable[[Mapping[str, str]], Key]:
        return self.traits.fingerprint(self.spec, {}).keys()

    def _keyed(self, inputs: Mapping[str, str]) -> Mapping[str, str]:
        unkeyed = getattr(self.spec.node, "unkeyed_roles", ())
        return {role: each for role, each in inputs.items() if role not in unkeyed} if unkeyed else inputs


@value
class Step:
    """One piece of work with what is known about it now."""

    identity: str
    spec: NodeSpec
    ways: tuple[Way, ...]  # best first; the last is the one to build
    needs: Mapping[str, Edge]
    users: list[User]  # drafts add them job by job; nobody else does
    state: State
    reasons: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    fingerprint: Fingerprint | None = None
    digest: Digest | None = None
    record: Record | None = None
    source: SourceContent | None = None  # a file of the user's, used in place
    error: MobuildError | None = None
    past: Record | None = None  # of the last build, where this one is not done
    findings: tuple[Finding, ...] = ()  # of rules, about the model that a stale engine is made of

    @property
    def expected_seconds(self) -> float | None:
        """What the last build took."""
        return self.past.seconds if self.past else None


@dataclass(frozen=True)
class Plan:
    """The steps of all jobs, each after those that it needs, and which step each job's nodes are."""

    jobs: tuple[Job, ...]
    steps: Mapping[str, Step]
    of: tuple[Mapping[str, str], ...] = field(default=())  # per job: node name → identity


def work_keys(plan: Plan) -> dict[str, str]:
    """Step → a key of all work behind it, which is known before anything is built: of files their content, of nodes
    their parameters, code and tools, and what they are made from. What was observed beyond that is in none.

    Raises:
        MobuildError: a step that has no key, because its file or its code cannot be read.
    """
    found: dict[str, str] = {}
    for identity, step in plan.steps.items():
        if step.error and not step.ways and not step.source:
            raise step.error
        inputs = {role: f"{found[edge.identity]}/{edge.member}" for role, edge in step.needs.items()}
        keys = [way.key(inputs) for way in step.ways]
        found[identity] = digest_bytes(canonical(keys)) if keys else f"file:{step.digest}"
    return found


def code_files(way: Way) -> dict[str, str]:
    """The file of each module of the code that counts, as people write it."""
    return {name: shown(path, way.spec.root) for name, path in way.traits.places.items()}


def cause(plan: Plan, step: Step) -> MobuildError | None:
    """The error that blocks a step, its own or that of a step which it needs; None where there is none."""
    if step.error or step.state != "blocked":
        return step.error
    found = (cause(plan, plan.steps[edge.identity]) for edge in step.needs.values())
    return next(filter(None, found), None)


def status(plan: Plan) -> int:
    """What the errors in a plan mean for the exit: 0 without one, 2 where all of them are the request's, else 1."""
    found = {step.error.status for step in plan.steps.values() if step.error}
    return 1 if 1 in found else max(found, default=0)


def verdict(step: Step, job: Job) -> Verdict | None:
    """The judgement of `job`'s constraints on a step that is done; None when there is nothing to judge."""
    if not job.constraints or step.state != "fresh" or step.record is None:
        return None
    return judge(step.spec.node.kind, step.record.measurements, job.constraints, [user.name for user in step.users])


def fact(step: Step, job: Job) -> Fact:
    """What a node after a done step may be told of it; without a constraint that is about it, nothing was judged."""
    assert step.record and step.fingerprint
    judged = verdict(step, job)
    return Fact(
        key=step.fingerprint.key,
        sha256=step.record.artifact.sha256 or "",
        tools=step.fingerprint.toolchain,
        verdict=judged.word if judged else "",
    )
