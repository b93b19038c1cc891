from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobuild.errors import ConfigError
from mobuild.units import about, age_text, parse_age, parse_size, size_text
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


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2592000), ("12h", 43200), ("90 min", 5400), ("0", 0), (0, 0)])
def test_age_is_read(text: Any, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["30", "1.5d", "-1d", "30days", "", None, True])
def test_other_ages_are_refused(text: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_age(text, "gc.age")

    assert caught.value.message == f"gc.age: expected an age such as 30d or 12h, found {str(text)!r}"


def test_sizes_and_ages_are_rounded_for_people() -> None:
    assert [about(size) for size in (0, 1, 1023, 1536, 5 << 30)] == [
        "0 bytes",
        "1 byte",
        "1023 bytes",
        "1.5 KiB",
        "5.0 GiB",
    ]
    assert [age_text(seconds) for seconds in (5, 180, 86400, 45 * 86400)] == ["5 s", "3 minutes", "24 hours", "45 days"]


def test_versions_compare_by_number() -> None:
    assert version_key("10.9") < version_key("10.10") < version_key("11.0.1.post1")
