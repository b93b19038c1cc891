"""What GPUs of a compute capability compute with."""

from __future__ import annotations

from dataclasses import dataclass

from mobuild.facts import Support, rows


@dataclass(frozen=True)
class Capability:
    """One compute capability: precisions with tensor cores, and those with instructions alone."""

    capability: str
    architecture: str
    tensor_cores: tuple[str, ...]
    instructions: tuple[str, ...]
    source: str
    confidence: str
    also: tuple[str, ...] = ()


def capability(text: str) -> Capability | None:
    """The row of a compute capability (`8.9`), by any of its numbers; none when it is not known."""
    known = rows(Capability, "capabilities", "capabilities")
    return next((each for each in known if text in (each.capability, *each.also)), None)


def precisions(text: str) -> tuple[str, ...]:
    """The precisions (`sparse` among them) for which a compute capability has tensor cores; empty when not known."""
    found = capability(text)
    return found.tensor_cores if found else ()


def computes(text: str, precision: str) -> Support:
    """Whether GPUs of a compute capability are good for a precision."""
    found = capability(text)
    if precision == "fp32":
        return Support("yes")
    if found is None:
        return Support("unverified", f"compute capability {text} is not in the table")
    if precision in found.instructions:
        return Support("limited", f"{found.architecture} ({text}) has {precision} without tensor cores", found.source)
    if precision not in found.tensor_cores:
        return Support.denied(f"{found.architecture} ({text}) has no {precision}", found)
    return Support.granted(found)
