"""Builds nodes in this very process, where a debugger has the terminal.

The other nodes' modules, patches and environment are there as well, and no observer's word is taken, so
what comes out is for looking at alone: nobody records it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mobuild import worker
from mobuild.container import Container
from mobuild.errors import ToolchainError
from mobuild.executors.job import Job, Observed, Outcome


class InProcess:
    """An executor for one node at a time. Time limits do not hold: a debugger waits for a person."""

    def run(
        self,
        job: Job,
        *,
        isolated: bool,
        python: Path | None = None,
        timeout_seconds: float | None = None,
        container: Container | None = None,
    ) -> Outcome:
        """Build `job` here, its output on the terminal.

        Raises:
            MobuildError: what the node failed of.
            ToolchainError: it runs under another interpreter.
            KeyboardInterrupt: Ctrl-C.
        """
        if container or (python and os.path.abspath(python) != sys.executable):  # noqa: PTH100 - links tell environments apart
            place = f"in {container.image!r}" if container else f"under {str(python)!r}"
            raise ToolchainError(
                f"node {job.name!r}: runs {place}, and debug=true runs nodes in mobuild's own process",
                "in the folder that `mobuild shell` opens, debug it under its own: python -m pdb rerun.py",
            )
        with _restored():
            document = worker.build(job.document(), warm=True)
        outcome = Outcome.from_document(json.loads(worker.encoded(document)))
        return dataclasses.replace(outcome, observed=Observed(), observed_by=())

    def close(self) -> None:
        """Nothing runs elsewhere."""


@contextmanager
def _restored() -> Iterator[None]:
    """Put back what a node changes for itself: the working directory, its variables and the module search path."""
    folder, variables, paths = Path.cwd(), dict(os.environ), list(sys.path)
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:] = paths
