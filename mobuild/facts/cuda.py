"""CUDA toolkits, the drivers that they need on Linux, and the GPUs that they compile for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mobuild.facts import CERTAIN, Support, minor, order, rows


@dataclass(frozen=True)
class _Toolkit:
    version: str
    driver: str
    source: str
    confidence: str
    updates: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Floor:
    major: str
    driver: str
    source: str
    confidence: str


@dataclass(frozen=True)
class _Lowest:
    major: str
    capability: str
    source: str
    confidence: str


@dataclass(frozen=True)
class _Compiler:
    capability: str
    version: str
    source: str
    confidence: str


def driver_floor(cuda: str) -> str:
    """The oldest driver on which a toolkit (`12.4`) runs at all; empty when it is not known."""
    found = _floor(cuda)
    return found.driver if found else ""


def driver_floors() -> dict[str, str]:
    """CUDA's major versions (`12`) with the oldest driver of each, oldest first."""
    return {each.major: each.driver for each in rows(_Floor, "cuda", "floors")}


def toolkit_driver(cuda: str) -> str:
    """The driver that comes with a toolkit (`12.4`, `12.4.1`); empty when it is not known."""
    found = _toolkit(cuda)
    if found is None:
        return ""
    update = cuda.split(".")[2:3]
    return found.updates.get(update[0], found.driver) if update else found.driver


def driver_fits(driver: str, cuda: str) -> Support:
    """Whether a driver runs a toolkit: wholly, or without what is compiled at run time (`limited`)."""
    floor, toolkit = _floor(cuda), _toolkit(cuda)
    if floor is None:
        return Support("unverified", f"CUDA {cuda} is not in the table")
    if order(driver) < order(floor.driver):
        why = f"driver {driver} is older than {floor.driver}, which CUDA {cuda} needs"
        return Support.denied(why, floor)
    own = toolkit_driver(cuda)
    if toolkit is None or toolkit.confidence not in CERTAIN:
        return Support("unverified", f"the driver of CUDA {cuda} is not known", floor.source)
    if order(driver) < order(own):
        why = f"driver {driver} is older than {own} of CUDA {cuda}: code that is compiled at run time may not load"
        return Support("limited", why, toolkit.source)
    return Support("yes", source=toolkit.source)


def compiles(cuda: str, capability: str) -> Support:
    """Whether a toolkit compiles for a compute capability."""
    for lowest in rows(_Lowest, "cuda", "lowest"):
        if order(cuda)[:1] >= order(lowest.major) and order(capability) < order(lowest.capability):
            return Support.denied(f"CUDA {cuda} starts at compute capability {lowest.capability}", lowest)
    known, toolkit = rows(_Compiler, "cuda", "compilers"), _toolkit(cuda)
    first = next((each for each in known if each.capability == capability), None)
    if first and order(cuda) < order(first.version):
        return Support.denied(f"CUDA compiles for {capability} from {first.version} on", first)
    if toolkit is None:
        return Support("unverified", f"CUDA {cuda} is not in the table")
    if first is None and order(capability) > min(order(each.capability) for each in known):
        return Support("unverified", f"compute capability {capability} is not in the table")
    return Support.granted(first or toolkit)


def _toolkit(cuda: str) -> _Toolkit | None:
    return next((each for each in rows(_Toolkit, "cuda", "toolkits") if order(each.version) == minor(cuda)), None)


def _floor(cuda: str) -> _Floor | None:
    return next((each for each in rows(_Floor, "cuda", "floors") if each.major == cuda.split(".")[0]), None)
