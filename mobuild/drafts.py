"""Which steps the jobs of a sweep have, before anybody knows their inputs.

Nodes that are made of the same things are one step, found by an identity that stands for the key while the
inputs are not known yet. Reads the user's files and code, and nothing of what was built.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mobuild import sources
from mobuild.errors import MobuildError, SourceError, ToolchainError
from mobuild.fingerprint import canonical, digest_bytes
from mobuild.gates import own_limits
from mobuild.graph import NodeSpec, local_source
from mobuild.job import Job
from mobuild.keys import Keys
from mobuild.steps import Edge, Step, User, Way
from mobuild.store import StatCache


class Drafts:
    """Drafts the steps of jobs, and reads the sources among them."""

    def __init__(self, keys: Keys, files: StatCache) -> None:
        self._keys, self._files = keys, files

    def steps(self, jobs: Sequence[Job]) -> tuple[list[Step], tuple[dict[str, str], ...]]:
        """The steps of all jobs before they are settled, and which step each job's nodes are; a job's own errors
        block its steps and no others."""
        drafts: dict[str, Step] = {}
        of: list[dict[str, str]] = []
        seen: dict[Any, Step] = {}  # jobs share the nodes that are equal, so most questions come again
        for number, job in enumerate(jobs):
            own: dict[str, Step] = {}
            gates = _gates(job) if job.constraints else {}
            for name, spec in job.graph.nodes.items():
                needs, limits = job.graph.edges[name], gates.get(name)
                question: list[Any] = [id(spec)]
                for role, need in needs.items():
                    question += (role, id(own[need.node]), need.member)
                draft = seen.get(known := (*question, str(limits)) if limits else tuple(question))
                if draft is None:
                    edges = {role: Edge(own[need.node].identity, need.member) for role, need in needs.items()}
                    draft = self._draft(spec, edges, job, limits)
                    draft = drafts.setdefault(draft.identity, draft)
                    if not draft.error:  # which names its job
                        seen[known] = draft
                draft.users.append(User(number, name))
                own[name] = draft
            of.append({name: draft.identity for name, draft in own.items()})
        return list(drafts.values()), tuple(of)

    def content(self, spec: NodeSpec) -> sources.SourceContent:
        """What the user's file of a local source is now."""
        path = local_source(spec)
        assert path
        return sources.local_digest(path, self._files, spec.said_by)

    def _draft(self, spec: NodeSpec, edges: Mapping[str, Edge], job: Job, gates: Mapping[str, float] | None) -> Step:
        """A step with its identity and traits, not yet settled; steps below different gates stay apart."""
        try:
            if path := local_source(spec):
                content = self.content(spec)
                # Equal files at two places are two steps: one of them may change.
                identity = f"source:{content.digest} {path}"
                return Step(identity, spec, (), edges, [], "fresh", digest=content.digest, source=content)
            if check := getattr(spec.node, "check_pinned", None):
                _check_pinned(check, spec, job)
            nodes = getattr(spec.node, "alternatives", None)
            specs = [dataclasses.replace(spec, node=node) for node in nodes] if nodes else [spec]
            ways = tuple([Way(one, self._keys.traits(one)) for one in specs])
        except MobuildError as error:
            error.message = placed(error.message, job, spec)
            identity = f"error:{job.recipe}/{job.variant}/{spec.name}"
            if job.settings.here and isinstance(error, ToolchainError):
                return Step(identity, spec, (), edges, [], "elsewhere", (error.message,))
            return Step(identity, spec, (), edges, [], "blocked", (error.message,), error=error)
        inputs = {role: f"{edge.identity}/{edge.member}" for role, edge in edges.items()}
        identity = "+".join([way.key(inputs) for way in ways])
        if gates:
            identity += f" {digest_bytes(canonical(gates))}"
        if any(way.traits.is_watched for way in ways):  # conditions hold here, and not there
            identity += f" {spec.root} {spec.folder} {spec.python} {spec.requirements} {spec.container}"
        return Step(identity, ways[-1].spec, ways, edges, [], "waiting")


def placed(message: str, job: Job, spec: NodeSpec) -> str:
    """`message` with the recipe and the node that it is about."""
    where = f"recipe {job.recipe!r}, node {spec.name!r}: "
    return message if f"node {spec.name!r}" in message else where + message


def _gates(job: Job) -> dict[str, dict[str, float]]:
    """Node → the constraints that are judged on nodes which it needs, directly or not."""
    above: dict[str, dict[str, float]] = {}
    for name in job.graph.nodes:
        above[name] = {}
        for need in job.graph.edges[name].values():
            above[name] |= above[need.node] | own_limits(job.graph.nodes[need.node].node.kind, job.constraints)
    return above


def _check_pinned(check: Callable[[str, str], None], spec: NodeSpec, job: Job) -> None:
    try:
        check(spec.name, job.recipe)
    except SourceError as error:
        error.hint = f"mobuild lock {job.words}"  # of this very request: a recipe may have no default target
        raise
