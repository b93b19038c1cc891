"""Listings: what is written comes back, and no name leaves the folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobuild.errors import StoreError
from mobuild.fingerprint import Digest
from mobuild.store.listing import MAGIC, Member, check_names, decode, encode

digests = st.text("0123456789abcdef", min_size=32, max_size=32).map(Digest)
members = st.builds(Member, digests, st.integers(0, 2**63), st.booleans())
parts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="/\0"), min_size=1).filter(
    lambda part: part not in (".", "..")
)
names = st.lists(parts, min_size=1, max_size=3).map("/".join)


def is_tree(found: dict[str, Member]) -> bool:
    return not any(one != other and other.startswith(one + "/") for one in found for other in found)


@given(st.dictionaries(names, members, max_size=6).filter(is_tree))
def test_listing_comes_back_sorted(found: dict[str, Member]) -> None:
    assert list(decode(encode(found)).items()) == sorted(found.items())


@given(st.dictionaries(names, members, max_size=6).filter(is_tree))
def test_listing_does_not_depend_on_order(found: dict[str, Member]) -> None:
    assert encode(dict(reversed(list(found.items())))) == encode(found)


@given(st.binary())
def test_damaged_listing_is_an_error_of_the_store(data: bytes) -> None:
    try:
        decode(MAGIC + data)
    except StoreError:
        return
    assert data.strip() == b"{}"


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "a\0b"])
def test_name_outside_the_folder_is_refused(name: str) -> None:
    with pytest.raises(StoreError) as caught:
        encode({name: Member(Digest("0" * 32), 0, False)})

    assert str(caught.value) == f"folder listing: {name!r} is no name of a file inside the folder"


def test_a_name_that_is_no_text_is_refused_with_what_helps() -> None:
    with pytest.raises(StoreError) as caught:
        check_names(["caf\udce9.txt"])

    assert caught.value.message.startswith("folder listing: the name 'caf\\udce9.txt' is not in UTF-8")
    assert caught.value.hint == "rename the file; convmv does so for a whole folder"


def test_one_name_for_a_file_and_a_folder_is_refused() -> None:
    member = Member(Digest("0" * 32), 0, False)

    with pytest.raises(StoreError, match="'a' is both a file and a folder"):
        encode({"a": member, "a/b": member})


def test_digest_that_would_become_another_path_is_refused() -> None:
    data = MAGIC + b'{"a":{"digest":"../../../../../../etc/passwd0000","size_bytes":1,"executable":false}}'

    with pytest.raises(StoreError, match="is no digest"):
        decode(data)
