"""What running builds claim: in a plan all at its end, which gc waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobuild.store.claims import Claims, running


def test_the_claims_of_a_plan_are_written_at_its_end(tmp_path: Path) -> None:
    claims = Claims(tmp_path)

    with claims.run():
        with claims.throughout():
            claims.add("a/plain.json")
            claims.add("b/plain.json")
            assert not running(tmp_path).claimed
        assert running(tmp_path).claimed == {"a/plain.json", "b/plain.json"}

        claims.add("c/plain.json")
        assert running(tmp_path).claimed == {"a/plain.json", "b/plain.json", "c/plain.json"}

    assert running(tmp_path).since_ns is None


def test_a_plan_that_fails_keeps_what_it_took(tmp_path: Path) -> None:
    claims = Claims(tmp_path)

    with claims.run():
        with pytest.raises(ValueError, match="no plan"), claims.throughout():
            claims.add("a/plain.json")
            raise ValueError("no plan")

        assert running(tmp_path).claimed == {"a/plain.json"}


def test_a_plan_outside_of_a_build_claims_nothing(tmp_path: Path) -> None:
    claims = Claims(tmp_path)

    with claims.throughout():
        claims.add("a/plain.json")

    with claims.run():
        assert not running(tmp_path).claimed
