"""What a need of one member of a folder means: a file, a model with the external data that it names, or a folder."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from pathlib import Path

from mobuild import onnx_external
from mobuild.errors import SourceError
from mobuild.fingerprint import canonical, digest_bytes


def needed(member: str, listed: Mapping[str, str], path_of: Callable[[str], Path]) -> dict[str, str]:
    """Those of the files `listed` by name that a need of `member` means, with their digests; empty for no member.

    `path_of` says where the file of a name can be read.
    """
    if member not in listed:
        return {name: digest for name, digest in sorted(listed.items()) if name.startswith(f"{member}/")}
    beside = (posixpath.join(posixpath.dirname(member), name) for name in _external(member, path_of))
    names = [member, *(name for name in map(posixpath.normpath, beside) if name in listed)]
    return {name: listed[name] for name in names}


def digest_of(member: str, found: Mapping[str, str]) -> str:
    """The digest of what `needed` found; of a model with its data as `sources` has it."""
    if member not in found:
        return digest_bytes(canonical([[name, digest] for name, digest in found.items()]))
    data = {posixpath.relpath(name, posixpath.dirname(member) or "."): found[name] for name in found if name != member}
    return digest_bytes(canonical({"model": found[member], "external_data": data})) if data else found[member]


def _external(member: str, path_of: Callable[[str], Path]) -> list[str]:
    try:
        return list(onnx_external.locations(path_of(member))) if onnx_external.is_model(path_of(member), member) else []
    except (OSError, SourceError):  # lost, or no model: whoever reads it will tell
        return []
