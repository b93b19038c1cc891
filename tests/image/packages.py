"""Small packages of Debian and of Python, made without their tools."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def deb(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    """A package with `files` by their path, each executable where it lies in a bin folder."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode, member.mtime, member.uid = len(content), 0o755 if "bin/" in name else 0o644, 99, 5
            archive.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    parts = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": lzma.compress(plain.getvalue())}
    raw = b"!<arch>\n"
    for name, content in parts.items():
        raw += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        raw += b"\n" * (len(content) % 2)
    path.write_bytes(raw)
    return path


def wheel(path: Path, files: Mapping[str, bytes]) -> Path:
    """A wheel with `files`."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without the time
    return path
