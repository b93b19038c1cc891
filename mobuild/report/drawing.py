"""A plan as a drawing: Mermaid for Markdown pages, DOT for Graphviz.

One box per step with its state as a colour and as a word; one arrow from each step to those that need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mobuild.report.terminal import label
from mobuild.steps import Plan, Step

_COLOURS = {
    "fresh": "#d3f0d3",
    "stale": "#ffe2b0",
    "waiting": "#e2e6f5",
    "blocked": "#f7c9c9",
    "elsewhere": "#e8d9f3",
}
_INK = "#1a1a1a"


@dataclass(frozen=True)
class Box:
    """One step; its place in the drawing's `boxes` is its number."""

    text: str
    state: str


@dataclass(frozen=True)
class Arrow:
    """From the step that makes to the step that needs. `text` is empty where the role is plain to see."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Drawing:
    """What both formats write."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def drawing(planned: Plan) -> Drawing:
    """The steps of all jobs in the order of dependence; a step that jobs share is one box."""
    numbers = {identity: number for number, identity in enumerate(planned.steps)}
    boxes = tuple(Box(label(planned, step), step.state) for step in planned.steps.values())
    return Drawing(boxes, tuple(arrow for step in planned.steps.values() for arrow in _arrows(planned, step, numbers)))


def mermaid(drawn: Drawing) -> str:
    """A flowchart, as GitHub and GitLab show it in a block ```mermaid."""
    lines = ["flowchart TD"]
    for number, box in enumerate(drawn.boxes):
        lines.append(f'  n{number}["{_in_mermaid(box.text)}<br/>{box.state}"]:::{box.state}')
    for arrow in drawn.arrows:
        text = f'|"{_in_mermaid(arrow.text)}"|' if arrow.text else ""
        lines.append(f"  n{arrow.start} -->{text} n{arrow.end}")
    for state in _states(drawn):
        lines.append(f"  classDef {state} fill:{_COLOURS[state]},stroke:{_INK},color:{_INK}")
    return "\n".join(lines)


def dot(drawn: Drawing) -> str:
    """A directed graph in the DOT language (https://graphviz.org/doc/info/lang.html)."""
    lines = ["digraph mobuild {", f'  node [shape=box, style=filled, color="{_INK}", fontcolor="{_INK}"];']
    for number, box in enumerate(drawn.boxes):
        text = f"{_in_dot(box.text)}\\n{box.state}"
        lines.append(f'  n{number} [label="{text}", fillcolor="{_COLOURS[box.state]}"];')
    for arrow in drawn.arrows:
        text = f' [label="{_in_dot(arrow.text)}"]' if arrow.text else ""
        lines.append(f"  n{arrow.start} -> n{arrow.end}{text};")
    return "\n".join([*lines, "}"])


def _arrows(planned: Plan, step: Step, numbers: dict[str, int]) -> Iterator[Arrow]:
    for role, edge in step.needs.items():
        producer = planned.steps[edge.identity].spec.name.rpartition(".")[2]
        is_plain = len(step.needs) == 1 or role == producer
        text = ": ".join(word for word in ("" if is_plain else role, edge.member) if word)
        yield Arrow(numbers[edge.identity], numbers[step.identity], text)


def _states(drawn: Drawing) -> list[str]:
    return [state for state in _COLOURS if any(box.state == state for box in drawn.boxes)]


def _in_mermaid(text: str) -> str:
    """`text` within quotes. Mermaid knows no backslash there, but the codes of its own for characters."""
    return "".join(f"#{ord(one)};" if one in '"#<>&`\\' or not one.isprintable() else one for one in text)


def _in_dot(text: str) -> str:
    """`text` within quotes; a lone `\\N` would be the node's name, and a line break is kept as one."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
