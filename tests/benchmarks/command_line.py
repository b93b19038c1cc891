"""CPU seconds of whole command lines beside two floors of the same run: `python -c pass`, and Hydra alone.

    python tests/benchmarks/command_line.py [ROUNDS]

Medians of interleaved runs. Works in a temporary project and cache.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from measures import Row, cpu_seconds, medians, show, surroundings

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
PASS, EMPTY, HYDRA_MAIN = "python -c pass", "an empty console script", "hydra.main over the same conf"
PLANNED, REPEATED = "nothing stale, planned", "nothing stale, answer repeated"


def main(rounds: int) -> None:
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as place:
        environment = surroundings(place)
        mobuild = str(Path(sys.executable).with_name("mobuild"))
        folder = Path(place, "project")
        folder.mkdir()
        commands = {
            PASS: [sys.executable, "-c", "pass"],
            EMPTY: [str(_empty(Path(mobuild), Path(place, "empty")))],
            HYDRA_MAIN: [sys.executable, "-c", HYDRA.format(root=str(root))],
            "mobuild --version": [mobuild, "--version"],
            "mobuild --help": [mobuild, "--help"],
            "mobuild plan": [mobuild, "plan", "target=engine"],
            PLANNED: ["sh", "-c", f"rm -rf build/.answers; exec {mobuild} target=engine"],
            REPEATED: [mobuild, "target=engine"],
        }
        # First in another cache, which leaves byte code of all that is imported.
        cpu_seconds([mobuild, "target=engine"], folder, {**environment, "MOBUILD_CACHE": f"{place}/other"})
        shutil.rmtree(folder / "build")
        cold = cpu_seconds([mobuild, "target=engine"], folder, environment)
        cpu_seconds([mobuild, "target=engine"], folder, environment)
        for command in commands.values():
            cpu_seconds(command, folder, environment)
        took = medians(commands, rounds, folder, environment)
    aims = {REPEATED: "2; 0.05 CPU s", "mobuild --help": "1.3", "mobuild plan": "1.3"}
    beside = dict.fromkeys(("mobuild --help", "mobuild plan", PLANNED), took[HYDRA_MAIN])
    rows = [Row(name, value, "CPU s", beside.get(name, took[PASS]), aims.get(name, "")) for name, value in took.items()]
    show([*rows, Row("cold chain to the engine, once", cold, "CPU s")])


def _empty(script: Path, place: Path) -> Path:
    """The installed script without what it runs: what the installer's own part costs."""
    text = re.sub(r"^from mobuild.*$", "main = int", script.read_text(), flags=re.MULTILINE)
    place.write_text(text)
    place.chmod(0o755)
    return place


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
