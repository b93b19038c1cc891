"""Which files native code and child processes read, from the records of the preloaded library.

`preload.c` notes every open of every process of the node, whoever made it. What the audit hook saw is left to
it, since it knows which code asked. The rest counts by its place: in the project always; elsewhere unless it
belongs to the system, to a Python installation, or to a program that keeps its state there. A record holds
the file's stat as it was opened: where that is another one when the node ends, what was read is not known any
more, and the condition is `CHANGING`, which never holds.
"""

# ruff: noqa: PTH110, PTH112, PTH113, PTH116, PTH118, PTH119, PTH120, PTH208
# (paths stay text: there are thousands of them)

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import source_from_cache
from typing import Iterable, Mapping, NamedTuple, Sequence

from mobuild.firstparty import is_below, is_installed
from mobuild.observers.files import Files, absolute, file_digest, folder_digest
from mobuild.observers.presence import ABSENT

READS = "MOBUILD_READS"  # the variable that names the file of the records
PRELOAD = "LD_PRELOAD"
CHANGING = "changing"
_LOST = "its records could not be written: the disk is full, or the library does not load"

# What Pythons read of packages that they do not import: each start the `.pth` files, and who looks for plugins, as
# torch does, the entry points of all that are installed.
_METADATA = (".dist-info", ".egg-info", ".pth")
_SYSTEM = ("/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/run", "/sbin", "/snap", "/usr")
_STATE = ("/var/cache", "/var/lib", "/var/log", "/var/run")


class Open(NamedTuple):
    """One record; preload.c explains `what` and `token`."""

    pid: int
    what: str
    token: str
    path: str


class Reads:
    """What was read between `start` and `stop` beyond what `files` saw."""

    def __init__(self, files: Files, records: str) -> None:
        self.is_on = False
        self.failure = ""
        self.files: dict[str, str] = {}
        self.folders: dict[str, str] = {}
        self.modules: dict[str, str] = {}  # path → SHA-256, of what Pythons among the children imported
        self.packages: set[str] = set()  # top-level modules, of those packages that the children read
        self.written: set[str] = set()  # files that the node's processes left
        self._judge = files
        self._records = records
        self._begin = 0  # where the records since `start` begin

    def start(self) -> None:
        """Is on when the library is: it notes each program that begins, and so this one."""
        data = _content(self._records) if os.path.isfile(self._records) else b""
        self._begin = len(data)
        self.is_on = any(one.what == "x" and one.pid == os.getpid() for one in _opens(data))
        if self._records and not self.is_on:
            self.failure = _LOST

    def stop(self) -> None:
        try:
            if self.is_on and os.path.isfile(self._records):
                self._collect()
            elif self.is_on:
                self.failure = _LOST
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must go on; the record says so
            self.failure = f"{type(error).__name__}: {error}"

    def _collect(self) -> None:
        import ctypes

        ctypes.CDLL(None).mobuild_note_libraries()
        data = _content(self._records)
        before, since = _opens(data[: self._begin]), _opens(data[self._begin :])
        pythons = _pythons([*before, *since])
        self.packages = _packages(since)
        left_out = (*self._installations([*before, *since], pythons.values()), os.path.dirname(self._records))
        opens = [one for one in since if not any(is_below(one.path, each) for each in left_out)]
        imported = _imported(opens)
        for one in self._first_reads(opens, imported):
            if one.what != "d":
                self._add_file(one)
            elif one.pid not in pythons or not holds_modules(one.path, self._judge.roots):
                self._add_folder(one)
        for path in imported:
            if self._judge.is_undeclared(path) and os.path.isfile(path):
                self.modules[path] = CHANGING if self._is_younger(path) else file_digest(path)

    def _first_reads(self, opens: Iterable[Open], imported: Iterable[str]) -> list[Open]:
        """The first read of each path that counts. What is written first is the node's own, and no input to `files`."""
        written: set[str] = set()
        read: set[str] = set()
        found: dict[str, Open] = {}
        for one in opens:
            if one.what == "w":
                written.update({one.path} - read)
            elif one.path not in written:
                read.add(one.path)
                is_audited = one.pid == os.getpid() and one.path in self._judge.seen
                if not is_audited and one.path not in found and one.path not in imported and self._counts(one):
                    found[one.path] = one
        self._judge.forget(written)
        self.written = {path for path in written if os.path.isfile(path)}
        return list(found.values())

    def _counts(self, one: Open) -> bool:
        """Whether an open may be that of an input, by its place."""
        if not self._judge.is_undeclared(one.path):
            return False
        if self._judge.is_in_project(one.path):
            return True
        if one.token == ABSENT or one.what in "ulx":
            return False  # a search, a program's state, a program: of those the project's alone are the user's
        return not is_systems(one.path)

    def _add_file(self, one: Open) -> None:
        if one.token == ABSENT:
            self.files[one.path] = ABSENT
        elif not self._judge.is_scratch(one.path):
            digest = file_digest(one.path)
            is_other = one.token != _token(one.path) or (one.what == "l" and self._is_younger(one.path))
            self.files[one.path] = CHANGING if is_other else digest

    def _add_folder(self, one: Open) -> None:
        if one.token == ABSENT:
            self.folders[one.path] = ABSENT
        elif os.path.isdir(one.path) and not self._judge.is_scratch(one.path):  # gone: the node had made it
            digest = folder_digest(one.path, self._judge.ignored)
            self.folders[one.path] = digest if one.token == _token(one.path) else CHANGING

    def _is_younger(self, path: str) -> bool:
        """Whether a file changed since the node began. Of those that are not opened here no earlier stat is known."""
        return os.path.exists(path) and os.stat(path).st_ctime >= self._judge.since

    def _installations(self, opens: Iterable[Open], pythons: Iterable[str]) -> list[str]:
        """Folders of Pythons and of virtual environments, whose packages count by version; none around the project."""
        found = {os.path.dirname(os.path.dirname(path)) for path in pythons}
        configured = (one.path for one in opens if one.path.endswith("/pyvenv.cfg") and one.token != ABSENT)
        found.update(os.path.dirname(path) for path in configured)
        return [folder for folder in found if not any(is_below(root, folder) for root in self._judge.roots)]


