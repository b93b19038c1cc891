"""A diagnosis as text or as a JSON document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.state import Card, State


def show(state: State, findings: Sequence[Finding]) -> None:
    """The machine in a few lines, each finding with its reason and its remedy, and the count."""
    for line in _machine(state):
        print(line)
    for one in findings:
        print(f"{one.code} {one.severity}: {one.subject}: {one.found}")
        print(_indented("why: ", one.why))
        print(_indented("fix: ", one.fix))
    print(_count(findings))


def show_json(state: State, findings: Sequence[Finding]) -> None:
    """`"schema": 1`."""
    print(
        json.dumps(
            {"schema": 1, "machine": _document(state), "findings": [asdict(one) for one in findings]},
            indent=2,
            ensure_ascii=False,
        )
    )


def _machine(state: State) -> Iterator[str]:
    if state.has_nvidia:
        newest = f", CUDA up to {state.cuda.newest}" if state.cuda.newest else ""
        kind = " (open kernel module)" if state.driver.module_is_open else ""
        yield f"driver: {state.driver_version or 'not known'}{kind}{newest}"
    else:
        yield "driver: no GPU of NVIDIA's and no driver here"
    for card in state.cards:
        yield f"GPU {card.index}: {_card(state, card)}"
    if not state.cards:
        for number, device in enumerate(state.cuda.devices):
            yield f"CUDA device {number}: {device.name}, {device.capability}, {device.memory_mib} MiB, {device.bus}"
    place = state.place
    limit = f" of {_gib(place.memory_total)}" if place.memory_limit is not None else ""
    memory = _gib(place.memory_total if place.memory_limit is None else place.memory_limit)
    where = f"container ({place.container})" if place.container else "machine"
    yield f"{where}: {place.allowed} of {place.processors} processors, {memory}{limit} of memory"


def _card(state: State, card: Card) -> str:
    number = state.numbers.get(card.index)
    parts = [card.name, card.capability, f"{card.memory_mib} MiB", card.uuid, card.bus]
    if state.cuda.status is not None:
        parts.append("hidden from CUDA" if number is None else f"CUDA device {number}")
    return ", ".join(part for part in parts if part)


def _document(state: State) -> dict[str, object]:
    place = state.place
    return {
        "driver": state.driver_version,
        "cuda": state.cuda.newest,
        "gpus": [
            {
                "index": card.index,
                "cuda_device": state.numbers.get(card.index),
                "name": card.name,
                "uuid": card.uuid,
                "pci": card.bus,
                "compute_capability": card.capability,
                "memory_mib": card.memory_mib,
            }
            for card in state.cards
        ],
        "container": place.container,
        "processors": place.allowed,
        "memory_limit_bytes": place.memory_limit,
        "packages": {name: one.version for name, one in sorted(state.software.packages.items())},
    }


def _indented(head: str, text: str) -> str:
    return f"    {head}" + text.replace("\n", "\n" + " " * (4 + len(head)))


def _count(findings: Sequence[Finding]) -> str:
    numbers = Counter(one.severity for one in findings)
    parts = [f"{numbers[kind]} {kind}{'s' * (numbers[kind] > 1)}" for kind in (ERROR, WARNING) if numbers[kind]]
    return ", ".join(parts) or "nothing is wrong"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"
