"""`mobuild lock`: pin the remote sources of a recipe by version, size and SHA-256."""

from __future__ import annotations

from collections.abc import Sequence

from mobuild import pins
from mobuild.job import Job


def lock(jobs: Sequence[Job]) -> int:
    """Read every remote source that the targets need and write `<recipe>.lock` beside the recipe.

    Raises:
        SourceError: a source cannot be read.
    """
    for job in {job.recipe: job for job in jobs}.values():
        uris = [uri for spec in job.graph.nodes.values() if (uri := getattr(spec.node, "remote_uri", ""))]
        if not uris:
            print(f"recipe {job.recipe!r}: no remote source to pin")
            continue
        found = {uri: pins.pin(uri) for uri in sorted(set(uris))}
        pins.write(job.lock, {**pins.read(job.lock), **found})
        print(f"{job.lock}: pinned {', '.join(map(pins.name_of, found))}")
    return 0
