"""What a node finds when it starts: its inputs in a folder of their own, a place for its artifact, and its job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mobuild import members, sources
from mobuild.executors.job import Job
from mobuild.fingerprint import Digest
from mobuild.node import encode
from mobuild.steps import Edge, Step
from mobuild.store import Store
from mobuild.store.disk import explained


def stage(
    step: Step,
    above: Mapping[str, Step],
    folder: Path,
    log: Path,
    store: Store,
    ignored: Sequence[str],
    secrets: Sequence[str],
) -> Job:
    """Put the inputs of a step, and a place for its artifact, into `folder`.

    `ignored` are the folders of mobuild's own, in which nothing counts as an input; the values of `secrets` are
    written nowhere.
    """
    out = folder / "out" / f"artifact{step.spec.node.suffix}"
    out.parent.mkdir()
    inputs = {role: _place(role, edge, above, folder / "in", store) for role, edge in step.needs.items()}
    code = [path for way in step.ways for path in way.traits.files]
    known = [*inputs.values(), *(path.resolve() for path in inputs.values()), *code]
    return Job(
        name=step.spec.name,
        node=encode(step.spec.node),
        inputs={role: str(path) for role, path in inputs.items()},
        out=str(out),
        folder=str(step.spec.folder),
        project=str(step.spec.root),
        log=str(log),
        known_files=tuple(str(path) for path in known),
        ignored_folders=tuple(ignored),
        secrets=tuple(secrets),
        env=step.spec.env,
        scratch=str(store.scratch),
    )


def _place(role: str, edge: Edge, above: Mapping[str, Step], folder: Path, store: Store) -> Path:
    """A path under which the node can read an input.

    A single file of the store is a symbolic link; a folder is real files, since onnx and onnxruntime
    refuse external data that is reached by a link. Beside a member lies nothing that its key does not know.
    """
    producer = above[edge.identity]
    destination = folder / role
    destination.parent.mkdir(exist_ok=True)
    if producer.source:
        return sources.stage(producer.source, destination) / edge.member
    assert producer.digest
    if store.objects.is_folder(producer.digest):
        with explained(destination):
            store.objects.materialise(producer.digest, destination, _names(edge, producer.digest, store))
        return destination / edge.member
    destination = destination.with_name(f"{role}{producer.spec.node.suffix}")
    destination.symlink_to(store.objects.path(producer.digest))
    return destination


def _names(edge: Edge, digest: Digest, store: Store) -> Collection[str] | None:
    if not edge.member:
        return None
    listed = store.objects.listing(digest)
    return members.needed(edge.member, listed, lambda name: store.objects.path(listed[name])).keys()
