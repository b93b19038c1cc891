"""`constraints.against`: the numbers of another revision's validation, looked up before a plan is judged.

A gate is a pure judgement, so what it compares with becomes a part of the constraint: `baseline`, the metrics by node,
or `missing`, why there are none and the command that makes them.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
from typing import Any

from mobuild.errors import MobuildError
from mobuild.job import Job
from mobuild.report.comparison import Node
from mobuild.store import Store
from mobuild.verbs.sides import side, words_of


def resolved(job: Job, store: Store) -> Job:
    """`job` with the baseline in its constraints, where it has such a constraint and a node that it is about."""
    limit = job.constraints.get("against")
    nodes = [name for name, spec in job.graph.nodes.items() if spec.node.kind == "validate"]
    if not limit or not nodes:
        return job
    return dataclasses.replace(job, constraints={**job.constraints, "against": {**limit, **_looked_up(job, store)}})


def _looked_up(job: Job, store: Store) -> dict[str, Any]:
    ref = str(job.constraints["against"]["ref"])
    given = [word.removeprefix("++") for word in words_of(job)]
    own = [word for word in given if not word.startswith(("target=", "constraints.against"))]
    command = shlex.join(["mobuild", "compare", ref, ".", "compare.build=true", "target=validation", *own])
    try:
        with side(ref, job, store) as there:
            validations = {name: node for name, node in there.nodes.items() if node.kind == "validate"}
            found = {name: _metrics(node) for name, node in validations.items() if node.record}
    except MobuildError as error:
        return {"missing": error.message.partition("\n")[0]}
    if not found:
        return {"missing": f"its validation is not in the cache; {command} makes it"}
    return {"baseline": found}


def _metrics(node: Node) -> dict[str, float]:
    measured = node.record.measurements.get("metrics", {}) if node.record else {}
    values = {name: one.get("value") for name, one in measured.items()}
    return {name: value for name, value in values.items() if isinstance(value, (int, float)) and math.isfinite(value)}
