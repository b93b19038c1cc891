"""Memory, processors and folders of the place that mobuild runs in; containers have less than their machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mobuild.doctor.machine import Machine
from mobuild.doctor.state import Place

_GROUPS = "/sys/fs/cgroup"
_UNLIMITED = 1 << 60  # version 1 writes the largest page-aligned number for no limit
_JIT_LIMIT = 1 << 30  # default of CUDA_CACHE_MAXSIZE (CUDA C++ Programming Guide, environment variables)
_TOOLKIT = ("nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime")
_HINTS = {"docker": "docker", "kubepods": "kubernetes", "libpod": "podman", "lxc": "lxc", "containerd": "containerd"}


def place(machine: Machine) -> Place:
    counted, allowed = machine.processors()
    cache = machine.variable("CUDA_CACHE_PATH") or f"{machine.variable('HOME') or ''}/.nv/ComputeCache"
    maximum = machine.variable("CUDA_CACHE_MAXSIZE") or ""
    limits = [limit for limit in _numbers(machine, "memory.max", "memory.limit_in_bytes") if limit < _UNLIMITED]
    used = _numbers(machine, "memory.current", "memory.usage_in_bytes")
    cached = _counter(machine, "memory.stat", "memory.stat", "inactive_file")  # the kernel gives it back when asked
    kills = _counter(machine, "memory.events", "memory.oom_control", "oom_kill")
    return Place(
        container=_container(machine),
        memory_limit=min(limits) if limits else None,
        memory_used=max(0, used[0] - cached) if used else 0,
        memory_total=_meminfo(machine.text("/proc/meminfo")),
        oom_kills=kills,
        shared=machine.room("/dev/shm"),
        processors=counted,
        allowed=allowed,
        quota=_quota(machine),
        jit_cache=cache,
        jit_cache_size=machine.size(cache),
        jit_cache_limit=int(maximum) if maximum.isdigit() else _JIT_LIMIT,
        jit_cache_off=machine.variable("CUDA_CACHE_DISABLE") == "1",
        jit_cache_access=machine.access(cache) or machine.access(cache.rpartition("/.nv/")[0]),
        docker=machine.which("docker"),
        toolkit=next(filter(None, map(machine.which, _TOOLKIT)), ""),
    )


def _container(machine: Machine) -> str:
    if machine.real("/.dockerenv"):
        return "docker"
    if machine.real("/run/.containerenv"):
        return "podman"
    if machine.variable("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    text = machine.text("/proc/self/cgroup")
    return next((name for hint, name in _HINTS.items() if hint in text), "")


def _folders(machine: Machine, controller: str) -> Iterator[tuple[str, int]]:
    """The folders of this process's control group and of those above it, with the version (cgroups(7))."""
    for line in machine.text("/proc/self/cgroup").splitlines():
        if line.count(":") < 2:  # some sandboxes write their own
            continue
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            mount, version = f"{_GROUPS}/{controllers}", 1
            if not machine.names(mount):
                mount = f"{_GROUPS}/{controller}"
        elif not controllers and machine.real(f"{_GROUPS}/cgroup.controllers"):
            mount, version = _GROUPS, 2
        else:
            continue
        # A container without a group namespace names a path that its mount does not show.
        own = mount + path.rstrip("/") if machine.names(mount + path.rstrip("/")) else mount
        while own.startswith(mount):
            yield own, version
            own = own.rpartition("/")[0]


def _numbers(machine: Machine, second: str, first: str) -> list[int]:
    """The numbers in a file of version 2 or 1 of the memory controller, from the group itself upwards."""
    texts = (
        machine.text(f"{folder}/{second if version == 2 else first}").strip()
        for folder, version in _folders(machine, "memory")
    )
    return [int(text) for text in texts if text.isdigit()]


def _counter(machine: Machine, second: str, first: str, name: str) -> int:
    for folder, version in _folders(machine, "memory"):
        text = machine.text(f"{folder}/{second if version == 2 else first}")
        if found := re.search(rf"^{name} (\d+)$", text, re.MULTILINE):
            return int(found[1])
    return 0


def _quota(machine: Machine) -> float | None:
    """Processors' worth of time that the group may use; None without a limit."""
    found = []
    for folder, version in _folders(machine, "cpu"):
        if version == 2:
            words = machine.text(f"{folder}/cpu.max").split()
        else:
            words = [machine.text(f"{folder}/cpu.cfs_{one}_us").strip() for one in ("quota", "period")]
        if len(words) == 2 and all(word.isdigit() for word in words):
            found.append(int(words[0]) / int(words[1]))
    return min(found) if found else None


def _meminfo(text: str) -> int:
    found = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
