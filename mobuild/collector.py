"""Python's collector of cyclic garbage, in a process that lives for one command.

Modules, configs and plans stay to the end, and as it comes it looks through all of them again and again: a quarter of
a plan's time. Who calls mobuild from Python keeps the collector that they have.
"""

from __future__ import annotations

import gc

_THRESHOLDS = 100_000, 10, 10  # objects of a config are many and small: some 10 MB more between two looks

_is_relaxed = False


def relax() -> None:
    """Look for garbage less often, in this process."""
    global _is_relaxed
    _is_relaxed = True
    gc.set_threshold(*_THRESHOLDS)


def settle() -> None:
    """What is there now stays: do not look through it any more."""
    if _is_relaxed:
        gc.freeze()
