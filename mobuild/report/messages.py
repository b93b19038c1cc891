"""Single lines for people, on standard error; cheap to import."""

from __future__ import annotations

import sys

from mobuild.errors import MobuildError


def error(problem: MobuildError) -> None:
    """What, where, how to fix."""
    print(f"error: {problem}", file=sys.stderr)


def warning(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
