"""Where a change stands: the file of a module, the file of a source, what differs in a folder.

Keys hold digests, so this is told beside them, as far as it is known: of code by the plan or by the record, of folders
by their listings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from mobuild.fingerprint import Change

ListingOf = Callable[[str], "Mapping[str, str] | None"]  # of a folder, by its digest; None where it is not known

_SHOWN = 3  # of the files that differ in a folder
_CODE, _INPUTS = "code.", "inputs."


def located(
    changes: Sequence[Change], code: Mapping[str, str], sources: Mapping[str, str], listing_of: ListingOf
) -> tuple[Change, ...]:
    """`changes` with their places: `code` has the file of each module, `sources` that of each role's source."""
    return tuple(dataclasses.replace(one, where=_where(one, code, sources, listing_of)) for one in changes)


def shown(path: Path, root: Path) -> str:
    """A path as people write it: from the project on where it lies there."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _where(change: Change, code: Mapping[str, str], sources: Mapping[str, str], listing_of: ListingOf) -> str:
    if change.subject.startswith(_CODE):
        name = change.subject.removeprefix(_CODE)
        return "" if code.get(name) == name else code.get(name, "")  # a script is called by its path
    if not change.subject.startswith(_INPUTS):
        return ""
    place = sources.get(change.subject.removeprefix(_INPUTS), "")
    return listed(place, listing_of(change.old), listing_of(change.new))


def listed(place: str, old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> str:
    """`place`, and which files of the folder there differ, where it is one that is known in both states."""
    if old is None or new is None:
        return place
    names = list(_differing(old, new))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ": ".join(filter(None, (place, ", ".join(names[:_SHOWN]) + more)))


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield f"{name} (new)"
        elif name not in new:
            yield f"{name} (gone)"
        elif old[name] != new[name]:
            yield name
