"""`mobuild check`: what cannot work, before anything is built.

Rules on configuration always run. Rules on a graph run on the nearest model before each engine that is known: the
record of the node that wrote it, or an ONNX file of the user's, which is parsed then. Without one they are *not run*.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild import definitions, elsewhere, judging
from mobuild.contract.codes import OF_GRAPHS
from mobuild.contract.findings import Finding
from mobuild.errors import MobuildError, NodeFailed
from mobuild.graph import local_source
from mobuild.job import Job, Unmade
from mobuild.node import code_references
from mobuild.planner import Planner
from mobuild.report import checked
from mobuild.report.checked import Checked, Place
from mobuild.steps import Plan, Step
from mobuild.verbs.parser import refusals
from mobuild.verbs.session import Session

_OF_PROGRAMS = "relative paths begin at the project, or at cwd; a program without a path is looked up on PATH"
_NUMBERED = re.compile(r"\+[0-9a-f]{8}$")  # the name of a model outside of the project
_READ_MODELS = ("sanitize", "calibrate", "quantize", "build_engine")


def check(jobs: Sequence[Job], unmade: Sequence[Unmade] = ()) -> int:
    """Print what the rules find, also of what they refuse to make jobs of; 1 when any of it is an error, 2 when all
    errors are the request's."""
    form = (jobs or unmade)[0].settings.format
    found = merged(jobs, unmade)
    checked.write(found, form)
    statuses = {each.finding.status for each in found if each.finding and each.finding.severity == "error"}
    return 1 if 1 in statuses else max(statuses, default=0)


def merged(jobs: Sequence[Job], unmade: Sequence[Unmade] = ()) -> list[Checked]:
    """What the rules find, the errors first."""
    refused = [Checked(_place(one, ""), finding) for one in unmade for finding in one.findings]
    return checked.merge([*_judged(jobs), *refused])


def _judged(jobs: Sequence[Job]) -> Iterator[Checked]:
    if not jobs:
        return
    session = Session.open(jobs)
    plan = Planner(session.store, session.keys, judges=False).plan(jobs)
    for number in range(len(jobs)):
        yield from _Job(session, plan, number).checked()