def is_systems(path: str) -> bool:
    """Whether a path outside the project is the system's, or where programs keep their state."""
    return path in ("/", tempfile.gettempdir()) or any(is_below(path, folder) for folder in _SYSTEM + _STATE)


def holds_modules(folder: str, roots: Sequence[str]) -> bool:
    """Whether Python lists a folder to find modules. Records cannot tell; folders of data hold none."""
    if folder in roots or not os.path.isdir(folder):
        return True
    names = os.listdir(folder)
    return any(
        name.endswith((".py", ".so")) or os.path.exists(os.path.join(folder, name, "__init__.py")) for name in names
    )


def kept(variables: Mapping[str, str | None], environment: Mapping[str, str]) -> dict[str, str | None]:
    """`variables`, which are to be set in `environment`: whatever they preload, our library, the last one, stays."""
    found = dict(variables)
    if READS in environment and PRELOAD in found:
        ours = environment[PRELOAD].rpartition(":")[2]
        found[PRELOAD] = f"{found[PRELOAD] or ''}:{ours}".lstrip(":")
    return found


def _content(records: str) -> bytes:
    with open(records, "rb") as stream:
        return stream.read()


def _opens(data: bytes) -> Sequence[Open]:
    """The records in `data`, equal ones once: some programs open one file a million times."""
    found = []
    for text in dict.fromkeys(filter(None, data.split(b"\0"))):
        pid, what, token, path = os.fsdecode(text).split(" ", 3)
        if "/__pycache__/" not in path or path.endswith(".pyc"):
            found.append(Open(int(pid), what, token, absolute(path)))
    return found


def _packages(opens: Iterable[Open]) -> set[str]:
    """The top-level modules, of the packages that are installed for this interpreter, of which others read a file."""
    folders = [folder.rstrip("/") + "/" for folder in map(absolute, sys.path) if is_installed(folder)]
    found: set[str] = set()
    for one in opens:
        if one.pid == os.getpid() or one.what not in "rul" or one.token == ABSENT:
            continue
        for folder in folders:
            if one.path.startswith(folder):
                parts = one.path[len(folder) :].split("/")
                if parts[0].endswith(_METADATA):
                    found.update([parts[0].partition("-")[0]] if parts[-1] == "METADATA" else ())  # asked its version
                    continue
                found.add(parts[parts[0] == "__pycache__"].partition(".")[0])
    return found


def _pythons(opens: Iterable[Open]) -> dict[int, str]:
    """Process → its program, for those that are Pythons."""
    programs = {one.pid: one.path for one in opens if one.what == "x"}
    return {pid: path for pid, path in programs.items() if os.path.basename(path).startswith("python")}


def _imported(opens: Iterable[Open]) -> list[str]:
    """Sources of the modules that were imported: Python asks for the byte code first, there or not."""
    found = set()
    for one in opens:
        if one.path.endswith(".pyc") and "/__pycache__/" in one.path and one.what != "w":
            try:
                found.add(source_from_cache(one.path))
            except ValueError:
                continue
    return sorted(found)


def _token(path: str) -> str:
    """The stat of a file in the form of a record."""
    try:
        seen = os.stat(path)
    except OSError:
        return ABSENT
    return f"{seen.st_dev}:{seen.st_ino}:{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ctime_ns}"
