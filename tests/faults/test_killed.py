"""SIGKILL at random points: the next run resumes, nothing half or wrong is left, nobody lives on."""

from __future__ import annotations

import random
from pathlib import Path

from tests.faults.soak import Soak

_KILLS = 15


def test_killed_builds_come_through_with_the_bytes_of_an_undisturbed_one(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=random.SystemRandom().randrange(10**6), log=print)
    print(f"seed {soak.seed}")  # shown when it fails

    soak.run(_KILLS)

    assert soak.kills == _KILLS
