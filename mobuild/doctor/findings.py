"""What a check says: like a linter's message, with the numbers and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Finding:
    """One fault. `code` is stable; an error makes the exit status 1, a warning does not."""

    code: str
    severity: str
    subject: str  # driver, GPU 0, package 'torch', …
    found: str
    why: str
    fix: str


def status(findings: Sequence[Finding]) -> int:
    """The exit status: 1 with an error among the findings."""
    return 1 if any(one.severity == ERROR for one in findings) else 0