class _Job:
    """One job with what is known of its models."""

    def __init__(self, session: Session, plan: Plan, number: int) -> None:
        self.session, self.plan, self.number = session, plan, number
        self.job = plan.jobs[number]
        self.data = judging.Data.of(map(self._step, self.job.graph.nodes), session.planner.artifact)

    def checked(self) -> Iterator[Checked]:
        """What rules say of the configuration, then of each engine's model, then what nodes themselves refuse."""
        told: list[Finding] = []
        for finding in judging.of_configuration(self.job, self.session.keys):
            yield self._found("", finding)
        for engine in judging.engines(self.job):
            for each in self._of_engine(engine):
                told += [each.finding] if each.finding else []
                yield each
        for name in self.job.graph.nodes:
            error = self._step(name).error
            if error and not any(each.message in error.message for each in told):
                where = f"node {name!r}"
                yield self._found(
                    name, Finding("N1", "error", where, _unplaced(error, where), error.hint, error.status)
                )
            elif not error and not any((each.code, each.where) == ("N1", f"node {name!r}") for each in told):
                yield from (self._found(name, finding) for finding in self._not_there(name))

    def _not_there(self, name: str) -> Iterator[Finding]:
        """N1, E4: the program, the function, the files that a node begins with, and what it is built with."""
        step, where = self._step(name), f"node {name!r}"
        if reason := self._cannot_start(name):
            yield Finding("N1", "error", where, f"cmd: {reason}", _OF_PROGRAMS)
        for reference in code_references(step.spec.node):
            message, hint = definitions.lacks(reference, step.spec.folder, step.spec.root)
            if message:
                yield Finding("N1", "error", where, message, hint)
        if step.state != "fresh" and step.spec.node.kind != "command" and (lacking := self._lacking(step)):
            yield Finding("E4", "note", where, lacking, "here=true builds what this machine can, and lists the rest")
        if step.source and not step.source.files:
            message = f"the folder '{step.source.main}' holds no file"
            yield Finding("N1", "warning", where, message, "put the files there, or name the folder that has them")

    def _lacking(self, step: Step) -> str:
        return elsewhere.lacking(step.spec, self.session.keys.environment(step.spec))

    def _cannot_start(self, name: str) -> str:
        step = self._step(name)
        if step.state == "fresh":
            return ""
        return elsewhere.cannot_start(step.spec, self.session.keys.environment(step.spec))

    def _of_engine(self, engine: str) -> Iterator[Checked]:
        reason, reader = "", engine
        for name in judging.models_before(self.job, engine):
            step, is_model = self._step(name), self.job.graph.nodes[reader].node.kind in _READ_MODELS
            reader = name
            try:
                summary = _summary(step, is_model)
            except NodeFailed as error:
                yield self._found(
                    engine, Finding("N1", "error", f"node {name!r}", error.message, error.hint, error.status)
                )
                return
            if summary:
                yield from self._of_model(engine, name, summary)
                return
            reason = reason or f"node {name!r} was never built" * (step.source is None) or f"{name!r} is no ONNX model"
        yield Checked(_place(self.job, engine), None, OF_GRAPHS, reason or "it is made of no ONNX model")

    def _of_model(self, engine: str, name: str, summary: Mapping[str, Any]) -> Iterator[Checked]:
        is_final = self.job.graph.edges[engine]["model"].node == name
        keys = self.session.keys
        for finding in judging.of_model(self.job, engine, keys, summary, name, is_final, self.data):
            yield self._found(engine, finding)
        if self.job.settings.checking.parser:
            for finding in refusals(self.job.graph.nodes[engine].node, self._file(name)):
                yield self._found(engine, finding)

    def _file(self, name: str) -> Path:
        """Where the model of a node lies."""
        found = self.session.planner.artifact(self._step(name))
        assert found
        return found

    def _step(self, name: str) -> Step:
        return self.plan.steps[self.plan.of[self.number][name]]

    def _found(self, node: str, finding: Finding) -> Checked:
        return Checked(_place(self.job, node), finding)


def _place(job: Job | Unmade, node: str) -> Place:
    recipe = job.lock.with_suffix(".yaml")
    return Place(job.recipe, job.variant, node, str(recipe) if recipe.is_file() else _source(job), _model(job))


def _source(job: Job | Unmade) -> str:
    """The file that a model without a recipe is; code scanning takes no finding without a file."""
    specs = () if isinstance(job, Unmade) else job.graph.nodes.values()
    return next((str(file) for spec in specs if (file := local_source(spec))), "")


def _model(job: Job | Unmade) -> str:
    """The model as it was typed, where the name that it has in build/ does not tell which it is."""
    if isinstance(job, Unmade) or not _NUMBERED.search(job.recipe):
        return ""
    return next((word.partition("=")[2].strip("'\"") for word in job.shown if word.startswith("model=")), "")


def _summary(step: Step, is_model: bool) -> Mapping[str, Any]:
    """The summary of the model that a step made, or that a file of the user's holds; empty when there is none.

    `is_model`: its reader takes nothing else, whatever the file is called.

    Raises:
        NodeFailed: the file is no model that can be read.
    """
    if step.record and step.record.onnx:
        return step.record.onnx
    if step.source is None:
        return {}
    from mobuild.onnxmodel.files import data_files
    from mobuild.onnxmodel.summary import summary

    path = step.source.main
    if not is_model and path.suffix != ".onnx" and not (path.is_dir() and any(path.glob("*.onnx"))):
        return {}
    if path.is_dir():
        data_files(path)  # all there, and as long as the model says; of a file the source has looked at them
    return summary(path)


def _unplaced(error: MobuildError, where: str) -> str:
    """The message without the node that it begins with, since that is told already."""
    _, found, rest = error.message.partition(f"{where}: ")
    return rest if found else error.message
