"""`mobuild path TARGET`: where the artifact of a target lies, for scripts."""

from __future__ import annotations

from collections.abc import Sequence

from mobuild.errors import NodeFailed
from mobuild.job import Job
from mobuild.report.artifacts import artifact_path


def path(jobs: Sequence[Job]) -> int:
    """Print one path per target and job.

    Raises:
        NodeFailed: it was not built yet; the message says the command.
    """
    for job in jobs:
        for target in job.graph.targets:
            found = artifact_path(job, target, job.graph.nodes[target].node.suffix)
            candidates = [found, found.with_suffix("")]
            existing = next((one for one in candidates if one.exists()), None)
            if existing is None:
                raise NodeFailed(
                    f"recipe {job.recipe!r}, variant {job.variant!r}: {target!r} is not built; expected {found}",
                    f"build it: mobuild {' '.join(job.overrides)}",
                )
            print(existing)
    return 0
