"""Faults of mobuild itself, as errors that can be reported: one line, and the traceback in a file."""

from __future__ import annotations

import tempfile
import traceback

from mobuild.errors import MobuildError


def unforeseen(fault: Exception, where: str) -> MobuildError:
    """An error for an exception that nobody foresaw; its traceback goes to a file that the message names."""
    with tempfile.NamedTemporaryFile("w", prefix="mobuild-fault-", suffix=".txt", delete=False) as stream:
        traceback.print_exception(fault, file=stream)
    return MobuildError(
        f"{where}: fault in mobuild: {type(fault).__name__}: {fault}",
        "this is not your mistake; please report it with the traceback",
        stream.name,
    )
