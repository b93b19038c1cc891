"""`mobuild path TARGET`: where the artifact of a target lies, for scripts."""

from __future__ import annotations

from collections.abc import Sequence

from mobuild.errors import NodeFailed
from mobuild.graph import local_source
from mobuild.job import Job
from mobuild.report.artifacts import artifact_path


def path(jobs: Sequence[Job]) -> int:
    """Print one path per target and job.

    Raises:
        NodeFailed: it was not built yet; the message says the command.
    """
    for job in jobs:
        for target in job.graph.targets:
            spec = job.graph.nodes[target]
            found = artifact_path(job, target, spec.node.suffix)
            candidates = [local] if (local := local_source(spec)) else [found, found.with_suffix("")]
            existing = next((one for one in candidates if one.exists()), None)
            if existing is None:
                raise NodeFailed(
                    f"recipe {job.recipe!r}, variant {job.variant!r}: {target!r} is not built; expected {found}",
                    f"build it: mobuild {job.words}",
                )
            print(existing)
    return 0
