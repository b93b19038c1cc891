from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobuild.errors import ConfigError
from mobuild.units import parse_size, size_text
from mobuild.versions import version_key


@pytest.mark.parametrize(("text", "size"), [("4GiB", 4 << 30), ("512MiB", 512 << 20), ("12", 12), (7, 7)])
def test_size_is_read(text: Any, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["4GB", "", "-1", "0", "1.5GiB", "GiB", None, True])
def test_other_sizes_are_refused(text: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_size(text, "workspace")

    assert caught.value.message == f"workspace: expected a size such as 512MiB or 4GiB, found {str(text)!r}"


@given(st.integers(1, 1 << 60))
def test_written_size_is_read_back(size: int) -> None:
    assert parse_size(size_text(size)) == size


def test_versions_compare_by_number() -> None:
    assert version_key("10.9") < version_key("10.10") < version_key("11.0.1.post1")
