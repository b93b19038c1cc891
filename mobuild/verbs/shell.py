"""`mobuild shell NODE`: a shell in what the node's failed build left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mobuild.errors import ConfigError, NodeFailed
from mobuild.job import Job
from mobuild.report import messages
from mobuild.report.documents import last_run
from mobuild.steps import cause
from mobuild.store.failures import Owner
from mobuild.verbs.session import Session

# Read before the shell starts; `rerun.sh` then takes the variables as the person left them.
_ENTER = 'here=$PWD && . ./environment.sh && exec "$0"'


def shell(jobs: Sequence[Job]) -> int:
    """Open `$SHELL` there, with the variables and the Python of the build; 0 when it ends with 0, else 1.

    Raises:
        ConfigError: several nodes are meant.
        NodeFailed: no failed build of the node is kept.
    """
    job, node = _only(jobs)
    folder = _failed_build(job, node)
    messages.note(
        f"{job.recipe}/{job.variant} {node}: ./rerun.sh runs it again, its inputs are in in/, its output in out/; "
        "leave with exit"
    )
    return 1 if _run_in(folder) else 0


def _only(jobs: Sequence[Job]) -> tuple[Job, str]:
    asked = [(job, target) for job in jobs for target in job.graph.targets]
    if len(asked) != 1:
        names = ", ".join(f"{job.recipe}/{job.variant} {target}" for job, target in asked)
        raise ConfigError(f"shell: expected one node, found {names}", "name one node of one variant, without -m")
    return asked[0]


def _failed_build(job: Job, node: str) -> Path:
    session = Session.open([job])
    planned = session.plan([job])
    where = f"recipe {job.recipe!r}, variant {job.variant!r}: {node!r}"
    step = planned.steps[planned.of[0][node]]
    if step.state == "fresh":
        raise NodeFailed(f"{where} is fresh, so there is no failed build to look into")
    folder = session.store.failures.find(Owner(job.settings.project, job.recipe, job.variant, node))
    if folder is None and (problem := cause(planned, step)):
        raise problem
    if folder is None:
        failed = [name for name, state in last_run(job).items() if state["state"] == "failed" and name != node]
        hint = f"mobuild shell {job.words_for(failed[0])}" if failed else f"build it: mobuild {job.words}"
        raise NodeFailed(f"{where} has no failed build that is kept", hint)
    if lost := [path.name for path in folder.glob("in/*") if not path.exists()]:
        raise NodeFailed(f"{where}: its input {lost[0]} is no longer there", f"build it again: mobuild {job.words}")
    return folder


def _run_in(folder: Path) -> int:
    program = shutil.which(os.environ.get("SHELL", "")) or "/bin/sh"
    child = subprocess.Popen(
        ["/bin/sh", "-c", _ENTER, program], cwd=folder, env={**os.environ, "MOBUILD_SHELL": str(folder)}
    )
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for what runs in the shell
    try:
        return child.wait()
    finally:
        signal.signal(signal.SIGINT, former)
