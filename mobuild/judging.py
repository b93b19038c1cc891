"""What the contracts say about a job: rules joined with what is configured, installed and recorded.

Rules on configuration need nothing but the job. Rules on a graph need the summary of a model on its way into an
engine: the engine's own input, or that of a node before it that keeps the operators as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild import device, vocabulary
from mobuild.contract.configuration import release_is_driven
from mobuild.contract.findings import Finding
from mobuild.contract.formats import asked_names_are_single
from mobuild.contract.options import command_is_known, is_of_builder
from mobuild.contract.precision import backend_builds
from mobuild.contract.profiles import asked_sizes_rise
from mobuild.contract.rules import Model, Request, check, check_model
from mobuild.distributions import provider_of
from mobuild.errors import MobuildError, Refused
from mobuild.graph import NodeSpec
from mobuild.job import Job
from mobuild.keys import Keys
from mobuild.steps import Step
from mobuild.toolchain import Environment
from mobuild.vocabulary import Vocabulary

_ENGINE, _MODEL = "build_engine", "model"
_SIMPLIFY = "sanitize"
_UNMENDED = ("F1", "F2", "P1", "R10")  # rules whose errors stay when a model is simplified
_KEEP_OPERATORS = ("calibrate", "quantize")  # what any other kind makes of a model may mend what is wrong with it

Summary = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Data:
    """What is known of the samples that a model is for: their sizes and their tokenizers, by node."""

    samples: Mapping[str, Summary]
    vocabularies: Mapping[str, Vocabulary]

    @staticmethod
    def of(steps: Iterable[Step], paths: Callable[[Step], Path | None]) -> Data:
        """What the records of `steps` and the files of sources tell; `paths` says where a step's artifact lies."""
        samples, vocabularies = {}, {}
        for step in steps:
            if step.record and "input_lengths" in step.record.measurements:
                samples[step.spec.name] = step.record.measurements["input_lengths"]
            node: Any = step.spec.node
            may_be = node.kind == "source" and node.suffix in ("", ".json")  # a file, or a folder
            if may_be and (path := paths(step)) and (found := vocabulary.read(path)):
                vocabularies[step.spec.name] = found
        return Data(samples, vocabularies)


def of_configuration(job: Job, keys: Keys) -> tuple[Finding, ...]:
    """All findings about a job that need no model."""
    found: list[Finding] = []
    version = ""
    others: list[NodeSpec] = []
    for spec in job.graph.nodes.values():
        if (kind := spec.node.kind) == "command":
            if is_of_builder(spec.node.cmd):  # type: ignore[attr-defined]
                others.append(spec)
        elif request := request_for(job, spec, keys):
            found += (*check(request), *_of_engine(spec, request))
            version = request.backend_version if request.backend == "tensorrt" else version
        elif kind == "export":
            others.append(spec)
    for spec in others:
        node: Any = spec.node
        if node.kind == "command":
            own = version or _environment(job, spec, keys).distributions.get("tensorrt", "")
            found += command_is_known(node.cmd, own, spec.name)
        else:
            where = f"node {spec.name!r}", f"nodes.{spec.name}.outputs"
            found += asked_names_are_single(tuple(node.inputs), tuple(node.outputs), *where)
    return strictly(job, found)


def _of_engine(spec: NodeSpec, request: Request) -> tuple[Finding, ...]:
    """What the fields of an engine's node say against it, and its backend."""
    if spec.node.kind != _ENGINE:
        return ()
    node: Any = spec.node
    where = f"node {spec.name!r}"
    lacking = node.backend.lacks(node.precision)
    return (
        *release_is_driven(request, where),
        *backend_builds(lacking, request, where),
        *asked_sizes_rise(node.shapes, where),
    )


def of_step(job: Job, name: str, keys: Keys, summary: Summary, node: str, data: Data) -> tuple[Finding, ...]:
    """All findings about the model of `node` that node `name` is about to read, for the engines that come of it."""
    found = [of_model(job, engine, keys, summary, node, engine == name, data) for engine in engines_of(job, name)]
    return tuple(dict.fromkeys(each for one in found for each in one))


def of_foreign(job: Job, name: str, keys: Keys, summary: Summary, node: str, data: Data) -> tuple[Finding, ...]:
    """The errors about a file of the user's, `node`, that no simplifying by node `name` mends, for the engines that
    come of it; `summary` is a `foreign_summary`."""
    kept = {each: [one for one in names if one in summary["lasting"]] for each, names in summary["named"].items()}
    lasting = {**summary, "named": {each: names for each, names in kept.items() if names}}
    found = [
        finding
        for engine in engines(job)
        if _only_simplified(job, engine, name, node)
        for finding in of_model(job, engine, keys, lasting, node, False, data)
    ]
    return tuple(dict.fromkeys(each for each in found if each.code in _UNMENDED and each.severity == "error"))


