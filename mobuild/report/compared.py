"""A comparison as lines for people, or as Markdown for a merge request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mobuild.units import about

_SHOWN = 20  # rows of a table of differences in Markdown; the rest is counted

Row = Sequence[str]


def tables(told: Mapping[str, Any]) -> Iterator[tuple[str, Row, list[Row]]]:
    """Title, headings and rows of every part that has something to show."""
    a, b = told["a"]["name"], told["b"]["name"]
    parts: list[tuple[str, Row, list[Row]]] = [
        ("accuracy", ("node", "metric", a, b, "difference", ""), [_accuracy(row) for row in told["accuracy"]]),
        ("latency", ("node", a, b, "ratio", ""), [_latency(row) for row in told["latency"]]),
        ("size", ("node", a, b, "difference"), [_size(row) for row in told["size"]]),
        ("precision", ("node", a, b), [(row["node"], row["a"] or "-", row["b"] or "-") for row in told["precision"]]),
        (
            "configuration",
            ("where", "key", a, b),
            [(row["place"], _located(row), row["a"], row["b"]) for row in told["configuration"]],
        ),
        ("tools", ("tool", a, b), [(row["tool"], row["a"], row["b"]) for row in told["tools"]]),
    ]
    yield from (part for part in parts if part[2])


def _located(row: Mapping[str, str]) -> str:
    return f"{row['key']} ({row['where']})" if "where" in row else row["key"]


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """For a terminal."""
    yield f"{told['variant']}: {told['a']['told']} → {told['b']['told']}"
    shown = list(tables(told))
    for title, headings, rows in shown:
        yield f"\n{title}"
        widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
        for row in (headings, *rows):
            cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
            yield f"  {'  '.join(cells)}".rstrip()
    if not shown:
        yield "nothing to compare"
    yield from (f"note: {text}" for text in told["notes"])


def markdown(told: Mapping[str, Any]) -> Iterator[str]:
    """For a merge request; differences of configuration are folded up."""
    yield f"### {_cell(told['variant'])}: {_cell(told['a']['told'])} → {_cell(told['b']['told'])}\n"
    for title, headings, rows in tables(told):
        is_long = title in ("configuration", "tools")
        if is_long:
            yield f"<details><summary>{title}: {len(rows)} differ</summary>\n"
        yield f"| {' | '.join(map(_cell, (title if i == 0 else one for i, one in enumerate(headings))))} |"
        yield f"|{' --- |' * len(headings)}"
        yield from (f"| {' | '.join(map(_cell, row))} |" for row in rows[:_SHOWN])
        if len(rows) > _SHOWN:
            yield f"\n… and {len(rows) - _SHOWN} more"
        yield "\n</details>\n" if is_long else ""
    yield from (f"- {_cell(text)}" for text in told["notes"])


def _cell(text: str) -> str:
    """Text within a table: nothing of it is markup."""
    plain = "".join(f"\\{one}" if one in "\\`*_{}[]<>|#~" else one for one in text)
    return " ".join(plain.split())


def _accuracy(row: Mapping[str, Any]) -> Row:
    remarks = [_word(row), _pairs(row["paired"]), row["note"]]
    delta = "-" if row["delta"] is None else f"{row['delta']:+.4g}"
    return (
        row["node"],
        row["metric"],
        _number(row["a"]),
        _number(row["b"]),
        delta,
        "; ".join(one for one in remarks if one),
    )


def _word(row: Mapping[str, Any]) -> str:
    """What the difference says; with pairs, only what chance would not."""
    if row["delta"] is None:
        return ""
    if row["delta"] == 0:
        return "equal"
    interval = (row["paired"] or {}).get("interval")
    if interval and interval[0] <= 0 <= interval[1]:
        return "no difference shown"
    return "better" if (row["delta"] > 0) == (row["better"] == "higher") else "worse"


def _pairs(found: Mapping[str, Any] | None) -> str:
    if not found:
        return ""
    interval = f", 95 % {found['interval'][0]:+.3g} to {found['interval'][1]:+.3g}" if found["interval"] else ""
    return f"{found['lost']} lost, {found['gained']} gained of {found['samples']}{interval}, p {found['p_value']:.2g}"


def _latency(row: Mapping[str, Any]) -> Row:
    if "not_run" in row:
        return (row["node"], "-", "-", "-", f"not run: {row['not_run']}")
    if row.get("recorded"):
        what = f"{row['what']}, each as its node recorded it"
        return (row["node"], f"{row['a_ms']:.4g} ms", f"{row['b_ms']:.4g} ms", "-", what)
    low, high = row["interval"]
    ratio = f"{row['ratio']:.3f} ({low:.3f} to {high:.3f})"
    remark = f"{row['verdict']}; p50 at {row['sizes']}, {row['blocks']} blocks in turns"
    return (row["node"], f"{row['a_ms']:.4g} ms", f"{row['b_ms']:.4g} ms", ratio, remark)


def _size(row: Mapping[str, Any]) -> Row:
    a, b = row["a_bytes"], row["b_bytes"]
    if a is None or b is None:
        return (row["node"], *("-" if one is None else about(one) for one in (a, b)), "-")
    share = f"{(b - a) / a:+.1%}" if a else "-"
    return (row["node"], about(a), about(b), "equal" if a == b else share)


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.5g}"
