"""Recordings: what a machine answered, as a file that stands for it.

`python3 -m mobuild.doctor.recording OUT.json` writes one, from a checkout too: nothing needs to be installed.
It holds what the probes asked and nothing else; read it before you pass it on, for it names paths.
`mobuild doctor OUT.json` then examines that machine instead of this one.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from mobuild.doctor import live
from mobuild.doctor.machine import Answer, Machine
from mobuild.errors import SourceError

_FORMAT = 1


def record(ask: Answer = live.answer) -> dict[str, Any]:
    """All answers of a machine to a survey, as a document."""
    from mobuild.doctor.survey import survey

    answers: dict[str, Any] = {}

    def noting(question: str, words: tuple[str, ...]) -> Any:
        answers[_key(question, words)] = found = ask(question, words)
        return found

    survey(Machine(noting))
    return {"recording": _FORMAT, "answers": {key: value for key, value in answers.items() if value is not None}}


def recorded(text: str) -> Machine | None:
    """The machine that the text of a file stands for; None when it is no recording.

    Raises:
        SourceError: it is one that another mobuild wrote, or that was edited.
    """
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict) or not {"recording", "answers"} <= document.keys():
        return None
    answers = document["answers"]
    if document["recording"] != _FORMAT or not isinstance(answers, dict):
        raise SourceError(
            f"the recording is of format {document['recording']!r} with answers of type {type(answers).__name__}, "
            f"expected format {_FORMAT} with a mapping",
            "record it again: python3 -m mobuild.doctor.recording OUT.json",
        )
    return Machine(lambda question, words: answers.get(_key(question, words)))


def _key(question: str, words: tuple[str, ...]) -> str:
    return shlex.join((question, *words))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python3 -m mobuild.doctor.recording OUT.json")
    Path(sys.argv[1]).write_text(json.dumps(record(), indent=1, ensure_ascii=False) + "\n")
