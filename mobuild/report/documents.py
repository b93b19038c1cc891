"""The documents beside artifacts, and where they lie: sidecars, and run.json with the state of every node.

They carry `"schema": 1`.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mobuild.errors import SourceError
from mobuild.fingerprint import canonical
from mobuild.job import Job
from mobuild.results import Result, Run
from mobuild.sources import SourceContent
from mobuild.store import Record, Store

SCHEMA = 1


def place_of(job: Job) -> str:
    """`variant_folder` as text, for those who ask for thousands."""
    return f"{job.settings.build}/{job.recipe}/{job.variant}"


def variant_folder(job: Job) -> Path:
    return Path(place_of(job))


def last_run(job: Job) -> Mapping[str, Any]:
    """The nodes of the last run.json of a job's variant; empty when there is none that can be read."""
    try:
        nodes = json.loads((variant_folder(job) / "run.json").read_bytes())["nodes"].items()
        return {name: node for name, node in nodes if isinstance(node["state"], str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # never run, or not ours any more


def artifact_path(job: Job, name: str, suffix: str) -> Path:
    """Where the artifact of node `name` appears."""
    return Path(f"{place_of(job)}/{name}{suffix}")


def sidecar(job: Job, target: str, result: Result) -> dict[str, Any]:
    """What stands beside an artifact: which node of which variant, what it was made of, what was measured."""
    record = result.record
    assert record
    return {
        "schema": SCHEMA,
        "recipe": job.recipe,
        "variant": job.variant,
        "node": target,
        **record_document(record),
    }


def record_document(record: Record) -> dict[str, Any]:
    """What sidecars and `inspect` tell of a record."""
    return {
        "kind": record.fingerprint.kind,
        "key": record.key,
        "digest": record.artifact.digest,
        "sha256": record.artifact.sha256,
        "is_folder": record.artifact.is_folder,
        "size_bytes": record.artifact.size_bytes,
        "mobuild": record.seen.get("mobuild"),
        "started": record.seen.get("started"),
        "created": record.created,
        "seconds": record.seconds,
        "peak_rss_mib": record.peak_rss_mib,
        # As it reads in the store: one that a plan has at hand has its keys in the order of the recipe.
        "fingerprint": {name: json.loads(canonical(value)) for name, value in record.fingerprint.document().items()},
        "measurements": sayable(record.measurements),
        "onnx": sayable(record.onnx),
        "warnings": list(record.warnings),
        "conditions": [vars(one) for one in record.conditions],
        "observed_by": list(record.observed_by),
    }


def sayable(value: Any) -> Any:
    """`value` as JSON can say it: NaN and infinity, which it has no numbers for, become `"NaN"`, `"Infinity"`."""
    if isinstance(value, Mapping):
        return {key: sayable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sayable(item) for item in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value


def inputs(run: Run, result: Result, store: Store) -> dict[str, dict[str, Any]]:
    """Role → which node made the input, and its SHA-256 where the whole artifact of a node or a file was given."""
    found: dict[str, dict[str, Any]] = {}
    for role, edge in result.step.needs.items():
        step = run.plan.steps[edge.identity]
        found[role] = {"node": "/".join(filter(None, (step.spec.name, edge.member)))}
        if step.record and not edge.member:
            artifact = step.record.artifact
            found[role] |= {"sha256": artifact.sha256, "is_folder": artifact.is_folder}
        elif step.source and not edge.member and (sha256 := _source_sha256(step.source, store)):
            found[role] |= {"sha256": sha256, "is_folder": False}
    return found


def _source_sha256(source: SourceContent, store: Store) -> str:
    """Of a lone file; empty for others, and when what was built from is there no more."""
    if source.is_folder or len(source.files) > 1:
        return ""
    with suppress(OSError, SourceError):
        sha256 = store.files.sha256(source.main)
        if store.files.digest(source.main) == source.digest:
            return sha256
    return ""


def run_document(run: Run, number: int, name: str) -> dict[str, Any]:
    """run.json of one job: the state of every node and the artifacts of the targets."""
    job = run.plan.jobs[number]
    return {
        "schema": SCHEMA,
        "run": name,
        "recipe": job.recipe,
        "variant": job.variant,
        "targets": list(job.graph.targets),
        "overrides": list(job.shown),
        "seconds": round(run.seconds, 3),
        "nodes": {node: _node_document(run, number, node) for node in job.graph.nodes},
    }


def _node_document(run: Run, number: int, name: str) -> dict[str, Any]:
    job, result = run.plan.jobs[number], run.of(number, name)
    judged, record = run.verdict(number, name), result.record
    document: dict[str, Any] = {"state": result.state, "seconds": round(result.seconds, 3), "verdict": None}
    if judged:
        document |= {"verdict": judged.word, "misses": list(judged.misses)}
    if record and "proof" in record.measurements:
        document["proof"] = sayable(record.measurements["proof"])
    if judged and record:  # of what misses its gate nothing else is delivered
        document["measurements"] = sayable(record.measurements)
    if result.step.source:
        document["digest"] = result.step.source.digest
    if record:
        document |= {"key": record.key, "digest": record.artifact.digest, "size_bytes": record.artifact.size_bytes}
        if name in job.graph.targets and run.is_delivered(number, name):
            document["path"] = str(artifact_path(job, name, record.suffix).relative_to(job.settings.project))
    if result.step.reasons:
        document["reasons"] = list(result.step.reasons)
    if result.error:
        document["error"] = result.error.message
    if result.log:
        document["log"] = str(result.log)
    return document


def write(path: Path, document: Mapping[str, Any], passing: Sequence[str] = ()) -> None:
    """Write JSON in one move, so that a reader never sees half of it; a file that says it already is left alone.

    `passing` names what alone is no reason to write.
    """
    if _says(path, document, passing):
        return
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(text.encode("utf-8", "backslashreplace"))  # bytes that are no text become JSON's own escapes
    partial.replace(path)


def _says(path: Path, document: Mapping[str, Any], passing: Sequence[str]) -> bool:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        with open(path, "rb", buffering=0) as stream:
            told = json.loads(stream.read())
        # As compact texts, which is quick: Python takes 1, 1.0 and True for equal.
        return json.dumps({**told, **{key: document[key] for key in passing}}) == json.dumps(document)
    except (OSError, ValueError, TypeError, RecursionError):  # none there, or no JSON of ours
        return False
