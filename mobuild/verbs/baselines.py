"""`constraints.against`: the numbers of another revision's validation, looked up before a plan is judged.

A gate is a pure judgement, so what it compares with becomes a part of the constraint: `baseline`, the metrics by node,
or `missing`, why there are none and the command that makes them.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mobuild.errors import MobuildError
from mobuild.gates import VALIDATIONS
from mobuild.job import Job
from mobuild.store import Store

if TYPE_CHECKING:
    from mobuild.report.comparison import Node


def resolved(job: Job, store: Store) -> Job:
    """`job` with the baseline in its constraints, where it has such a constraint and a node that it is about."""
    if not (limit := job.constraints.get("against")):
        return job
    nodes = [name for name, spec in job.graph.nodes.items() if spec.node.kind in VALIDATIONS]
    if not nodes:
        return job
    return dataclasses.replace(
        job, constraints={**job.constraints, "against": {**limit, **_looked_up(job, store, nodes)}}
    )


def _looked_up(job: Job, store: Store, nodes: Sequence[str]) -> dict[str, Any]:
    from mobuild.verbs.sides import side, words_of  # most jobs have no such constraint

    ref = str(job.constraints["against"]["ref"])
    given = [word.removeprefix("++") for word in words_of(job)]
    own = [word for word in given if not word.startswith(("target=", "constraints.against"))]
    command = shlex.join(["mobuild", "compare", ref, ".", "compare.build=true", "target=validation", *own])
    try:
        with side(ref, job, store) as there:
            validations = {name: node for name, node in there.nodes.items() if node.kind in VALIDATIONS}
            found = {name: _metrics(node) for name, node in validations.items() if node.record}
    except MobuildError as error:
        return {"missing": error.message.partition("\n")[0]}
    if not found:
        return {"missing": f"its validation is not in the cache; {command} makes it"}
    return {"baseline": _by_our_names(found, nodes)}


def _by_our_names(found: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """What was found there by the names of the nodes here; one that is left on each side was renamed."""
    here, there = [name for name in nodes if name not in found], [name for name in found if name not in nodes]
    renamed = {here[0]: found[there[0]]} if len(here) == len(there) == 1 else {}
    return {**{name: found[name] for name in nodes if name in found}, **renamed}


def _metrics(node: Node) -> dict[str, float]:
    measured = node.record.measurements.get("metrics", {}) if node.record else {}
    values = {name: one.get("value") for name, one in measured.items()}
    return {name: value for name, value in values.items() if isinstance(value, (int, float)) and math.isfinite(value)}
