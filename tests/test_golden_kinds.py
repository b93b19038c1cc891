"""A kind whose fields or code change must get a new revision, or the change must be said to be harmless."""

from __future__ import annotations

import json

import pytest

from tests.golden_kinds import GOLDEN, described

HOW = (
    "its {what} changed and its revision did not: raise `revision` if the same inputs may now give other bytes, "
    "then run `python -m tests.golden_kinds`"
)


@pytest.mark.parametrize("name", sorted(described()))
def test_a_changed_kind_has_a_new_revision(name: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    now = described()[name]

    assert name in golden, "a new kind: run `python -m tests.golden_kinds`"
    before = golden[name]
    changed = [what for what in ("fields", "code") if before[what] != now[what]]
    assert not changed, f"{name}: {HOW.format(what=' and '.join(changed))}"
    assert before["revision"] == now["revision"], "run `python -m tests.golden_kinds`"


def test_no_kind_was_lost() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(described())
