"""TensorRT's timing cache: how long each kernel took on this card, so that the next build need not measure again.

By default it lies in a scratch slot of the machine: copied in, merged back, never keyed, its digest recorded. A file
that the recipe names (`timing_cache: path`) is pinned: read only, keyed by its content, refused when it does not
fit. The cache holds a header with the version and the card, which TensorRT checks.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from mobuild import scratch
from mobuild.backends.network_builder import Builder

SHARED, NONE = "shared", "none"


def slot(trt: Any, card: Any) -> str:
    """One slot for each TensorRT and each kind of card with its CUDA."""
    memory_mib = card.memory_bytes >> 20
    return f"timing {trt.__version__} {card.cuda} {card.compute_capability} {card.name} {card.sms} {memory_mib}"


def attach(builder: Builder, place: str, shared: str) -> str:
    """Give the builder its cache: the pinned file `place`, or what the slot `shared` holds; the digest of it.

    A slot that the builder does not take is begun anew, with a warning.

    Raises:
        NodeFailed: the pinned file is of another version or card.
    """
    if place == NONE:
        return NONE
    is_pinned = place != SHARED
    content = Path(place).read_bytes() if is_pinned else scratch.read(shared)
    warned = len(builder.said.warnings)
    if not _takes(builder, content):
        words = builder.said.errors + builder.said.warnings[warned:]
        if is_pinned:
            raise builder.failure(f"refuses the timing cache '{place}'", words)
        reason = "; ".join(dict.fromkeys(words)) or "the builder does not take it"
        builder.said.warnings[warned:] = [f"the timing cache will not be used: '{scratch.place(shared)}': {reason}"]
        del builder.said.errors[:]
        content = b""
        _takes(builder, content)
    return digest(content) if content else "new"


def merge_back(builder: Builder, place: str, shared: str) -> str:
    """Add what the build learned to the slot; the digest of the cache after the build, empty when there is none."""
    if place != SHARED:
        return ""
    own = builder.config.get_timing_cache()
    learned = bytes(own.serialize())
    scratch.update(shared, lambda current: _merged(builder, current, own, learned))
    return digest(learned)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _takes(builder: Builder, content: bytes) -> bool:
    cache = builder.config.create_timing_cache(content)
    return cache is not None and bool(builder.config.set_timing_cache(cache, False)) and not builder.said.errors


def _merged(builder: Builder, current: bytes, own: Any, learned: bytes) -> bytes:
    """`current`, which another build may have written meanwhile, with what `own` has beyond it."""
    whole = builder.config.create_timing_cache(current) if current else None
    if whole is None or not whole.combine(own, False):
        return learned  # of another version, or damaged
    return bytes(whole.serialize())
