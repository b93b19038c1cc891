"""Files that only stand for the real one: Git LFS pointers, pages and error documents of servers, nothing at all."""

from __future__ import annotations

from mobuild.errors import SourceError
from mobuild.fetch.uris import scheme_of

START_BYTES = 256  # of a file, enough to tell
LFS = b"version https://git-lfs.github.com/spec/v1"
LFS_MAXIMUM_BYTES = 1024  # of a pointer, says the specification of Git LFS
_PAGES = (b"<!doctype html", b"<html")


def check(shown: str, start: bytes, suffix: str, is_remote: bool) -> None:
    """Look at the first bytes of a file.

    Raises:
        SourceError: it is a placeholder; says how to get the real one.
    """
    check_pointer(shown, start, is_remote)
    begin = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if begin.startswith(_PAGES) and suffix.lower() not in (".html", ".htm"):
        raise SourceError(
            f"source {shown!r}: is an HTML page, not the file itself",
            _PAGE_REMOTE
            if is_remote
            else "the download was answered with a page (a login, a licence, an error): download it again",
        )
    if begin.startswith(b"<?xml") and b"<error>" in begin and suffix.lower() != ".xml":
        raise SourceError(
            f"source {shown!r}: is a storage server's error message, not the file itself",
            "look into it with a text editor; then fetch the file again",
        )


def check_pointer(shown: str, start: bytes, is_remote: bool) -> None:
    """Refuse a Git LFS pointer.

    Raises:
        SourceError: it is one.
    """
    if start.startswith(LFS):
        raise SourceError(
            f"source {shown!r}: is a Git LFS pointer, not the file itself",
            _pointer_hint(shown) if is_remote else "git lfs pull",
        )


def _pointer_hint(shown: str) -> str:
    if scheme_of(shown) in ("http", "https", "hf"):
        return (
            "name the address of the content: '/resolve/' in place of '/raw/' on Hugging Face, "
            "media.githubusercontent.com/media/… in place of raw.githubusercontent.com/… on GitHub"
        )
    return "it was copied there from a clone without its content: git lfs pull there, and copy it again"


def empty(shown: str, is_remote: bool) -> SourceError:
    """The error about a file without a byte."""
    how = (
        "look at what lies there; an upload may have failed"
        if is_remote
        else "a download may have failed: fetch it again"
    )
    return SourceError(f"source {shown!r}: is empty", how)


_PAGE_REMOTE = (
    "the server answers with a page (a login, a licence, an error): open the address in a browser,\n"
    "and name the one behind its download button; credentials come from netrc or the URL"
)
