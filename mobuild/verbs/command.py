"""`mobuild command TARGET`: the command line that builds the same engine without mobuild; of a node of kind `command`,
its own with all paths in place."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mobuild import judging, programs
from mobuild.contract.configuration import working_version
from mobuild.errors import NodeFailed
from mobuild.facts.releases import PRODUCTS, release
from mobuild.graph import local_source
from mobuild.job import Job
from mobuild.report import messages
from mobuild.report.documents import artifact_path
from mobuild.steps import Plan, Step
from mobuild.verbs.session import Session, findings, refuse

_OF_PYTHON = (
    "E3",
    "R14",
)  # mobuild does not build with it, or its wheels are for another Python; trtexec needs neither


def command(jobs: Sequence[Job]) -> int:
    """Print shell lines for every target, each for the version that builds it here.

    Raises:
        NodeFailed: the target is neither an engine nor a command, or the model that it is built from is not there yet.
        MobuildError: that of a node before it, such as a source that is missing.
    """
    session = Session.open(jobs)
    planned = session.plan(jobs)
    for number, job in enumerate(jobs):
        found = findings(job, session.keys)
        refuse(job, [each for each in found if each.code not in _OF_PYTHON])
        doubts = [f"# {each.code} {each.severity}: {judging.told(each)}" for each in found if each.severity != "note"]
        for target in job.graph.targets:
            step = planned.steps[planned.of[number][target]]
            where = f"recipe {job.recipe!r}, variant {job.variant!r}: {target!r}"
            if step.spec.node.kind == "command":
                print(_own_line(session, planned, job, target, step))
                continue
            if step.spec.node.kind != "build_engine":
                raise NodeFailed(
                    f"{where} is no engine: mobuild itself makes it",
                    f"name a target of kind build_engine or command; mobuild list recipe={job.recipe} shows the kinds",
                )
            print("\n".join([*doubts, _lines(session, planned, job, target, step, where)]))
    return 0


def _own_line(session: Session, planned: Plan, job: Job, target: str, step: Step) -> str:
    """What a node of kind `command` runs, and where; its output goes to the current folder."""
    node: Any = step.spec.node
    inputs, out = {}, Path.cwd() / f"{target}{node.suffix}"
    for role, need in job.graph.edges[target].items():
        spec = planned.steps[step.needs[role].identity].spec
        path = local_source(spec) or artifact_path(job, need.node, spec.node.suffix)
        inputs[role] = path / need.member
        if not path.exists():
            messages.note(f"{need.node!r} is put there by: mobuild {_for(job, need.node)}")
    words = programs.words(node.cmd, inputs, out, node.shell, step.spec.root)
    if words[0] in ("python", "python3") and not step.spec.container and not step.spec.requirements:
        words[0] = str(session.keys.environment(step.spec).python)
    line = words[0] if node.shell else shlex.join(words)
    variables = [f"{name}={shlex.quote(value)}" for name, value in step.spec.env.items() if value is not None]
    if variables:
        line = " ".join(["env", *variables, f"sh -c {shlex.quote(line)}" if node.shell else line])
    start = out if node.cwd == "{out}" else step.spec.root / node.cwd
    before = [f"mkdir {shlex.quote(str(out))}"] if node.out == "folder" else []
    return " && ".join([*before, f"cd {shlex.quote(str(start))}", line])


def _lines(session: Session, planned: Plan, job: Job, target: str, step: Step, where: str) -> str:
    node = _with_libraries(planned, job, target, step)
    producer = planned.steps[step.needs["model"].identity]
    name = job.graph.edges[target]["model"].node
    model = local_source(producer.spec) or artifact_path(job, name, producer.spec.node.suffix)
    if errors := [each.error for each in planned.steps.values() if each.error]:
        raise errors[0]
    if producer.state != "fresh":
        raise NodeFailed(f"{where}: {name!r}, its model, is not built yet", f"mobuild {_for(job, name)}")
    if not model.exists() and not model.with_suffix("").exists():
        messages.note(f"{name!r} is put there by: mobuild {_for(job, name)}")
    out = f"{target}{node.suffix}"
    told = node.command(_summary(producer, model), str(model), out, _version(session, job, step))
    if not told:
        raise NodeFailed(f"{where}: backend {node.backend.name!r} tells no command line")
    return str(told)


def _with_libraries(planned: Plan, job: Job, target: str, step: Step) -> Any:
    """The node, whose backend knows where the libraries lie that other nodes make for it."""
    node: Any = step.spec.node
    carries = getattr(node.backend, "carries", "")
    made = {
        role: str(
            artifact_path(job, need.node, planned.steps[step.needs[role].identity].spec.node.suffix) / need.member
        )
        for role, need in job.graph.edges[target].items()
        if carries and role.startswith(carries) and role not in node.sources
    }
    return replace(node, backend=node.backend.placed({**node.sources, **made})) if made else node


def _summary(producer: Step, model: Path) -> Mapping[str, Any]:
    if producer.record:
        return producer.record.onnx
    from mobuild import onnxmodel  # the user's own file, which no record tells of

    return onnxmodel.summary(model)


def _version(session: Session, job: Job, step: Step) -> str:
    """The builder's: asked for, installed, or the newest that is known to take the card."""
    backend: Any = getattr(step.spec.node, "backend", None)
    request = judging.request_for(job, step.spec, session.keys)
    if backend.name not in PRODUCTS or not request or request.backend_version:
        return request.backend_version if request else ""
    newest = working_version(request) or release(backend.name).version
    messages.note(f"{backend.name} is not installed and no backend.version is asked for: this is for {newest}")
    return newest


def _for(job: Job, target: str) -> str:
    others = [word for word in shlex.split(job.words) if not word.startswith("target=")]
    return shlex.join([f"target={target}", *others])
