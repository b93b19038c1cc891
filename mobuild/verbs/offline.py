"""`offline=true`: what would have to be fetched is told at once, before anything runs."""

from __future__ import annotations

from mobuild.errors import SourceError
from mobuild.steps import Plan


def refuse_absent(plan: Plan) -> None:
    """Refuse a plan that needs the network although it may not be asked.

    Raises:
        SourceError: names every remote source that is not in the cache.
    """
    if not plan.jobs[0].settings.offline:
        return
    absent = [
        f"node {step.spec.name!r}: {step.spec.node.said}" + (", not pinned" if step.state == "blocked" else "")  # type: ignore[attr-defined]
        for step in plan.steps.values()
        if step.state in ("stale", "blocked") and getattr(step.spec.node, "needs_network", False)
    ]
    if absent:
        what = "a remote source is" if len(absent) == 1 else f"{len(absent)} remote sources are"
        raise SourceError(
            f"offline=true, and {what} not in the cache:\n  " + "\n  ".join(absent),
            "run the same once with a network, or copy a cache that has them",
        )
