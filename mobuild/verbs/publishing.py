"""`image.push=registry/team/name:tag`: what a build does with its image at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mobuild.errors import ConfigError, GateFailed, MobuildError
from mobuild.image.references import parse
from mobuild.job import Job
from mobuild.report import messages
from mobuild.report.artifacts import Placed
from mobuild.results import Run


def check_push(jobs: Sequence[Job]) -> MobuildError | None:
    """What is wrong with the wish to push, before anything is built for it."""
    reference = jobs[0].settings.publishing.push
    if reference is None:
        return None
    try:
        parse(reference)
    except ConfigError as error:
        return error
    images = [target for job in jobs for target in job.graph.targets if hasattr(job.graph.nodes[target].node, "push")]
    if len(images) != 1:
        found = "none of the targets is one" if not images else f"there are {len(images)}: {', '.join(images)}"
        return ConfigError(f"image.push: expected one image, and {found}", "target=image, of one variant")
    return None


def push(done: Run, placed: Sequence[Placed], on_error: Callable[[MobuildError], None]) -> list[MobuildError]:
    """Push the image that was asked for; the error, if any, which is told at once."""
    publishing = done.plan.jobs[0].settings.publishing
    if publishing.push is None:
        return []
    for one in placed:
        node = done.plan.jobs[one.job].graph.nodes[one.node].node
        if not hasattr(node, "push"):
            continue
        record = done.of(one.job, one.node).record
        try:
            if record and record.measurements.get("verdict") == "proxy" and not publishing.push_unproven:
                raise GateFailed(
                    "image.push: the engine was judged by proxy, and not on its device; nothing was pushed",
                    "run target=validation on a machine with the card, or image.push_unproven=true",
                )
            messages.note(f"pushed  {node.push(one.path, publishing.push)}")
        except MobuildError as error:
            on_error(error)
            return [error]
    return []
