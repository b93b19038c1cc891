"""Traits: of what a plan looks at, nothing is read twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobuild.graph import NodeSpec
from mobuild.keys import Keys
from mobuild.nodes.command import Command
from mobuild.store import StatCache, stat_cache

LATER = 1 << 62  # all was written long before


def test_a_file_that_a_command_names_is_read_once_while_it_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, read = tmp_path / "weights.bin", list[Path]()
    data.write_bytes(b"one")
    real = stat_cache.digest_file
    monkeypatch.setattr(stat_cache, "digest_file", lambda path: (read.append(path), real(path))[1])
    spec = NodeSpec("n", Command("convert weights.bin {out}"), folder=tmp_path, root=tmp_path)

    def code() -> dict[str, str]:
        """What a command of its own sees."""
        return dict(Keys(tmp_path, StatCache(tmp_path / "files.sqlite", lambda: LATER)).traits(spec).code)

    before = code()
    assert (code(), read) == (before, [data])

    data.write_bytes(b"two")
    assert code() != before
    assert read == [data, data]
