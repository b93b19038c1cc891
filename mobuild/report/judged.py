"""The numbers that a validation is judged by, in one line for each variant.

The whole of them is the artifact; these are what one looks for first, shown for fresh ones too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mobuild.gates import Verdict
from mobuild.job import Job
from mobuild.results import Run


def lines(run: Run) -> Iterator[str]:
    """A line for each finished node that compared a model with its reference.

    `det/cpu+int8 validation: map50 0.912 → 0.905 (9 lost, 3 gained of 500); cosine 0.9981 of 'boxes'; passed`
    """
    for number, job, name, measured in _measured(run):
        found = [*_metrics(measured), *_worst(measured)]
        if found:
            word = _word(run.verdict(number, name), measured.get("device") == "proxy")
            yield f"{job.recipe}/{job.variant} {name}: {'; '.join(found)}; {word}"


def proofs(run: Run) -> Iterator[str]:
    """A line for each image: `det/cpu image_proof: self test passed in podman`."""
    for _, job, name, measured in _measured(run):
        proof = measured.get("proof")
        if isinstance(proof, Mapping) and "selftest" in proof:
            started = f"starts {proof.get('starts')}; " if proof.get("starts") != proof["selftest"] else ""
            yield f"{job.recipe}/{job.variant} {name}: {started}self test {proof['selftest']}"


def _measured(run: Run) -> Iterator[tuple[int, Job, str, Mapping[str, Any]]]:
    """(number of the job, the job, node, measurements) of every finished node of which something was measured."""
    steps = {identity: one.record for identity, one in run.results.items() if one.record and one.is_done}
    measured = {identity: record.measurements for identity, record in steps.items() if record.measurements}
    for number, job in enumerate(run.plan.jobs if measured else ()):
        for name, identity in run.plan.of[number].items():
            if identity in measured:
                yield number, job, name, measured[identity]


def _word(judged: Verdict | None, is_proxy: bool) -> str:
    if judged is None:
        return "no constraint is about it" + " (by proxy)" * is_proxy
    return "passed by proxy" if judged.word == "proxy" else judged.word


def _metrics(measured: Mapping[str, Any]) -> Iterator[str]:
    """`map50 0.912 → 0.905 (9 lost, 3 gained of 500)`"""
    for name, metric in _of(measured, "metrics"):
        if {"reference", "value"} <= metric.keys():
            pairs = metric.get("paired")
            counts = f" ({pairs['lost']} lost, {pairs['gained']} gained of {pairs['samples']})" if pairs else ""
            yield f"{name} {metric['reference']:.4g} → {metric['value']:.4g}{counts}"


def _worst(measured: Mapping[str, Any]) -> Iterator[str]:
    """The lowest mean cosine among the outputs."""
    found = [(tensor["cosine_mean"], name) for name, tensor in _of(measured, "tensors") if "cosine_mean" in tensor]
    if found:
        cosine, name = min(found)
        yield f"cosine {cosine:.4f} of {name!r}"


def _of(measured: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries of a table of measurements; a kind of the project's own may mean something else by its name."""
    table = measured.get(key)
    for name, entry in table.items() if isinstance(table, Mapping) else ():
        if isinstance(entry, Mapping):
            yield name, entry
