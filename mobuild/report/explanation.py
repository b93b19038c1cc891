"""Why a step runs or not, in sentences: what the planner found, what the gates say, what became of the last try."""

from __future__ import annotations

from mobuild.report.documents import last_run
from mobuild.steps import Plan, Step, verdict


def reasons(planned: Plan, step: Step) -> tuple[str, ...]:
    """All that `plan` and `why` tell about a step, one sentence each."""
    said = (*step.reasons, *_command(step), *_to_fetch(step), *misses(planned, step), *_last_failure(planned, step))
    return (*said, *(getattr(step.spec.node, "hints", ()) if step.state in ("stale", "blocked") else ()))


def misses(planned: Plan, step: Step) -> tuple[str, ...]:
    """Which constraints of its jobs a finished step misses."""
    judged = [verdict(step, planned.jobs[number]) for number in dict.fromkeys(user.job for user in step.users)]
    sentences = [f"gate failed: {miss}" for one in judged if one and one.blocks for miss in one.misses]
    return tuple(dict.fromkeys(sentences))


def _command(step: Step) -> tuple[str, ...]:
    """The command that unblocks a step, where its error names one."""
    hint = step.error.hint if step.error else ""
    return (hint,) if hint.startswith("mobuild ") and "\n" not in hint else ()


def _to_fetch(step: Step) -> tuple[str, ...]:
    said = getattr(step.spec.node, "said", "")  # of a remote source
    return (f"fetched from {said}",) if step.state == "stale" and said else ()


def _last_failure(planned: Plan, step: Step) -> tuple[str, ...]:
    if step.state != "stale":
        return ()
    last = (last_run(planned.jobs[user.job]).get(user.name, {}) for user in step.users)
    errors = [str(one.get("error", "")).partition("\n")[0] for one in last if one.get("state") == "failed"]
    return tuple(f"its last build failed: {error}" for error in errors[:1])
