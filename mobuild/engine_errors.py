"""From the runtime's own exceptions, which also live in images, to mobuild's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from mobuild.errors import NodeFailed, ToolchainError
from mobuild.remedies import remedy
from mobuild.runtime.errors import EngineError, RuntimeMissing


@contextmanager
def runtime_errors() -> Iterator[None]:
    """Inside, a RuntimeMissing becomes a ToolchainError and any other EngineError a NodeFailed, with the remedy
    where one is known."""
    try:
        yield
    except RuntimeMissing as error:
        raise ToolchainError(error.message, error.hint) from error
    except EngineError as error:
        raise NodeFailed(error.message, error.hint or remedy(error.message)) from error
