"""The user's own evaluation script: run on one form of the model, its numbers read back.

The script writes JSON below `{out}`. Numbers count at any depth, called by their path (`bbox.map50`); a list
of numbers is one score per sample, of which the mean is compared and the samples in pairs. Texts, truth values
and nulls are none of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mobuild import programs
from mobuild.errors import NodeFailed
from mobuild.metrics import Score, scores

_HINT = "write a JSON file such as {out}/metrics.json with {name: number}"


def evaluate(cmd: str, inputs: Mapping[str, Path], out: Path, where: str) -> dict[str, Score]:
    """The scores that `cmd` measures, by name; `out` is a folder that `{out}` stands for.

    Raises:
        NodeFailed: the script fails, writes no JSON, no numbers, one that is not finite, or two by one name.
    """
    out.mkdir()
    tail = programs.run(programs.words(cmd, inputs, out), Path.cwd())
    files = sorted(out.rglob("*.json"))
    if not files:
        written = ", ".join(repr(path.name) for path in sorted(out.iterdir())) or "nothing"
        raise _failed(cmd, where, f"a JSON file in {{out}}, found {written}", tail)
    numbers: dict[str, Any] = {}
    for file in files:
        for name, number in _numbers("", _read(cmd, where, file)):
            if name in numbers and numbers[name] != number:
                raise NodeFailed(
                    f"evaluation script {cmd!r}, on {where}: metric {name!r} is {numbers[name]}, and once more in "
                    f"{file.name!r}: {number}",
                    'give each a name of its own, {"cat": {"ap": 0.5}, "dog": {"ap": 0.6}}, or write one file',
                )
            numbers[name] = number
    if not numbers:
        names = ", ".join(repr(file.name) for file in files)
        raise _failed(cmd, where, f"numbers by name, found none in {names}", tail)
    return {name: scores(f"cmd:{name}", {name: numbers[name]}, where)[name] for name in sorted(numbers)}


def _failed(cmd: str, where: str, what: str, tail: list[str]) -> NodeFailed:
    message = f"evaluation script {cmd!r}, on {where}, ended with status 0: expected {what}"
    return NodeFailed(message, "\n".join([_HINT, *tail]))


def _read(cmd: str, where: str, file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NodeFailed(
            f"evaluation script {cmd!r}, on {where}: expected JSON in {file.name!r}, found none: {error}", _HINT
        ) from error


def _numbers(name: str, found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, dict):
        for key, value in found.items():
            yield from _numbers(f"{name}.{key}".lstrip("."), value)
    elif name and (_is_number(found) or (isinstance(found, list) and found and all(map(_is_number, found)))):
        yield name, found


def _is_number(found: Any) -> bool:
    return isinstance(found, (int, float)) and not isinstance(found, bool)
