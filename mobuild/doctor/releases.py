"""Which driver a CUDA needs, and which cards PyTorch's wheels have machine code for.

Linux x86-64. Sources: CUDA Toolkit Release Notes, tables 2 and 3, and CUDA Compatibility, *Minor Version
Compatibility*; PyTorch's RELEASE.md (all vendor documentation).
"""

from __future__ import annotations

from mobuild.versions import version_key

# CUDA major → the oldest driver that runs any program of it, without what newer drivers brought.
FLOORS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}

# CUDA → the driver that came with it: all features, and its PTX. The first update of a release counts.
TOOLKIT_DRIVERS = {
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}

# CUDA of a PyTorch wheel → compute capabilities it holds machine code for, and the one of its PTX.
TORCH_KERNELS = {
    "12.6": (("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0"), ""),
    "13.0": (("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"), "12.0"),
    "13.2": (("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"), "12.0"),
}
TORCH_VERIFIED = ("2.12", "2.14")  # the lists above are those of these releases, first and last


def floor(cuda: str) -> str:
    """The oldest driver for the major version of `cuda`; empty when it is not known."""
    return FLOORS.get((version_key(cuda) or (0,))[0], "")


def is_older(driver: str, needed: str) -> bool:
    """Whether `driver` is known and older than `needed`."""
    return bool(driver and needed) and version_key(driver) < version_key(needed)


def has_kernels(cuda: str, capability: str) -> bool:
    """Whether a PyTorch wheel for `cuda` runs on a card: same major and no newer minor, or its PTX is older."""
    kernels, ptx = TORCH_KERNELS[cuda]
    card = version_key(capability)
    native = any(version_key(one)[0] == card[0] and version_key(one) <= card for one in kernels)
    return native or bool(ptx and version_key(ptx) <= card)
