"""Asks the machine everything that the checks want to know. Reads only; opens CUDA in another process."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from mobuild.doctor import installed, place, smi
from mobuild.doctor.machine import Machine, Ran
from mobuild.doctor.state import Card, Cuda, Device, Driver, Runtime, State, bus

_VERSION = re.compile(r"\b(\d{3}\.\d+(?:\.\d+)?)\b")
_NVIDIA, _DISPLAY, _SWITCH = "0x10de", "0x03", "0x0680"  # PCI vendor and classes
_BUS = "/sys/bus/pci/devices"


def survey(machine: Machine) -> State:
    """The state of the machine."""
    query = machine.run("nvidia-smi", "-q", "-x")
    cuda = _cuda(machine, installed.runtimes(machine))
    found = smi.cards(query.out)
    return State(
        driver=_driver(machine, query, found),
        cuda=cuda,
        cards=_with_capabilities(machine, found, cuda),
        software=installed.software(machine),
        place=place.place(machine),
        visible=machine.variable("CUDA_VISIBLE_DEVICES"),
        order=machine.variable("CUDA_DEVICE_ORDER"),
    )


def _driver(machine: Machine, query: Ran, cards: tuple[Card, ...]) -> Driver:
    module = machine.text("/proc/driver/nvidia/version").partition("\n")[0]
    devices = _pci_devices(machine)
    names = machine.names("/dev")
    files = ["/dev/nvidiactl", "/dev/nvidia-uvm", *(f"/dev/nvidia{card.minor}" for card in cards if card.minor)]
    manager = machine.which("nv-fabricmanager")
    return Driver(
        module=_version(module) or machine.text("/sys/module/nvidia/version").strip(),
        module_is_open="Open Kernel Module" in module,
        nouveau=bool(machine.names("/sys/module/nouveau")),
        on_bus=tuple(address for address, kind in devices if kind.startswith(_DISPLAY)),
        has_switches=any(kind.startswith(_SWITCH) for _, kind in devices)
        or any(name.startswith("nvidia-nvswitch") for name in names),
        fabric_manager=_version(machine.run("nv-fabricmanager", "--version").said) if manager else "",
        fabric_manager_runs=machine.run("systemctl", "is-active", "nvidia-fabricmanager").out.strip() == "active",
        smi=query,
        nvml_version=_version(line) if (line := _line(query.said, "NVML library version")) else "",
        files={path: machine.access(path) for path in files},
        is_wsl="dxg" in names,
    )


def _pci_devices(machine: Machine) -> list[tuple[str, str]]:
    """Address and class of NVIDIA's devices."""
    return [
        (address, machine.text(f"{_BUS}/{address}/class").strip())
        for address in machine.names(_BUS)
        if machine.text(f"{_BUS}/{address}/vendor").strip() == _NVIDIA
    ]


def _cuda(machine: Machine, runtimes: tuple[str, ...]) -> Cuda:
    found = machine.opened(*runtimes)
    if "status" not in found:
        return Cuda(problem=str(found.get("error") or found.get("crash") or ""))
    library = machine.real(found["library"]) or found["library"]
    return Cuda(
        status=found["status"],
        library=library,
        library_version=_version(library.rpartition(".so.")[2]),
        newest=_cuda_version(found["version"]),
        devices=tuple(_device(one) for one in found["devices"]),
        runtimes=tuple(
            Runtime(one["path"], _cuda_version(one["version"]), one["status"])
            for one in found["runtimes"]
            if "status" in one
        ),
    )


def _device(found: dict[str, Any]) -> Device:
    kept = {name: found[name] for name in ("name", "uuid", "bus", "capability", "context")}
    return Device(memory_mib=found["memory_bytes"] >> 20, **kept)


def _with_capabilities(machine: Machine, cards: tuple[Card, ...], cuda: Cuda) -> tuple[Card, ...]:
    """CUDA knows the capability of each device that it shows; of the others nvidia-smi does, in newer drivers."""
    by_bus = {bus(device.bus): device.capability for device in cuda.devices}
    if not cards or all(bus(card.bus) in by_bus for card in cards):
        said: list[str] = []
    else:
        said = machine.run("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").out.split()
    spoken = dict(enumerate(one for one in said if re.fullmatch(r"\d+\.\d+", one)))
    return tuple(replace(card, capability=by_bus.get(bus(card.bus)) or spoken.get(card.index, "")) for card in cards)


def _cuda_version(number: int) -> str:
    """12080 → 12.8; empty for 0."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


def _version(text: str) -> str:
    found = _VERSION.search(text)
    return found[1] if found else ""


def _line(text: str, words: str) -> str:
    return next((line for line in text.splitlines() if words in line), "")
