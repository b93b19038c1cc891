"""Locks between the accounts that share a cache; what holds between processes is seen in the faults' tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mobuild.errors import StoreError
from mobuild.store import locks

OTHER = """
import os, sys
from pathlib import Path
from mobuild.store import locks
os.setgid(65533); os.setuid(65533)
path = Path(sys.argv[1])
print(locks.is_held(path))
with locks.held(path):
    print("held")
"""


def reachable(folder: Path) -> None:
    for path in (folder, *(parent for parent in folder.parents if parent.name.startswith(("pytest-", "popen-")))):
        path.chmod(0o755)


def test_another_account_takes_a_lock_whose_file_it_may_only_read(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    reachable(tmp_path)
    with locks.held(tmp_path / "lock"):
        (tmp_path / "lock").chmod(0o644)

    done = subprocess.run([sys.executable, "-c", OTHER, tmp_path / "lock"], capture_output=True, text=True)

    assert (done.stdout.split(), done.stderr) == (["False", "held"], "")


def test_a_lock_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match=r"the lock '.*file/lock' cannot be made"), locks.held(tmp_path / "file/lock"):
        pass
