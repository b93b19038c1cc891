"""What a survey found, as plain values. Empty text and None mean: not known, or not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mobuild.doctor.machine import Package, Ran


def bus(address: str) -> str:
    """A PCI address for comparison: its domain has four digits in CUDA, eight in nvidia-smi."""
    return address.lower()[-12:]


@dataclass(frozen=True)
class Link:
    """A PCI Express link: generation and lanes."""

    generation: int
    lanes: int


@dataclass(frozen=True)
class Card:
    """One GPU as `nvidia-smi -q -x` describes it."""

    index: int
    name: str
    uuid: str
    bus: str  # 00000000:01:00.0
    brand: str = ""  # GeForce, NVIDIA RTX, Tesla, …
    minor: str = ""  # of /dev/nvidia<minor>
    capability: str = ""
    memory_mib: int = 0
    link: Link | None = None  # as it is now
    best_link: Link | None = None  # what the card could do
    slot_generation: int = 0  # what card and slot can do together
    is_idle: bool = False  # an idle card lowers its link and its clocks
    throttled: tuple[str, ...] = ()  # nvidia-smi's names of the active reasons
    power_limit_w: float = 0.0
    usual_power_limit_w: float = 0.0
    ecc: str = ""  # Enabled, Disabled
    uncorrected_errors: int = 0
    remapping: str = ""  # pending, failed
    mig: str = ""  # Enabled, Disabled
    slices: int = 0  # MIG devices
    fabric: str = ""  # state of the NVLink fabric: Completed, In Progress, …

    @property
    def is_geforce(self) -> bool:
        return "geforce" in f"{self.brand} {self.name}".lower()


@dataclass(frozen=True)
class Device:
    """One device as CUDA numbers it, after CUDA_VISIBLE_DEVICES. `context` is the status of opening it."""

    name: str
    uuid: str  # 32 hexadecimal digits
    bus: str
    capability: str
    memory_mib: int
    context: int


@dataclass(frozen=True)
class Runtime:
    """A CUDA runtime library and what it says."""

    path: str
    version: str
    status: int


@dataclass(frozen=True)
class Cuda:
    """What opening CUDA gave. `status` is cuInit's; None when there is no driver library, or it crashed."""

    status: int | None = None
    problem: str = ""
    library: str = ""  # the file of libcuda
    library_version: str = ""  # 570.124.06
    newest: str = ""  # the newest CUDA that the driver knows: 12.8
    devices: tuple[Device, ...] = ()
    runtimes: tuple[Runtime, ...] = ()

    @property
    def works(self) -> bool:
        return self.status == 0 and bool(self.devices)


@dataclass(frozen=True)
class Driver:
    """The kernel's half of the driver, and what its tools say."""

    module: str = ""  # version of the loaded kernel module
    module_is_open: bool = False
    nouveau: bool = False
    on_bus: tuple[str, ...] = ()  # PCI addresses of NVIDIA's display devices
    has_switches: bool = False  # NVSwitch
    fabric_manager: str = ""  # its version; empty when it is not installed
    fabric_manager_runs: bool = False
    smi: Ran = field(default_factory=Ran)
    nvml_version: str = ""  # of the library that could not talk to the module
    files: Mapping[str, str] = field(default_factory=dict)  # device file → yes, denied or empty
    is_wsl: bool = False


@dataclass(frozen=True)
class Library:
    """A file that needs other libraries, and which of them the loader does not find."""

    path: str
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Software:
    """What is installed beside mobuild, for CUDA."""

    packages: Mapping[str, Package] = field(default_factory=dict)
    libraries: tuple[Library, ...] = ()
    tensorrt: Mapping[str, str] = field(default_factory=dict)  # path of libnvinfer → version
    bundled: frozenset[str] = frozenset()  # library files inside of packages


@dataclass(frozen=True)
class Place:
    """Memory, processors and folders: what a container may have less of than its machine."""

    container: str = ""  # docker, podman, kubernetes, …
    memory_limit: int | None = None
    memory_used: int = 0
    memory_total: int = 0
    oom_kills: int = 0
    shared: tuple[int, int] | None = None  # /dev/shm: bytes, bytes free
    processors: int = 1
    allowed: int = 1
    quota: float | None = None  # processors' worth of time
    jit_cache: str = ""
    jit_cache_size: int = 0
    jit_cache_limit: int = 0
    jit_cache_off: bool = False
    jit_cache_access: str = ""
    docker: str = ""  # path of the program
    toolkit: str = ""  # path of a program of the container toolkit


@dataclass(frozen=True)
class State:
    """Everything that the checks look at."""

    driver: Driver = field(default_factory=Driver)
    cuda: Cuda = field(default_factory=Cuda)
    cards: tuple[Card, ...] = ()
    software: Software = field(default_factory=Software)
    place: Place = field(default_factory=Place)
    visible: str | None = None  # CUDA_VISIBLE_DEVICES
    order: str | None = None  # CUDA_DEVICE_ORDER

    @property
    def driver_version(self) -> str:
        """The kernel module's, else what the libraries say."""
        return self.driver.module or self.cuda.library_version or self.driver.nvml_version

    @property
    def numbers(self) -> Mapping[int, int]:
        """nvidia-smi's index → CUDA's number, of the cards that are visible."""
        found = {bus(device.bus): number for number, device in enumerate(self.cuda.devices)}
        return {card.index: found[bus(card.bus)] for card in self.cards if bus(card.bus) in found}

    @property
    def has_nvidia(self) -> bool:
        """Whether anything here hints at a card of NVIDIA's, or at its driver."""
        return bool(
            self.driver.on_bus or self.driver.module or self.cards or self.cuda.devices or self.cuda.status is not None
        )
