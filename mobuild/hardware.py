"""The machine that an engine is for, as facts from `conf/hardware/*.yaml`.

No node holds a `Hardware`: nodes are composed from the few facts that they use, so two cards that agree
on those share an artifact. The whole row serves the contracts and the choice of a backend.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from mobuild.errors import ConfigError

_CAPABILITY = re.compile(r"([1-9][0-9]*\.[0-9])?")


@dataclass(frozen=True)
class Hardware:
    """One device to run on. `compute_capability` is a string (`"8.9"`), empty when it has none (CPU).

    A quantity of 0 is unknown. `confidence` says how sure the quantities are (`mobuild.facts`), those in
    `uncertain` aside. `family` is `geforce` for consumer cards, which CUDA's forward compatibility leaves out. `host`
    is what it sits in where that is no x86-64: `sbsa`, an ARM server, or `jetpack`, a Jetson.
    """

    name: str
    vendor: str
    family: str = ""
    chip: str = ""
    compute_capability: str = ""
    memory_gib: float = 0.0
    memory_type: str = ""
    bandwidth_gb_s: float = 0.0
    l2_mib: float = 0.0
    sms: int = 0
    tdp_w: float = 0.0
    nvlink_gb_s: float = 0.0
    unified: bool = False
    host: str = ""
    backends: tuple[str, ...] = ()
    source: str = ""
    confidence: str = "?"
    uncertain: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse facts that are none, whoever wrote them down.

        Raises:
            ConfigError: names the field.
        """
        if not _CAPABILITY.fullmatch(self.compute_capability):
            raise ConfigError(
                f"compute_capability: expected the form '8.9', found {self.compute_capability!r}",
                'compute_capability: "8.9"; nvidia-smi --query-gpu=compute_cap --format=csv tells it',
            )
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, (int, float)) and value < 0:
                raise ConfigError(
                    f"{each.name}: expected a number from 0 on, found {value}", "leave it out where it is not known"
                )
