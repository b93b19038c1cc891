"""D01–D08: why CUDA does not open. One cause is named, the first of the list that explains it."""

from __future__ import annotations

from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.state import Device, State

_RUN_WITH_GPUS = "start the container with its GPUs: docker run --gpus all …, podman run --device nvidia.com/gpu=all …"
_RELOAD = (
    "reboot, or stop whatever uses the GPU and reload the module: "
    "modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia"
)
_HOLD = "hold the packages against unattended upgrades: apt-mark hold 'nvidia-*' 'libnvidia-*'"


def opening(state: State) -> tuple[Finding, ...]:
    """Why no card can be used; nothing when CUDA works, or when nothing of NVIDIA's is here."""
    if state.cuda.works:
        return tuple(_context(state, device) for device in state.cuda.devices if device.context)
    if not state.has_nvidia or _hides_all(state):
        return ()
    driver, status = state.driver, state.cuda.status
    said = driver.smi.said
    if "version mismatch" in said or status == 803 or _halves_differ(state):
        return (versions_differ(state),)
    if (driver.on_bus or "couldn't communicate" in said) and not driver.module and not driver.is_wsl:
        return (no_module(state),)
    if status == 802:
        return (no_fabric(state),)
    if status == 804:
        return (no_forward_compatibility(state),)
    if driver.module and any(access != "yes" for access in driver.files.values()):
        return (device_files(state),)
    if status in (0, 100) or "No devices were found" in said:
        # An image for CUDA on a machine without a card has the library alone, which is no fault.
        has_card = state.driver.on_bus or state.driver.module or state.cards
        return (no_device(state, ERROR if has_card else WARNING),)
    if state.cuda.problem.startswith("libcuda"):
        return (no_library(state),)
    return (does_not_open(state),)


def versions_differ(state: State) -> Finding:
    module = state.driver.module or "not known here"
    library = state.cuda.library_version or state.driver.nvml_version or "not known here"
    where = f" ({state.cuda.library})" if state.cuda.library else ""
    fix = "restart the container: it holds the libraries of the driver before" if state.place.container else _RELOAD
    return Finding(
        "D01",
        ERROR,
        "driver",
        f"the kernel module (/proc/driver/nvidia/version) is {module}, the user library {library}{where}",
        "the two halves of a driver talk to their own version alone, so no program can use a GPU. Usually an "
        "upgrade has replaced the libraries under the loaded module",
        f"{fix}\n{_HOLD}",
    )


def no_module(state: State) -> Finding:
    cards = ", ".join(state.driver.on_bus) or "a card"
    if state.place.container:
        return Finding(
            "D02",
            WARNING,
            "driver",
            f"a GPU is on the bus ({cards}), and this {state.place.container} container was given none",
            "the machine's devices are seen, but no device file or driver library is inside",
            _RUN_WITH_GPUS,
        )
    other = "the module 'nouveau' holds the card" if state.driver.nouveau else "no kernel module 'nvidia' is loaded"
    return Finding(
        "D02",
        ERROR,
        "driver",
        f"a GPU is on the bus ({cards}), and {other}",
        "without the module no program can use the card. Usual causes: no driver is installed, it was not built "
        "for this kernel (dkms status), or Secure Boot refused it (dmesg | grep -i nvidia)",
        ("keep nouveau from loading (blacklist nouveau), then " if state.driver.nouveau else "")
        + "install the driver, or build it for the running kernel: dkms autoinstall; then modprobe nvidia",
    )


def device_files(state: State) -> Finding:
    files = state.driver.files
    denied = [path for path, access in files.items() if access == "denied"]
    missing = [path for path, access in files.items() if not access]
    parts = [
        f"{', '.join(paths)} {what}" for paths, what in ((missing, "missing"), (denied, "not accessible")) if paths
    ]
    if not parts:
        parts = ["device files that were accessible cannot be opened any more"]
    if state.place.container:
        fix = f"{_RUN_WITH_GPUS}\na container that loses them later met a reload of systemd: start it again"
    elif denied:
        fix = "let this user read and write them: the group that owns them (usermod -aG video USER), or mode 0666"
    else:
        fix = "make them: nvidia-modprobe -u -c=0, or start nvidia-persistenced"
    why = "CUDA reaches the module through these files; without /dev/nvidia-uvm cuInit fails with 999"
    return Finding("D03", ERROR, "device files", "; ".join(parts), why, fix)


def no_device(state: State, severity: str = ERROR) -> Finding:
    cards = f"{len(state.cards)} in nvidia-smi" if state.cards else "none in nvidia-smi either"
    return Finding(
        "D04",
        severity,
        "driver",
        f"CUDA finds no device (100, CUDA_ERROR_NO_DEVICE); {cards}",
        "no card answers the driver: there is none, it fell off the bus, is too new or too old for it, or is not in "
        "this container",
        f"dmesg | grep -i -E 'nvrm|xid' says why a card is gone\n{_RUN_WITH_GPUS}",
    )


