"""D50–D52: is the hardware that was asked for the one that is here?"""

from __future__ import annotations

from dataclasses import dataclass

from mobuild.contract.rules import Request, check
from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.state import State
from mobuild.hardware import Hardware

_LESS, _MORE = 0.85, 1.25  # of the table's memory: ECC and the driver keep some, tables round


@dataclass(frozen=True)
class _Here:
    """A device that a program would find."""

    name: str
    capability: str
    memory_mib: int


def asked(state: State, hardware: Hardware) -> tuple[Finding, ...]:
    subject = f"hardware {hardware.name!r}"
    if hardware.vendor == "cpu":
        return ()
    if hardware.vendor != "nvidia":
        why = "doctor knows NVIDIA's cards, and so do TensorRT and TensorRT-RTX"
        fix = "hardware=cpu, or a card of NVIDIA's"
        return (Finding("D52", ERROR, subject, f"its vendor is {hardware.vendor!r}", why, fix),)
    here = _devices(state)
    listed = ", ".join(f"{one.name} ({one.capability or 'unknown'}, {_gib(one.memory_mib)} GiB)" for one in here)
    wanted = f"compute capability {hardware.compute_capability}, {hardware.memory_gib:g} GiB"
    elsewhere = _elsewhere(hardware)
    if not here:
        why = f"engines for {wanted} cannot be run or measured on this machine"
        return (Finding("D52", ERROR, subject, "no usable GPU of NVIDIA's is here", why, elsewhere),)
    alike = [one for one in here if one.capability == hardware.compute_capability]
    if not alike:
        why = f"expected {wanted}: an engine for one compute capability does not open on another, or runs slower"
        fix = f"choose the hardware that is here (mobuild list), or another machine\n{elsewhere}"
        return (Finding("D50", ERROR, subject, f"the card here is another: {listed}", why, fix),)
    share = max(one.memory_mib for one in alike) / 1024 / (hardware.memory_gib or 1.0)
    if not hardware.memory_gib or _LESS <= share <= _MORE:
        return ()
    why = f"expected {wanted}; " + (
        "a model that fits the table may not fit the card"
        if share < _LESS
        else "the card here is another variant, or the row is wrong"
    )
    fix = "choose the row of this variant or MIG slice, or write one: conf/hardware/<name>.yaml"
    return (Finding("D51", ERROR if share < _LESS else WARNING, subject, f"its memory differs: {listed}", why, fix),)


def _elsewhere(hardware: Hardware) -> str:
    """What can be done for a card that is not here: only TensorRT-RTX builds without it, and not for all."""
    refused = {
        name: [each for each in check(Request(hardware, name)) if each.severity == "error"]
        for name in ("tensorrt_rtx", "tensorrt")
    }
    if not refused["tensorrt_rtx"]:
        return "a TensorRT-RTX plan can be built without the card; run and measure it on a machine that has it"
    (no_plan, *_) = refused["tensorrt_rtx"]
    if not refused["tensorrt"]:
        return f"{no_plan.message}: build on a machine that has the card, with {no_plan.hint}"
    (no_engine, *_) = refused["tensorrt"]
    return f"no engine can be built for it: {no_engine.message}\n{no_engine.hint}"


def _devices(state: State) -> list[_Here]:
    """What CUDA shows; what nvidia-smi shows where CUDA does not open."""
    if state.cuda.devices:
        return [_Here(one.name, one.capability, one.memory_mib) for one in state.cuda.devices]
    return [_Here(one.name, one.capability, one.memory_mib) for one in state.cards] if state.cuda.status is None else []


def _gib(memory_mib: int) -> str:
    return f"{memory_mib / 1024:.1f}"
