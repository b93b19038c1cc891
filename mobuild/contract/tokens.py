"""Rules on tokens: what the inputs may hold against the tables that they are looked up in (T1, T2)."""

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


def tables_hold_the_tokens(model: Model) -> tuple[Finding, ...]:
    """T2: the ids of a tokenizer lie within the rows of the largest table, which is that of the words."""
    tables = model.summary.get("embeddings", {})
    if not tables:
        return ()
    name = max(tables, key=lambda each: int(tables[each]))
    return tuple(finding for node in model.vocabularies for finding in _beyond(model, node, name, tables[name]))


def _beyond(model: Model, node: str, name: str, rows: int) -> tuple[Finding, ...]:
    """A padding or an end beyond the rows is read with nearly every text, a word perhaps never."""
    vocabulary = model.vocabularies[node]
    special = {each: number for each, number in vocabulary.special.items() if number >= rows or number < 0}
    if vocabulary.size <= rows and not special:
        return ()
    message = f"the tokenizer of node {node!r} has ids up to {vocabulary.size - 1}"
    message += f" ({', '.join(f'{each} is {number}' for each, number in special.items())})" if special else ""
    message += f", its table has {rows} rows"
    hint = "the tokenizer that the model was trained with; or a table with a row for each added token, exported again"
    is_sure = any(number >= rows for number in special.values())  # -1 may stand for none
    return (Finding("T2", "error" if is_sure else "warning", f"input {name!r}", message, hint),)
