"""The card that an engine of TensorRT is for, and whether the one that is here will do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mobuild.runtime.cuda import Card

_AMPERE = 8.0  # where ampere_plus begins
_MEMORY_SHARE = 0.15  # a data sheet's gigabytes and the driver's differ by less
_MAKERS_WORDS = r"nvidia|tesla|geforce|gpu|[^a-z0-9.]"


@dataclass(frozen=True)
class TargetCard:
    """Facts of the hardware file: an unknown quantity is 0. `family` is a hardware compatibility level."""

    compute_capability: str
    product: str
    sms: int
    memory_gib: float
    family: str

    def other(self, card: Card) -> str:
        """Why `card` is not what the engine is for, both named; empty when it is."""
        memory_gib = card.memory_bytes / 2**30
        here = f"the GPU here is {card.name!r} ({card.compute_capability}, {card.sms} SMs, {memory_gib:.0f} GiB)"
        if self.family == "ampere_plus":
            is_old = float(card.compute_capability) < _AMPERE
            return f"{here}, ampere_plus is built on one of 8.0 or newer" if is_old else ""
        if card.compute_capability != self.compute_capability:
            return f"{here}, the engine is for {self._text()}"
        if self.family == "none" and not self._has_quantities(card.sms, memory_gib):
            return f"{here}, the engine is for {self._text()}"
        return ""

    def _has_quantities(self, sms: int, memory_gib: float) -> bool:
        """What tells products of one compute capability apart, and slices of a card from the whole."""
        has_memory = not self.memory_gib or abs(memory_gib / self.memory_gib - 1) <= _MEMORY_SHARE
        return self.sms in (0, sms) and has_memory

    def _text(self) -> str:
        if self.family != "none":
            return f"any card of compute capability {self.compute_capability}"
        sms = f", {self.sms} SMs" if self.sms else ""
        memory = f", {self.memory_gib:g} GiB" if self.memory_gib else ""
        return f"{self.product!r} ({self.compute_capability}{sms}{memory})"


def product_name(name: str) -> str:
    """The name of a card without its maker's words, as the driver and our files both have it: `NVIDIA L4` is `l4`."""
    return re.sub(_MAKERS_WORDS, "", name.lower())
