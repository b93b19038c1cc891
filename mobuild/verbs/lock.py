"""`mobuild lock`: pin the remote sources of a recipe, and the packages of its images, by version, size and SHA-256."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mobuild import fetch, pins
from mobuild.errors import MobuildError, SourceError, Unreachable
from mobuild.job import Job
from mobuild.report import messages
from mobuild.units import about


def lock(jobs: Sequence[Job]) -> int:
    """Read every remote source that the targets need and write `<recipe>.lock` beside the recipe; packages are
    resolved, not fetched.

    A source that cannot be read keeps its pin and leaves the others alone, save those of a server that does not answer;
    the status is then that of its error.

    Raises:
        SourceError: a lock file cannot be read, or no network may be asked.
    """
    status = 0
    silent: dict[str, str] = {}  # server → what it did not answer for: each further question would wait as long
    for path, (recipe, uris, sets) in to_pin(jobs).items():
        if not uris and not sets:
            print(f"recipe {recipe!r}: no remote source to pin")
            continue
        _check_online(jobs[0], [*uris, *dict.fromkeys(node.lock_prefix for node in sets)])
        pins.read(path)  # a damaged one is told before anything is asked for
        sources = [partial(_pin_source, path, uri, silent) for uri in uris]
        for pin in [*sources, *(partial(_pin_set, path, node) for node in sets)]:
            try:
                pin()
            except MobuildError as error:
                messages.error(error)
                status = 1 if status == 1 else max(status, error.status)
    return status


def _pin_source(path: Path, uri: str, silent: dict[str, str]) -> None:
    """Read a source and write its pin at once: the next may take hours, and be interrupted."""
    _check_answers(uri, silent)
    name = pins.name_of(uri)
    messages.note(f"reads {name}")
    try:
        found = pins.pin(uri)
    except Unreachable:
        silent.setdefault(fetch.server_of(uri), name)
        raise
    known = pins.read(path)  # anew, since another command may have written meanwhile
    pins.write(path, {**known, name: found})
    print(f"{path}: {_said(uri, known.get(name), found)}")


def _pin_set(path: Path, node: Any) -> None:
    """Resolve a set of packages, and write its pins; those that an image of another configuration needs stay."""
    messages.note(f"resolves {node.said}")
    found = {node.lock_prefix + name: pins.Pin(**told) for name, told in node.resolve().items()}
    known = pins.read(path)
    pins.write(path, {**known, **found})
    for name in sorted(found):
        print(f"{path}: {_said(name, known.get(name), found[name])}")


def to_pin(jobs: Sequence[Job]) -> dict[Path, tuple[str, list[str], list[Any]]]:
    """Lock file → its recipe, and of all jobs of that the remote sources and the nodes of sets of packages, each set
    once."""
    found: dict[Path, tuple[str, list[str], list[Any]]] = {}
    for job in jobs:
        _, uris, sets = found.setdefault(job.lock, (job.recipe, [], []))
        uris += [uri for uri in dict.fromkeys(_remote(job)) if uri not in uris]
        nodes: list[Any] = [spec.node for _, spec in sorted(job.graph.nodes.items())]
        known = {_set(node) for node in sets}
        sets += {_set(node): node for node in nodes if _set(node)[0] and _set(node) not in known}.values()
    return found


def _set(node: Any) -> tuple[str, ...]:
    """What tells a set of packages from others; without a prefix for a node that needs none."""
    return tuple(getattr(node, name, "") for name in ("lock_prefix", "said", "architecture"))


def _remote(job: Job) -> Iterator[str]:
    for _, spec in sorted(job.graph.nodes.items()):
        if uri := getattr(spec.node, "remote_uri", ""):
            yield uri


def _check_online(job: Job, uris: Sequence[str]) -> None:
    if job.settings.offline:
        names = "\n  ".join(map(pins.name_of, uris))
        raise SourceError(f"lock: offline=true, and to pin is to read:\n  {names}", "leave offline=true away")


def _check_answers(uri: str, silent: Mapping[str, str]) -> None:
    if before := silent.get(fetch.server_of(uri)):
        raise SourceError(
            f"source {pins.name_of(uri)!r}: was not asked for, since its server has not answered for {before!r}"
        )


def _said(uri: str, before: pins.Pin | None, now: pins.Pin) -> str:
    name = pins.name_of(uri)
    size = f"{about(now.size_bytes)}, " if now.size_bytes else ""  # pip tells none of a wheel that it only resolves
    if before is None:
        return f"pinned {name} ({size}SHA-256 {now.sha256})"
    if before.sha256 == now.sha256:
        return f"as before {name}" + (f" ({size[:-2]})" if size else "")
    return (
        f"moved {name}: SHA-256 {before.sha256} → {now.sha256} ({about(before.size_bytes)} → {about(now.size_bytes)})"
    )
