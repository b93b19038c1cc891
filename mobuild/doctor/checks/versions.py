"""D10–D13: the driver against every CUDA in use; which devices are visible."""

from __future__ import annotations

from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.state import State
from mobuild.facts.cuda import driver_floor, driver_floors, toolkit_driver
from mobuild.versions import version_key

_INSUFFICIENT = 35  # cudaErrorInsufficientDriver
_COMPILERS = ("triton", "torch", "tensorrt-rtx", "cupy", "numba-cuda", "jax", "vllm")  # compile on the machine


def versions(state: State) -> tuple[Finding, ...]:
    if not state.has_nvidia:
        return ()
    return (*_floors(state), *_toolkits(state), *_visibility(state), *_silent_smi(state))


def below_floor(state: State, cuda: str, users: str = "") -> Finding:
    """The driver is too old for a CUDA, as numbers; of an empty `cuda`, for the one that was used."""
    driver, needed = state.driver_version or "not known here", driver_floor(cuda)
    floors = ", ".join(f"{oldest} for CUDA {major}" for major, oldest in driver_floors().items())
    floors = f"the floor of CUDA {version_key(cuda)[0]}{users} is {needed}" if needed else f"the floors are {floors}"
    newest = f", which knows CUDA up to {state.cuda.newest}" if state.cuda.newest else ""
    number = len(state.cuda.devices)
    visible = f"here CUDA sees {number} GPU{'s' * (number > 1)}" if number else "here no GPU is visible"
    return Finding(
        "D10",
        ERROR,
        "driver",
        f"the driver's version is {driver}{newest}; {floors}",
        "a driver runs every older CUDA, and newer ones of the same major version from the floor on; below it programs "
        f"fail with 35. So they do, too, where no GPU is visible at all (a container without --gpus): {visible}",
        f"install a driver from {needed or 'the floor'} on, or packages for an older CUDA",
    )


def _floors(state: State) -> tuple[Finding, ...]:
    """One finding for each CUDA major that the driver is too old for."""
    users = _users(state)
    majors = {version_key(cuda)[0]: cuda for cuda in users if _is_older(state.driver_version, driver_floor(cuda))}
    found = []
    for major, cuda in sorted(majors.items()):
        names = sorted(name for other, names in users.items() if version_key(other)[0] == major for name in names)
        found.append(below_floor(state, cuda, f" ({', '.join(names)})"))
    return tuple(found)


def _toolkits(state: State) -> tuple[Finding, ...]:
    """CUDA runs by minor-version compatibility: all but PTX that is newer than the driver."""
    found = []
    for cuda, names in _users(state).items():
        needed = toolkit_driver(cuda)
        if _is_older(state.driver_version, driver_floor(cuda)) or not _is_older(state.driver_version, needed):
            continue
        compilers = [name for name in state.software.packages if name.startswith(_COMPILERS)]
        here = f"; here {', '.join(sorted(compilers))} may need that" if compilers else ""
        found.append(
            Finding(
                "D11",
                WARNING,
                "driver",
                f"the driver is {state.driver_version}; CUDA {cuda} ({', '.join(sorted(names))}) came with {needed}",
                f"from {driver_floor(cuda)} on its programs run, but not what is compiled on the machine from PTX "
                f"newer than the driver (cudaErrorUnsupportedPtxVersion){here}",
                f"a driver from {needed} on has no such limit",
            )
        )
    return tuple(found)


def _users(state: State) -> dict[str, list[str]]:
    """CUDA → what uses it: packages, and runtimes that refuse this driver."""
    found: dict[str, list[str]] = {}
    for name, package in state.software.packages.items():
        if package.cuda and not name.startswith("nvidia-"):
            found.setdefault(package.cuda, []).append(f"{name} {package.version}")
    for runtime in state.cuda.runtimes:
        if runtime.status == _INSUFFICIENT:
            found.setdefault(runtime.version, []).append(runtime.path)
    return found


def _is_older(driver: str, needed: str) -> bool:
    """Whether both are known and `driver` is the older one."""
    return bool(driver and needed) and version_key(driver) < version_key(needed)


def _visibility(state: State) -> tuple[Finding, ...]:
    if state.visible is None or not state.cards:
        return ()
    asked = [word.strip() for word in state.visible.split(",") if word.strip()]
    unknown = [word for word in asked if not _is_here(state, word)]
    shown = f"CUDA_VISIBLE_DEVICES={state.visible!r}"
    here = ", ".join(f"{card.index} = {card.uuid}" for card in state.cards)
    if unknown or not asked:
        hidden = f"names {', '.join(unknown)}, which is not here" if unknown else "hides every GPU"
        why = "CUDA leaves out the first name that it does not know and all after it"
        severity = WARNING if state.cuda.devices else ERROR
        return (Finding("D12", severity, "environment", f"{shown} {hidden}", why, f"unset it, or choose from {here}"),)
    by_number = all(word.isdigit() for word in asked)
    if by_number and state.order != "PCI_BUS_ID" and len({card.name for card in state.cards}) > 1:
        why = "CUDA numbers cards by speed, nvidia-smi by PCI address, so a number may mean another card"
        fix = f"CUDA_DEVICE_ORDER=PCI_BUS_ID, or choose by UUID: {here}"
        return (Finding("D12", WARNING, "environment", f"{shown} chooses among different cards by number", why, fix),)
    return ()


def _is_here(state: State, word: str) -> bool:
    if word.startswith("MIG"):
        return any(card.mig == "Enabled" for card in state.cards)
    if word.isdigit():
        return int(word) < max(len(state.cards), sum(card.slices for card in state.cards))
    return any(card.uuid.startswith(word) for card in state.cards)


def _silent_smi(state: State) -> tuple[Finding, ...]:
    """CUDA works and nvidia-smi does not: builds run, but nobody sees the cards' state."""
    smi = state.driver.smi
    if not state.cuda.works or smi.status == 0:
        return ()
    said = smi.said.partition("\n")[0] or "it is not installed"
    why = "CUDA works; links, clocks, power and ECC are not checked without nvidia-smi"
    return (Finding("D13", WARNING, "nvidia-smi", said, why, "install nvidia-utils of the driver's version"),)
