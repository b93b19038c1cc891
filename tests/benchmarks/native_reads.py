"""CPU seconds of `import torch` with the library that notes native reads, beside the same without it.

    python tests/benchmarks/native_reads.py [ROUNDS]

Runs interleave, since machines are shared; prints medians, minima, and the ratio of both.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mobuild.executors.preload import Preload


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        preloaded = Preload(Path(folder)).variables(Path(folder))
        if not preloaded:
            sys.exit("no library can be compiled or preloaded here")
        times: dict[str, list[float]] = {"plain": [], "preloaded": []}
        for _ in range(rounds):
            times["plain"].append(_cpu_seconds({}))
            times["preloaded"].append(_cpu_seconds(dict(preloaded)))
        records = Path(folder, "reads").read_bytes().count(b"\0") // rounds
    for name, values in times.items():
        print(f"{name:10} median {statistics.median(values):.3f}  min {min(values):.3f}")
    median, least = (of(times["preloaded"]) / of(times["plain"]) for of in (statistics.median, min))
    print(f"ratio      median {median:.3f}  min {least:.3f}  ({records} records)")


def _cpu_seconds(variables: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import torch"], env={**os.environ, **variables}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
