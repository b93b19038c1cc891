"""Values are frozen to the type checker, and equal by their fields."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mobuild.values import value


@value
class Pair:
    one: int
    other: int = 0


def test_equal_fields_are_equal_values() -> None:
    assert Pair(1) == Pair(1, 0) != Pair(2)
    assert len({Pair(1), Pair(1), Pair(2)}) == 2


def test_the_type_checker_refuses_a_change(tmp_path: Path) -> None:
    code = tmp_path / "changed.py"
    code.write_text("from mobuild.store import Condition\n\nCondition('file', 'a', 'b').value = 'c'\n")

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), str(code)], capture_output=True, text=True
    )

    assert "read-only" in done.stdout, done.stdout + done.stderr
