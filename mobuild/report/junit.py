"""A run as JUnit XML, which pipelines show: a suite for each job, a case for each node and each gate.

The elements and attributes are those that Jenkins, GitLab and GitHub's reporters read
(https://github.com/testmoapp/junitxml).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from mobuild.errors import MobuildError, StoreError
from mobuild.results import Result, Run

_TAIL_LINES = 50
_TAIL_BYTES = 64 << 10
# What XML 1.0 cannot hold, however it is written (§2.2, Char).
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Case:
    """One test case. `text` is what stands below the message."""

    suite: str
    name: str
    seconds: float = 0.0
    outcome: Literal["passed", "failure", "error", "skipped"] = "passed"
    message: str = ""
    text: str = ""


def write(file: Path, run: Run | None, refused: Sequence[MobuildError]) -> None:
    """Write what a build came to; `refused` are requests of which nothing ran.

    Raises:
        StoreError: the file cannot be written.
    """
    cases = [Case("mobuild", f"request {i}", 0.0, "error", one.message, str(one)) for i, one in enumerate(refused, 1)]
    cases += list(_cases(run)) if run else []
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document(cases))
    except OSError as error:
        raise StoreError(f"report.junit: '{file}' cannot be written: {error.strerror or error}") from error


def document(cases: Sequence[Case]) -> bytes:
    """The XML of `cases`, in suites by their order."""
    root = ElementTree.Element("testsuites", {"name": "mobuild", **_counts(cases)})
    for name in dict.fromkeys(case.suite for case in cases):
        own = [case for case in cases if case.suite == name]
        suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(name), **_counts(own)})
        for case in own:
            attributes = {"classname": _clean(name), "name": _clean(case.name), "time": f"{case.seconds:.3f}"}
            element = ElementTree.SubElement(suite, "testcase", attributes)
            if case.outcome != "passed":
                found = ElementTree.SubElement(element, case.outcome, {"message": _clean(case.message)})
                found.text = _clean(case.text)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _cases(run: Run) -> Iterator[Case]:
    for number, job in enumerate(run.plan.jobs):
        suite = f"{job.recipe}/{job.variant}"
        for name in job.graph.nodes:
            yield _node(suite, name, run.of(number, name))
            if judged := run.verdict(number, name):
                text = "\n".join(judged.misses)
                if judged.blocks:
                    yield Case(suite, f"{name} gate", 0.0, "failure", f"{judged.word}: {judged.misses[0]}", text)
                else:
                    word = judged.word
                    yield Case(suite, f"{name} gate", 0.0, "skipped" if word == "not run" else "passed", word)


def _node(suite: str, name: str, result: Result) -> Case:
    if result.is_done:
        return Case(suite, name, result.seconds)
    if result.error:
        message = result.error.message.partition("\n")[0]
        return Case(suite, name, result.seconds, "failure", message, f"{result.error}{_tail(result.log)}")
    reasons = "; ".join(result.step.reasons)
    return Case(suite, name, result.seconds, "skipped", f"{result.state}: {reasons}", "\n".join(result.step.reasons))


def _tail(log: Path | None) -> str:
    """The end of a log, which is what tells most."""
    try:
        if log is None:
            return ""
        with open(log, "rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n\n" + "\n".join(lines[-_TAIL_LINES:]) if lines else ""


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    def count(outcome: str) -> str:
        return str(sum(case.outcome == outcome for case in cases))

    found = {"tests": str(len(cases)), "failures": count("failure"), "errors": count("error")}
    return {**found, "skipped": count("skipped"), "time": f"{sum(case.seconds for case in cases):.3f}"}


def _clean(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)
