"""What a contract says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One verdict of a rule. `code` is stable (`R1`); an error refuses, a warning only tells."""

    code: str
    severity: str  # error, warning
    where: str
    message: str
    hint: str = ""
