"""Two engines timed in turns: A B A B …, so that what slows the machine down meanwhile slows both.

Each block gives the median of its runs; neighbouring blocks make a pair, and the ratio of each pair is free of what
drifts. The interval is a bootstrap over the pairs. Standard library alone.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import Any, Callable, Sequence

_RESAMPLES = 2000
_MOST_RUNS = 1000  # of one block

Run = Callable[[], Any]


def in_turns(
    a: Run, b: Run, blocks: int = 20, block_seconds: float = 0.05, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
    """Milliseconds of a run of each (medians), their ratio b/a with a 95 % interval, and a verdict in words.

    Which goes first changes from pair to pair, so that neither always follows the other.
    """
    counts = [_warm_up(run, block_seconds, clock) for run in (a, b)]
    medians: list[list[float]] = [[], []]
    for number in range(blocks):
        for i in (0, 1) if number % 2 == 0 else (1, 0):
            medians[i].append(_block((a, b)[i], counts[i], clock))
    ratios = [after / before for before, after in zip(*medians)]
    low, high = interval(ratios)
    return {
        "a_ms": statistics.median(medians[0]) * 1e3,
        "b_ms": statistics.median(medians[1]) * 1e3,
        "ratio": statistics.median(ratios),
        "interval": [low, high],
        "blocks": blocks,
        "verdict": verdict(low, high),
    }


def interval(ratios: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median of `ratios` (percentiles, Efron 1979)."""
    draw = random.Random(seed)
    count = len(ratios)
    found = sorted(statistics.median(draw.choices(ratios, k=count)) for _ in range(_RESAMPLES))
    return found[int(0.025 * _RESAMPLES)], found[int(0.975 * _RESAMPLES) - 1]


def verdict(low: float, high: float) -> str:
    """What the interval of a ratio b/a allows to say."""
    if high < 1:
        return "faster"
    return "slower" if low > 1 else "no difference shown"


def _warm_up(run: Run, seconds: float, clock: Callable[[], float]) -> int:
    """Run a while untimed; how many runs fill a block."""
    run()
    begun, count = clock(), 0
    while count < 3 or (clock() - begun < seconds and count < _MOST_RUNS):
        run()
        count += 1
    each = (clock() - begun) / count
    return max(1, min(_MOST_RUNS, round(seconds / each))) if each > 0 else _MOST_RUNS


def _block(run: Run, count: int, clock: Callable[[], float]) -> float:
    times = []
    for _ in range(count):
        begun = clock()
        run()
        times.append(clock() - begun)
    return max(statistics.median(times), 1e-9)
