"""D20–D24: what makes a card slower than its datasheet, or wrong."""

from __future__ import annotations

from collections.abc import Iterator

from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.state import Card, Link, State

_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}  # PCI Express base specification, each way
_REASONS = {  # NVML, clocks event reasons
    "sw_power_cap": "at its power limit",
    "hw_slowdown": "hardware slowdown: heat, or the power supply",
    "hw_thermal_slowdown": "hardware slowdown by heat",
    "hw_power_brake_slowdown": "power brake: the power supply asks for less",
    "sw_thermal_slowdown": "slowed by the driver for heat",
}


def cards(state: State) -> tuple[Finding, ...]:
    return tuple(finding for card in state.cards for finding in _card(card))


def _card(card: Card) -> Iterator[Finding]:
    yield from _link(card)
    yield from _memory(card)
    yield from _clocks(card)
    yield from _slices(card)


def _link(card: Card) -> Iterator[Finding]:
    """An idle card lowers its generation, so that is judged by what card and slot can do together, then."""
    if card.link is None or card.best_link is None:
        return
    generation = card.slot_generation if card.is_idle else card.link.generation
    now = Link(generation or card.link.generation, card.link.lanes)
    if now.lanes >= card.best_link.lanes and now.generation >= card.best_link.generation:
        return
    rates = _rate(now), _rate(card.best_link)
    factor = f" {rates[1] / rates[0]:.1f} times as long" if all(rates) else " longer"
    yield Finding(
        "D20",
        WARNING,
        _name(card),
        f"PCI Express {_shown(now)}, and the card can do {_shown(card.best_link)}",
        f"{rates[0]:.1f} instead of {rates[1]:.1f} GB/s: copies of inputs, outputs and weights take{factor}",
        "another slot (nearest to the processor), no riser, or the slot's generation and bifurcation in the firmware; "
        "a virtual machine may show less than there is",
    )


def _memory(card: Card) -> Iterator[Finding]:
    if card.uncorrected_errors or card.remapping:
        errors = f"{card.uncorrected_errors} uncorrected memory errors" if card.uncorrected_errors else ""
        rows = f"the replacement of broken rows is {card.remapping}" if card.remapping else ""
        yield Finding(
            "D21",
            ERROR,
            _name(card),
            "; ".join(filter(None, (errors, rows))),
            "results may be wrong, and programs end with Xid 48, 63, 64, 94 or 95",
            "reset the card (nvidia-smi -r) or reboot; if it comes again or has failed, the card must be replaced",
        )
    elif card.ecc == "Disabled":
        yield Finding(
            "D21",
            WARNING,
            _name(card),
            "ECC is off",
            "a flipped bit passes unnoticed, in weights that serve for weeks",
            f"nvidia-smi -i {card.index} -e 1, then reboot; on some cards it costs memory and bandwidth",
        )


def _clocks(card: Card) -> Iterator[Finding]:
    reasons = [f"{name} ({_REASONS[name]})" for name in card.throttled if name in _REASONS]
    if reasons:
        yield Finding(
            "D22",
            WARNING,
            _name(card),
            f"its clocks are held down: {', '.join(reasons)}",
            "times that are measured now are not those of the card, and kernels are chosen by times",
            "look at its cooling, power supply and load: nvidia-smi -q -d TEMPERATURE,POWER,PERFORMANCE",
        )
    if card.power_limit_w and card.power_limit_w < card.usual_power_limit_w:
        yield Finding(
            "D23",
            WARNING,
            _name(card),
            f"its power limit is {card.power_limit_w:g} W, and {card.usual_power_limit_w:g} W is usual",
            "under load its clocks stay below those of other cards of its kind; benchmarks count the limit",
            f"nvidia-smi -i {card.index} -pl {card.usual_power_limit_w:g}, if the lower limit was not meant",
        )


def _slices(card: Card) -> Iterator[Finding]:
    if card.mig == "Enabled" and not card.slices:
        yield Finding(
            "D24",
            ERROR,
            _name(card),
            "MIG is on, and the card has no MIG device",
            "in this mode programs run on MIG devices alone, so CUDA finds none",
            f"make some: nvidia-smi mig -i {card.index} -cgi <profile> -C (nvidia-smi mig -lgip lists profiles), "
            f"or turn MIG off: nvidia-smi -i {card.index} -mig 0",
        )
    elif card.mig == "Enabled":
        yield Finding(
            "D24",
            WARNING,
            _name(card),
            f"MIG is on, with {card.slices} MIG device{'s' * (card.slices > 1)}",
            "a process sees one of them, with its own share of memory and multiprocessors: engines and times of the "
            "whole card do not fit",
            "choose the device by CUDA_VISIBLE_DEVICES=MIG-… (nvidia-smi -L), and a hardware row for the slice",
        )


def _rate(link: Link) -> float:
    return _LANE_GB_S.get(link.generation, 0.0) * link.lanes


def _shown(link: Link) -> str:
    return f"{link.generation}.0 x{link.lanes}"


def _name(card: Card) -> str:
    return f"GPU {card.index}"
