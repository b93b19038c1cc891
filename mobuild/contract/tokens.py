"""Rules on tokens: what the inputs may hold against the tables that they are looked up in (T1)."""

from __future__ import annotations

from mobuild.contract.findings import Finding
from mobuild.contract.request import Model


def tables_hold_the_vocabulary(model: Model) -> tuple[Finding, ...]:
    """T1: the ids of an input lie within the rows of its embedding."""
    findings: tuple[Finding, ...] = ()
    for name, rows in model.summary.get("embeddings", {}).items():
        low, high = model.summary["ranges"].get(name, (0, rows))
        where = f"input {name!r}"
        if high > rows:
            message = (
                f"its range goes up to {high}, its table has {rows} rows: ids from {rows} on read what is not there"
            )
            hint = f"range: [0, {rows}], or a tokenizer of {rows} words: an added pad or end token needs a row"
            findings += (Finding("T1", "error", where, message, hint),)
        elif low < 0:
            message = f"its range begins with {low}: a negative id (a pad of -1) reads the last rows of its table"
            findings += (Finding("T1", "warning", where, message, "give padding an id of its own, and mask it"),)
    return findings