def no_fabric(state: State) -> Finding:
    driver = state.driver
    wanted = f"version {state.driver_version}" if state.driver_version else "the driver's version"
    if not driver.fabric_manager:
        manager = "the fabric manager is absent"
    elif driver.module and driver.fabric_manager != driver.module:
        manager = f"the fabric manager is of another version, {driver.fabric_manager}, than the driver, {driver.module}"
    elif not driver.fabric_manager_runs:
        manager = f"the fabric manager {driver.fabric_manager} is stopped"
    else:
        manager = f"the fabric manager {driver.fabric_manager} runs, but has not finished or failed"
    switches = "NVSwitches are here" if driver.has_switches else "this is said on machines with NVSwitch"
    listed = f"; nvidia-smi still lists {len(state.cards)} GPUs" if state.cards else "; nvidia-smi still lists the GPUs"
    return Finding(
        "D05",
        ERROR,
        "driver",
        f"cuInit returns 802 (system not yet initialized): {switches}, and {manager}{listed}",
        "on such a machine no GPU can be used before the fabric manager has joined them",
        f"install nvidia-fabricmanager in {wanted}, exactly, on the host, then "
        "systemctl enable --now nvidia-fabricmanager; journalctl -u nvidia-fabricmanager says what failed",
    )


def no_forward_compatibility(state: State) -> Finding:
    names = ", ".join(dict.fromkeys(card.name for card in state.cards)) or "the GPU here"
    kind = ", a GeForce," if any(card.is_geforce for card in state.cards) else ""
    library = f"{state.cuda.library} is" if state.cuda.library else "a libcuda of a newer branch is"
    return Finding(
        "D06",
        ERROR,
        "driver",
        f"cuInit returns 804: {library} used with the driver {state.driver.module or 'of the host'}, and {names}{kind} "
        "is not eligible for forward compatibility",
        "the container was built for a newer driver branch than the host has, and brings a compatibility package "
        "(cuda-compat). That works on data-center GPUs, some RTX cards and Jetson alone, never on GeForce",
        f"update the host's driver{_to(state)}, or take an image for a CUDA that the driver knows, or keep the package "
        "out of the way: drop …/compat from LD_LIBRARY_PATH (rm /etc/ld.so.conf.d/*compat*; ldconfig)",
    )


def no_library(state: State) -> Finding:
    return Finding(
        "D08",
        ERROR,
        "driver",
        f"the driver's user library is not found: {state.cuda.problem}",
        f"the kernel module is {state.driver.module or 'not known here'}, and CUDA needs its other half, libcuda.so.1",
        _RUN_WITH_GPUS + " (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        if state.place.container
        else "install the driver's libraries in the same version (libnvidia-compute-…), then ldconfig",
    )


def does_not_open(state: State) -> Finding:
    status = state.cuda.status
    what = f"cuInit returns {status}{' (unknown error)' if status == 999 else ''}" if status else state.cuda.problem
    return Finding(
        "D07",
        ERROR,
        "driver",
        f"CUDA does not open: {what or 'the reason is not known'}",
        f"driver {state.driver_version or 'of unknown version'}: it fails itself, often after a suspend, an error of "
        "the card (Xid), or without the module nvidia_uvm",
        "modprobe nvidia_uvm; dmesg | grep -i -E 'nvrm|xid'; if that does not help, reboot",
    )


def _context(state: State, device: Device) -> Finding:
    number = state.cuda.devices.index(device)
    if device.context == 2:
        why, fix = "other programs have its memory", "nvidia-smi shows them; wait, or end them"
    elif device.context == 46:
        why = "another program has it for itself (compute mode Exclusive_Process), or it waits for a reset"
        fix = "nvidia-smi -q -d COMPUTE; nvidia-smi -c DEFAULT"
    else:
        why, fix = (
            "the driver counts the card and cannot use it",
            "dmesg | grep -i -E 'nvrm|xid'; nvidia-smi -r resets it",
        )
    found = f"{device.name}: a context does not open (status {device.context})"
    return Finding("D07", ERROR, f"CUDA device {number}", found, why, fix)


def _halves_differ(state: State) -> bool:
    """Both versions are known and not equal; a compatibility package's library is meant to be newer."""
    module, library = state.driver.module, state.cuda.library_version
    return bool(module and library and module != library) and "compat" not in state.cuda.library


def _hides_all(state: State) -> bool:
    """CUDA_VISIBLE_DEVICES leaves no device: then that is the cause (D12)."""
    return state.visible is not None and state.cuda.status in (0, 100) and not state.cuda.devices and bool(state.cards)


def _to(state: State) -> str:
    return f" (to {state.cuda.library_version} or newer)" if state.cuda.library_version else ""
