"""Reads `nvidia-smi -q -x`: one document about all cards, whose fields come and go with the driver's version.

Element names: NVIDIA's nvsmi_device DTD, versions 11 to 13. A field that is not there is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from mobuild.doctor.state import Card, Link

_REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")  # from driver 535 on, before it
_HARMLESS = ("gpu_idle", "applications_clocks_setting", "display_clocks_setting", "sync_boost", "none")


def cards(document: str) -> tuple[Card, ...]:
    """The cards of the document, in nvidia-smi's order; none when it is no document."""
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError:
        return ()
    return tuple(_card(index, gpu) for index, gpu in enumerate(root.iter("gpu")))


def _card(index: int, gpu: Element) -> Card:
    reasons = dict(_reasons(gpu))
    generations, widths = "pci/pci_gpu_link_info/pcie_gen/", "pci/pci_gpu_link_info/link_widths/"
    slot = _integer(gpu, generations + "max_link_gen")
    return Card(
        index=index,
        name=_text(gpu, "product_name"),
        uuid=_text(gpu, "uuid"),
        bus=_text(gpu, "pci/pci_bus_id") or gpu.get("id", ""),
        brand=_text(gpu, "product_brand"),
        minor=_text(gpu, "minor_number"),
        memory_mib=_integer(gpu, "fb_memory_usage/total"),
        link=_link(_integer(gpu, generations + "current_link_gen"), _integer(gpu, widths + "current_link_width")),
        best_link=_link(
            _integer(gpu, generations + "max_device_link_gen") or slot, _integer(gpu, widths + "max_link_width")
        ),
        slot_generation=slot,
        is_idle=reasons.get("gpu_idle", False) or _text(gpu, "performance_state") not in ("", "P0", "P1", "P2"),
        throttled=tuple(name for name, active in reasons.items() if active and name not in _HARMLESS),
        power_limit_w=_power(gpu, "current_power_limit", "power_limit", "requested_power_limit"),
        usual_power_limit_w=_power(gpu, "default_power_limit"),
        ecc=_text(gpu, "ecc_mode/current_ecc"),
        uncorrected_errors=_uncorrected(gpu),
        remapping=_remapping(gpu),
        mig=_text(gpu, "mig_mode/current_mig"),
        slices=len(gpu.findall("mig_devices/mig_device")),
        fabric=_text(gpu, "fabric/state"),
    )


def _reasons(gpu: Element) -> Iterator[tuple[str, bool]]:
    for group in _REASONS:
        for element in gpu.findall(f"{group}/*"):
            name = re.sub(r"^clocks_(event|throttle)_reasons?_", "", element.tag)
            yield name, (element.text or "").strip() == "Active"


def _link(generation: int, lanes: int) -> Link | None:
    return Link(generation, lanes) if generation and lanes else None


def _power(gpu: Element, *names: str) -> float:
    for group in ("gpu_power_readings", "power_readings"):
        for name in names:
            if number := _number(gpu, f"{group}/{name}"):
                return number
    return 0.0


def _uncorrected(gpu: Element) -> int:
    """Errors since the driver was loaded that ECC could not mend."""
    found = 0
    for element in gpu.findall("ecc_errors/volatile//*"):
        if "uncorrect" in element.tag or element.tag == "double_bit":
            digits = re.match(r"\d+", (element.text or "").strip())
            found += int(digits[0]) if digits else 0
    return found


def _remapping(gpu: Element) -> str:
    """What is wrong with the rows that replace broken ones."""
    if _text(gpu, "remapped_rows/remapped_row_failure") == "Yes":
        return "failed"
    pending = (
        "remapped_rows/remapped_row_pending",
        "retired_pages/pending_retirement",
        "retired_pages/pending_blacklist",
    )
    return "pending" if any(_text(gpu, path) == "Yes" for path in pending) else ""


def _text(gpu: Element, path: str) -> str:
    text = (gpu.findtext(path) or "").strip()
    return "" if text in ("N/A", "[N/A]", "None", "Unknown Error", "Not Supported") else text


def _number(gpu: Element, path: str) -> float:
    found = re.match(r"[\d.]+", _text(gpu, path))
    return float(found[0]) if found else 0.0


def _integer(gpu: Element, path: str) -> int:
    return int(_number(gpu, path))
