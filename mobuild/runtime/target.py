"""The card that an engine is for, against the one that is here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import cuda
from .errors import EngineError, RuntimeMissing


@dataclass(frozen=True)
class Target:
    """`8.9` is that compute capability, `8.0+` it and newer ones; none is any machine, with a GPU or without.

    `product` is the card's name as its driver tells it, for engines that run on no other; empty is any.
    """

    compute_capabilities: tuple[str, ...] = ()
    product: str = ""

    def refuse_unreadable(self, place: str) -> None:
        for each in self.compute_capabilities:
            if not re.match(r"\d+\.\d+\+?$", each):
                raise EngineError(f"{place}: compute_capabilities: expected 8.9 or 8.0+, found {each!r}")

    def refuse_other_card(self) -> None:
        """Raise RuntimeMissing unless the GPU here is one that the engine is for; names both."""
        if not self.compute_capabilities and not self.product:
            return
        card, missing = cuda.card()
        if card is None:
            raise RuntimeMissing(f"the engine is for {self}, and there is {missing}", "give the container a GPU")
        takes = not self.compute_capabilities or any(
            _takes(each, card.compute_capability) for each in self.compute_capabilities
        )
        if not takes or self.product not in ("", card.name):
            raise RuntimeMissing(
                f"the engine is for {self}, the GPU here is {card.name} (compute capability {card.compute_capability})",
                "run it on such a card, or build an engine for this one",
            )

    def __str__(self) -> str:
        capabilities = " or ".join(self.compute_capabilities)
        words = f"compute capability {capabilities}" if capabilities else ""
        return f"{self.product} ({words})" if self.product and words else self.product or words


def _takes(wanted: str, here: str) -> bool:
    if not wanted.endswith("+"):
        return wanted == here
    return _number(wanted[:-1]) <= _number(here)


def _number(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