def _only_simplified(job: Job, engine: str, name: str, node: str) -> bool:
    """Whether the engine comes of `node` by `name` and otherwise by nodes that keep a model's operators."""
    before = [*models_before(job, engine)]
    kinds = {job.graph.nodes[each].node.kind for each in before[:-1]}
    return before[-2:] == [name, node] and kinds <= {_SIMPLIFY, *_KEEP_OPERATORS}


def of_model(
    job: Job, engine: str, keys: Keys, summary: Summary, node: str, is_final: bool, data: Data
) -> tuple[Finding, ...]:
    """All findings about the model that `node` wrote, on its way into an engine of the job."""
    spec = job.graph.nodes[engine]
    request = request_for(job, spec, keys)
    assert request
    shapes = getattr(spec.node, "shapes", None)
    export = next((name for name in models_before(job, engine) if job.graph.nodes[name].node.kind == "export"), "")
    model = Model(request, summary, node, is_final, shapes, data.samples, data.vocabularies, export)
    return strictly(job, check_model(model))


def engines(job: Job) -> tuple[str, ...]:
    """The nodes that make an engine of a model."""
    return tuple(
        name
        for name, spec in job.graph.nodes.items()
        if spec.node.kind == _ENGINE and _MODEL in job.graph.edges[name] and not job.graph.edges[name][_MODEL].member
    )


def engines_of(job: Job, name: str) -> tuple[str, ...]:
    """The engines whose operators are those of the model that node `name` reads: itself, or those after it."""
    kind = job.graph.nodes[name].node.kind
    if kind == _ENGINE:
        return (name,) if name in engines(job) else ()
    if kind not in _KEEP_OPERATORS:
        return ()
    return tuple(engine for engine in engines(job) if name in _before(job, engine))


def models_before(job: Job, engine: str) -> Iterator[str]:
    """The nodes whose model becomes the engine, the nearest first."""
    name = engine
    while need := job.graph.edges[name].get(_MODEL):
        name = need.node
        yield name


def request_for(job: Job, spec: NodeSpec, keys: Keys) -> Request | None:
    """What rules on configuration look at; None for a node without a backend."""
    backend = getattr(spec.node, "backend", None)
    if backend is None:
        return None
    environment = _environment(job, spec, keys)
    return Request(
        hardware=job.hardware,
        backend=backend.name,
        backend_version=getattr(backend, "version", "") or installed_version(backend, environment.distributions),
        precision=str(getattr(spec.node, "precision", "")),
        options={each.name: getattr(backend, each.name) for each in dataclasses.fields(backend)},
        distributions=environment.distributions,
        python=environment.version,
        machine=dataclasses.replace(job.settings.checking.machine, driver_cuda=device.driver_cuda(job.hardware)),
        libraries=_carried(spec, backend),
    )


def installed_version(backend: Any, distributions: Mapping[str, str]) -> str:
    """The version of a backend's builder, under whichever of its names it is installed; empty without one."""
    names = (backend.distribution, *backend.tools)
    return next((distributions[found] for name in names if (found := provider_of(name, distributions))), "")


def _carried(spec: NodeSpec, backend: Any) -> tuple[str, ...]:
    """The nodes whose native code an engine takes along."""
    carries = getattr(backend, "carries", "")
    return tuple(need for role, need in spec.needs.items() if carries and role.startswith(carries))


def _environment(job: Job, spec: NodeSpec, keys: Keys) -> Environment:
    try:
        return keys.environment(spec)
    except MobuildError as error:
        error.message = f"recipe {job.recipe!r}, node {spec.name!r}: {error.message}"
        raise


def strictly(job: Job, found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Each finding once, without those that the job ignores, and warnings as errors where it is strict."""
    checking = job.settings.checking
    heard = tuple(each for each in dict.fromkeys(found) if each.code not in checking.ignore)
    if not checking.strict:
        return heard
    return tuple(dataclasses.replace(each, severity="error") if each.severity == "warning" else each for each in heard)


def refusal(found: Sequence[Finding], prefix: str = "") -> Refused | None:
    """The error that holds all findings that are errors; None without one."""
    errors = [each for each in found if each.severity == "error"]
    if not errors:
        return None
    text = "; ".join(f"{each.code}: {told(each)}" for each in errors)
    return Refused(f"{prefix}{text}", "\n".join(dict.fromkeys(each.hint for each in errors if each.hint)))


def told(finding: Finding) -> str:
    """A finding in one line, without its code; the hardware is named by what is around it."""
    is_placed = finding.where.startswith("hardware ")
    return finding.message if is_placed else f"{finding.where}: {finding.message}"


def _before(job: Job, engine: str) -> set[str]:
    """All nodes that an engine needs, directly or not."""
    found: set[str] = set()
    waiting = [engine]
    while waiting:
        for need in job.graph.edges[waiting.pop()].values():
            if need.node not in found:
                found.add(need.node)
                waiting.append(need.node)
    return found
