"""CPU seconds of whole command lines beside two floors of the same run: `python -c pass`, and Hydra alone.

    python tests/benchmarks/command_line.py [ROUNDS]

Runs interleave, since machines are shared; medians and minima are printed, with the ratio of the medians to
the bare interpreter. Works in a temporary project and cache.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HYDRA = """
import hydra, sys
sys.argv = ["app", "recipe=crepe_tiny"]
sys.path.insert(0, {root!r})
from pathlib import Path
from mobuild.config.compose import prepare
from mobuild.config.project import find_project
folder = prepare(find_project(Path.cwd()))
hydra.main(config_path=folder, config_name="mobuild", version_base="1.3")(lambda config: None)()
"""


def main(rounds: int) -> None:
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MOBUILD_CACHE": f"{folder}/cache"}
        mobuild = [sys.executable, "-m", "mobuild"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "hydra.main over the same conf": [sys.executable, "-c", HYDRA.format(root=str(root))],
            "mobuild --version": [*mobuild, "--version"],
            "mobuild plan": [*mobuild, "plan", "target=engine"],
            "nothing stale, planned": [
                "sh",
                "-c",
                f"rm -rf build/.answers; exec {sys.executable} -m mobuild target=engine",
            ],
            "nothing stale, answer repeated": [*mobuild, "target=engine"],
        }
        cold = _cpu_seconds([*mobuild, "target=engine"], folder, environment)
        _cpu_seconds([*mobuild, "target=engine"], folder, environment)
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(_cpu_seconds(command, folder, environment))
    print(f"{'':32} {'median':>8} {'min':>8}  × python")
    floor = statistics.median(times["python -c pass"])
    for name, values in times.items():
        print(
            f"{name:32} {statistics.median(values):8.3f} {min(values):8.3f}  {statistics.median(values) / floor:7.1f}"
        )
    print(f"{'cold chain to the engine, once':32} {cold:8.3f}")


def _cpu_seconds(command: list[str], folder: str, environment: dict[str, str]) -> float:
    """User and system seconds of a command and all its children; it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
