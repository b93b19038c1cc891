"""The GPU of this machine as a row of hardware.

What the driver says beats every table.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from mobuild.errors import ToolchainError
from mobuild.facts.releases import releases
from mobuild.hardware import Hardware
from mobuild.runtime import cuda

_MEMORY_SHARE = 0.15  # a data sheet's gigabytes and the driver's differ by less
_JETSON = Path("/etc/nv_tegra_release")  # of Jetson Linux
_REMEDY = "hardware=cpu builds for the CPU; hardware=l4 for a card that is not here; mobuild list names all"


def here() -> Hardware:
    """The first GPU that CUDA shows to this process.

    Raises:
        ToolchainError: there is none, or no driver.
    """
    card, missing = _card()
    if card is None:
        raise ToolchainError(f"hardware=auto: {missing}", _REMEDY)
    # twice the clock, since memory transfers on both edges; kHz × bits / 8 = kB/s
    bandwidth_gb_s = 2 * card.memory_clock_khz * card.memory_bus_bits / 8e6
    return Hardware(
        name=card.name,
        vendor="nvidia",
        family="geforce" if "geforce" in card.name.lower() else "",
        compute_capability=card.compute_capability,
        memory_gib=round(card.memory_bytes / 2**30, 2),
        bandwidth_gb_s=round(bandwidth_gb_s, 1),
        l2_mib=card.l2_bytes / 2**20,
        sms=card.sms,
        unified=card.is_integrated,
        host=_host(),
        backends=("tensorrt_rtx", "tensorrt") if _is_rtx(card.compute_capability) else ("tensorrt",),
        source="the CUDA driver of this machine",
        confidence="M",
        uncertain=("bandwidth_gb_s",),
    )


@cache
def _card() -> tuple[cuda.Card | None, str]:
    """Asked once: opening CUDA takes a while."""
    return cuda.card()


def driver_cuda(hardware: Hardware) -> str:
    """The newest CUDA that the driver here runs, where the first GPU here is `hardware`; else empty."""
    if not hardware.compute_capability:
        return ""
    card, _ = _card()
    if card is None or card.compute_capability != hardware.compute_capability:
        return ""
    share = card.memory_bytes / 2**30 / (hardware.memory_gib or card.memory_bytes / 2**30)
    is_alike = hardware.sms in (0, card.sms) and abs(share - 1) <= _MEMORY_SHARE
    return card.cuda if is_alike else ""


def _host() -> str:
    """What the card sits in where that is no x86-64: a Jetson, or another ARM machine."""
    if platform.machine() != "aarch64":
        return ""
    return "jetpack" if _JETSON.exists() else "sbsa"


def _is_rtx(capability: str) -> bool:
    return capability in releases("tensorrt_rtx")[-1].builds
