"""What a contract says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mobuild.facts import Support


@dataclass(frozen=True)
class Finding:
    """One verdict of a rule. `code` is stable (`R1`); an error refuses, a warning only tells, a note asks for nothing.

    `where` names nodes, tensors, options or hardware; `message` holds the reason with its numbers, `hint` the remedy.
    """

    code: str
    severity: str  # error, warning, note
    where: str
    message: str
    hint: str = ""
    status: int = 1  # of a command that ends with it: 2 where the request itself is wrong, as in `errors`


def found(code: str, answer: Support, where: str, message: str, hint: str = "") -> tuple[Finding, ...]:
    """What an answer of the facts means: nothing for yes, an error for a firm no, a warning for the rest."""
    if answer.word == "yes":
        return ()
    return (Finding(code, "error" if answer.word == "no" else "warning", where, message, hint),)


def nodes(names: Iterable[str]) -> str:
    """`node 'a'`, `nodes 'a', 'b'`: all of them."""
    shown = [repr(name) for name in names]
    return f"node{'s' * (len(shown) > 1)} {', '.join(shown)}"
