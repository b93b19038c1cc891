"""Kills builds at random points, and holds what is left against an undisturbed build.

`python -m tests.faults.soak 200 [seed]` kills 200 times; the tests do a few. One round starts cold and runs the
same command line until it comes through; each run but the last is killed with SIGKILL: mobuild alone, or all of
its process group, after a random time, or in the moment in which it publishes. After each kill every object must
have the content of its name, every record its object, build/ no wrong file, and no process of the build may live on.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.steps import NODES, Steps, assert_right, assert_whole, environment, record_files, steps_project

_BYTES = 8_000_000  # of each artifact: hashing and writing take long enough to be hit
_COMMAND = [sys.executable, "-m", "mobuild", "target=[last,pair]"]
_LONGEST_SECONDS = 120


@dataclass
class Soak:
    """A project that is built and killed again and again; `log` hears of every kill."""

    root: Path
    seed: int
    log: Callable[[str], object]
    kills: int = 0
    rounds: int = 0
    moments: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        undisturbed = steps_project(self.root / "undisturbed")
        begun = time.monotonic()
        assert self._run(undisturbed).wait() == 0
        self.seconds = time.monotonic() - begun
        self.wanted = undisturbed.artifacts()
        assert len(self.wanted) == 3
        self.steps = steps_project(self.root / "killed")

    def run(self, kills: int) -> None:
        """Kill that many times, and let the last round come through."""
        while self.kills < kills:
            self._one_round(kills)

    def _one_round(self, kills: int) -> None:
        done: set[str] = set()  # keys with a record: their nodes must not run again
        for folder in (self.steps.project.cache, self.steps.project.root / "build"):
            shutil.rmtree(folder, ignore_errors=True)
        was_killed = True
        while was_killed and self.kills < kills:
            was_killed = self._killed_run()
            self._check(done)
        self.steps.runs.unlink(missing_ok=True)
        assert self._run(self.steps).wait() == 0, "the run after a kill fails"
        assert sum(self.steps.ran().values()) == len(NODES) - len(done), "finished work ran again"
        self._check(done)
        assert_right(self.steps.artifacts(), self.wanted, list(self.wanted))
        self.rounds += 1

    def _check(self, done: set[str]) -> None:
        assert_whole(self.steps.project.cache)
        assert_right(self.steps.artifacts(), self.wanted)
        now = {path.parent.name for path in record_files(self.steps.project.cache)}
        assert done <= now, "a record is gone"
        done |= now

    def _killed_run(self) -> bool:
        """Start the command line and kill it at a random moment; False when it was done before."""
        process = self._run(self.steps)
        moment = self.random.choice(("time", "time", *_MOMENTS))
        wait_seconds = self.random.uniform(0, self.seconds) if moment == "time" else _LONGEST_SECONDS
        has_come = _MOMENTS.get(moment, lambda steps: False)
        alone = self.random.random() < 0.5
        _until(lambda: process.poll() is not None or has_come(self.steps), wait_seconds)
        if process.poll() is not None:
            return False
        os.kill(process.pid, signal.SIGKILL) if alone else os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.kills += 1
        self.moments[moment] += 1
        when = f"after {wait_seconds:.3f} s" if moment == "time" else f"while {moment}"
        self.log(f"kill {self.kills}: {'mobuild alone' if alone else 'its group'} {when}")
        gone = _until(lambda: not living(self.steps), _LONGEST_SECONDS)
        assert gone, f"processes live on: {living(self.steps)}"
        return True

    def _run(self, steps: Steps) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            _COMMAND,
            cwd=steps.project.root,
            env=environment(steps, BYTES=str(_BYTES)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def living(steps: Steps) -> list[str]:
    """The command lines of processes of a build, told by its variable."""
    mark = f"RUNS={steps.runs}".encode()
    return [line for place in Path("/proc").glob("[0-9]*") if (line := _marked(place, mark))]


def _marked(place: Path, mark: bytes) -> str:
    try:
        if mark not in (place / "environ").read_bytes().split(b"\0"):
            return ""
        return (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it has just ended
        return ""


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


_MOMENTS: dict[str, Callable[[Steps], bool]] = {
    "hashing": lambda steps: any(steps.project.cache.glob("local/*/staging/publish-*/object")),
    "recording": lambda steps: any(steps.project.cache.glob("local/*/staging/record-*")),
    "placing": lambda steps: any(steps.build_folder.glob(".last-*/new")) or any(steps.build_folder.glob(".pair-*/new")),
}


def main(arguments: list[str]) -> None:
    kills = int(arguments[0]) if arguments else 200
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(10**6)
    print(f"{kills} kills, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mobuild-soak-") as folder:
        soak = Soak(Path(folder), seed, lambda text: print(text, flush=True))
        soak.run(kills)
    print(f"{soak.kills} kills {dict(soak.moments)} in {soak.rounds} rounds: all came through with the right bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
