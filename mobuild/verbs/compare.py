"""`mobuild compare A B`: two releases beside each other, from what the cache knows of them.

A and B are revisions, runs, or `.` for the working tree. Nothing is built unless `compare.build=true`; engines of both
that can run here are timed in turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild.job import Job
from mobuild.report import compared
from mobuild.report.comparison import SCHEMA, Node, Side, comparison, pairs
from mobuild.report.documents import record_document
from mobuild.store import Record, Store
from mobuild.verbs.sides import side

_SECONDS = 300
_FORMS = {"text": compared.lines, "markdown": compared.markdown}


def compare(jobs: Sequence[Job], a: str, b: str) -> int:
    """Print what differs between `a` and `b`, for each job; 1 when `compare.build=true` left something unbuilt.

    Raises:
        ConfigError: no such revision, or the job means nothing there.
        StoreError, NodeFailed: no such run or variant, or a build of `compare.build=true` failed.
    """
    settings = jobs[0].settings
    chosen = settings.format
    store = Store.open(settings.cache)
    both = [_of_job(job, a, b, store) for job in jobs]
    found, status = [told for told, _ in both], int(any(lacks for _, lacks in both))
    if chosen == "json":
        print(json.dumps({"schema": SCHEMA, "comparisons": found}, indent=2, ensure_ascii=False, default=str))
        return status
    for number, told in enumerate(found):
        print("\n" * (number > 0) + "\n".join(_FORMS[chosen](told)))
    return status


def _of_job(job: Job, a: str, b: str, store: Store) -> tuple[dict[str, Any], bool]:
    """What is to be told, and whether something is missing although it was to be built."""
    build = job.settings.compare_build
    with side(a, job, store, build) as old, side(b, job, store, build) as new:
        latency = dict(_latencies(store, old, new))
        told = {"variant": f"{job.recipe}/{job.variant}", **comparison(old, new, latency)}
        return told, build and bool(old.missing or new.missing)


def _latencies(store: Store, a: Side, b: Side) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each engine of both sides, measured here in turns, or why not."""
    for name, other in pairs(a, b).items():
        if a.nodes[name].kind == "build_engine":
            yield name, _latency(store, a, b, a.nodes[name], b.nodes[other])


def _latency(store: Store, a: Side, b: Side, old: Node, new: Node) -> Mapping[str, Any]:
    if missing := [one.name for one, node in ((a, old), (b, new)) if node.record is None]:
        return {"not_run": f"no engine of {' and '.join(missing)} is in the cache"}
    assert old.record and new.record
    if old.record.artifact.digest == new.record.artifact.digest:
        return {"not_run": "both engines are the same bytes"}
    with tempfile.TemporaryDirectory(prefix="mobuild-compare-") as folder:
        places = [
            _placed(store, record, Path(folder) / word) for word, record in (("a", old.record), ("b", new.record))
        ]
        job = Path(folder) / "job.json"
        job.write_text(json.dumps({"a": str(places[0]), "b": str(places[1]), "ranges": _ranges(b, new.record)}))
        return _measured(job)


def _measured(job: Path) -> Mapping[str, Any]:
    command = [sys.executable, "-P", "-m", "mobuild.evaluation.latency", str(job)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        answer: Mapping[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        return {"not_run": f"it took longer than {_SECONDS} s"}
    except ValueError:
        said = done.stderr.strip().rpartition("\n")[2] or f"status {done.returncode}"
        return {"not_run": f"the engines could not be run here: {said}"}
    return answer


def _placed(store: Store, record: Record, folder: Path) -> Path:
    """The engine with its sidecar, which tells how it is opened."""
    path = folder / f"engine{record.suffix}"
    folder.mkdir()
    store.objects.materialise(record.artifact.digest, path)
    path.with_name(f"{path.name}.json").write_text(json.dumps(record_document(record)))
    return path


def _ranges(side: Side, engine: Record) -> Mapping[str, Any]:
    """The ranges of integer inputs, by the summary of the model that the engine is made of."""
    model = engine.fingerprint.inputs.get("model")
    summaries = [
        engine.onnx,
        *(node.record.onnx for node in side.nodes.values() if node.record and node.record.artifact.digest == model),
    ]
    return next((one["ranges"] for one in summaries if one.get("ranges")), {})
