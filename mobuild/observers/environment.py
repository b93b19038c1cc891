"""Which environment variables the user's code read through `os.environ`.

Python has no audit event for that, so `os.environ` changes its class. Counted are reads whose nearest
frame outside the standard library is the user's: a library's own look-ups of HOME and PATH are not
conditions of a model. A read of the whole environment (usually to hand it to a child process) counts as
the list of its names, `*`: with every value in it, no build would be fresh in the next shell. For the same reason the
variables that only say where programs and scratch space are do not count. C code's
`getenv` is not seen.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import sys
from typing import Any, Iterable, Iterator, Mapping, Sequence

from mobuild.firstparty import is_first_party, is_stdlib
from mobuild.observers.native import PRELOAD, READS

ABSENT = "-"
SECRET = "secret"
WHOLE = "*"
_OURS = frozenset((PRELOAD, READS))  # how mobuild itself watches
# What mobuild sets for a node.
_SET = frozenset(("ORT_DISABLE_TELEMETRY", "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONOPTIMIZE", "MOBUILD_SHELL"))
_FLEETING = _OURS | _SET | frozenset(("_", "OLDPWD", "SHLVL", "LINES", "COLUMNS"))
_PLACES = _OURS | _SET | frozenset(("PATH", "TMPDIR", "TEMP", "TMP"))
_SHORTEST_SECRET = 6  # shorter ones (`1`, `none`) would blank out ordinary text
_SECRETS = ("*_TOKEN", "*_SECRET", "*PASSWORD*", "*_KEY", "*ACCESS_KEY_ID", "*CONNECTION_STRING")

_active: Variables | None = None


class Variables:
    """Collects reads between `start` and `stop`: name → SHA-256 of the value, never the value."""

    def __init__(self, secrets: Sequence[str] = (), declared: Iterable[str] = ()) -> None:
        self.read: dict[str, str] = {}
        self.failure = ""
        self._secrets = tuple(secrets)
        self._declared = frozenset(declared)  # keyed by others
        self._written: set[str] = set()
        self._copying: tuple[Any, ...] = ()

    def start(self) -> None:
        global _active
        self._plain: Any = os.environ.__class__
        os.environ.__class__ = Watched
        if os.supports_bytes_environ:
            os.environb.__class__ = WatchedBytes
        _active = self

    def stop(self) -> None:
        global _active
        _active = None
        os.environ.__class__ = self._plain
        if os.supports_bytes_environ:
            os.environb.__class__ = self._plain

    def note(self, name: Any) -> None:
        if not isinstance(name, str) or name in _PLACES or name in self._declared:
            return  # the standard library tries b"PATH", too
        try:
            is_new = name not in self.read and name not in self._written
            if is_new and _user_reads() and _site() != self._copying:
                self.read[name] = self._digest(name)
        except Exception as error:  # noqa: BLE001 - the node must go on; the record says so
            self.failure = f"{type(error).__name__}: {error}"

    def note_whole(self) -> None:
        try:
            if WHOLE not in self.read and _user_reads():
                self.read[WHOLE] = names_digest(list(_data()))
            self._copying = _site()
        except Exception as error:  # noqa: BLE001 - as above
            self.failure = f"{type(error).__name__}: {error}"

    def note_written(self, name: Any) -> None:
        self._written.add(name)

    def _digest(self, name: str) -> str:
        return SECRET if is_secret(name, self._secrets) else value_digest(_data().get(name))


class Watched(os._Environ):  # type: ignore[type-arg]
    """`os.environ` while a node runs: every way to read it tells the observer."""

    def __getitem__(self, name: Any) -> Any:
        if _active:
            _active.note(name)
        return super().__getitem__(name)

    def __setitem__(self, name: Any, value: Any) -> None:
        if _active:
            _active.note_written(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: Any) -> None:
        super().__delitem__(name)
        if _active:
            _active.note_written(name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._whole())

    def keys(self) -> Any:
        return self._whole().keys()

    def items(self) -> Any:
        return self._whole().items()

    def values(self) -> Any:
        return self._whole().values()

    def copy(self) -> dict[str, str]:
        return self._whole()

    def _whole(self) -> dict[str, str]:
        if _active:
            _active.note_whole()
        return _data()


class WatchedBytes(os._Environ):  # type: ignore[type-arg]
    """`os.environb` likewise."""

    def __getitem__(self, name: Any) -> Any:
        if _active and isinstance(name, bytes):
            _active.note(os.fsdecode(name))
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[Any]:
        if _active:
            _active.note_whole()
        return super().__iter__()


def of_programs(names: Iterable[str], secrets: Sequence[str] = ()) -> dict[str, str]:
    """Name → digest of the variables that a program, in which nothing watches, reads by what its code says."""
    counted = sorted(set(names) - _PLACES)
    return {name: SECRET if is_secret(name, secrets) else value_digest(os.environ.get(name)) for name in counted}


def value_digest(value: str | None) -> str:
    """SHA-256 of a variable's value; `-` when it is not set."""
    if value is None:
        return ABSENT
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()


def names_digest(names: Sequence[str]) -> str:
    """SHA-256 of the sorted names, and behind it the names: what a read of the whole environment counts as. Left out
    are those that the worker itself and the shell set anew."""
    counted = sorted(set(names) - _FLEETING)
    return " ".join([value_digest("\0".join(counted)), *counted])


def names_in(digest: str) -> frozenset[str] | None:
    """The names behind such a digest; None where it has none (of an older mobuild)."""
    _, found, names = digest.partition(" ")
    return frozenset(names.split(" ")) if found else None


def is_secret(name: str, more: Sequence[str] = ()) -> bool:
    """Whether the value of `name` must never be written down, not even as a digest."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _SECRETS + tuple(more))


def secret_values(environ: Mapping[str, str], more: Sequence[str] = ()) -> dict[str, str]:
    """Value → name of the secrets in `environ` that are long enough to be told from ordinary text."""
    named = {value: name for name, value in environ.items() if is_secret(name, more)}
    return {value: name for value, name in named.items() if len(value) >= _SHORTEST_SECRET}


def _data() -> dict[str, str]:
    """The environment by its plain class, which notes nothing."""
    environ: Any = os.environ
    return {environ.decodekey(key): environ.decodevalue(value) for key, value in environ._data.items()}


def _user_reads() -> bool:
    """Whether the nearest frame outside the standard library and this file is the user's, or there is none: a thread
    of the standard library's runs what the user gave it."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen") and not is_stdlib(file):
            return is_first_party(file)
        frame = frame.f_back  # type: ignore[assignment]
    return True


def _site() -> tuple[Any, ...]:
    """The instruction that reads: `{**os.environ}` asks for the keys, then for each value, from one
    and the same instruction, and is still one read. A frame that ended leaves its place to one of other code."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return (frame.f_code, id(frame), frame.f_lasti)
