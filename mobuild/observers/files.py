"""Which files and folders the user's code read, by CPython's audit hook (PEP 578).

The hook sees every read through Python; native readers (safetensors, ONNX Runtime, child processes) are for
`native`. A read counts when the user's code made it, directly or through a library, or when the
path lies in the project; never when the import machinery itself did, since modules are observed as modules.
The content is digested at the moment of the event, before the reader gets it.
"""

# ruff: noqa: PTH100, PTH109, PTH110, PTH112, PTH113, PTH116, PTH118, PTH208
# (paths stay text: there are thousands of them)

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import threading
import time
from typing import AbstractSet, Any, Iterable, Sequence

from mobuild.firstparty import PACKAGE, is_below, is_installed, is_stdlib
from mobuild.observers import presence
from mobuild.observers.presence import ABSENT, LINK, THERE
from mobuild.observers.readers import is_users_own, nearest_reader

_EVENTS = ("open", "os.listdir", "os.scandir")
_MAKING = {"os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1}  # event → which argument is the new path
_TEMPORARY = "tempfile.mkdtemp"  # its path has a name that no other run takes
_SYSTEM = ("/proc", "/sys", "/dev")
_MEMORY = "/dev/shm"  # holds files as any disk
_NAMED_BY_CONTENT = "/.git/objects/"  # whoever finds something there by what else was read finds the same again
_CHUNK = 1 << 20

_active: Files | None = None
_hooked = False


class Files:
    """Collects reads between `start` and `stop`. Never disturbs the node: when the observer itself
    fails it stops, and `failure` says why."""

    def __init__(
        self, roots: Sequence[str], known: AbstractSet[str], ignored: Sequence[str], own: Sequence[str]
    ) -> None:
        """`known` files are keyed by others, by any name; in the `ignored` folders nothing counts, nor do their names
        in a listing; `own` are the node's inputs and its artifact, with all that is in them."""
        self.files: dict[str, str] = {}
        self.folders: dict[str, str] = {}
        self.presence: dict[str, str] = {}  # of what was only looked for
        self.links: dict[str, str] = {}  # where they lead, in the project
        self.failure = ""
        self.seen: set[str] = set()  # what any code of this process opened or listed through Python
        self.since = time.time()
        self.roots = tuple(map(os.path.abspath, roots)) + tuple(map(os.path.realpath, roots))
        self.ignored = tuple(map(os.path.abspath, ignored))
        self._known = known
        self._own = tuple(map(os.path.abspath, own)) + tuple(map(os.path.realpath, own))
        self._written: set[str] = set()  # folders that the node makes, too
        self._temporary: set[str] = set()  # of these folders the ones that have a name of this run alone
        self._young: set[str] = set()  # what was seen, and is no older than the node
        self._made: set[str] = set()  # links: what is read through them was there before
        self._inside = threading.local()  # the hook's own reads raise events too

    def start(self) -> None:
        global _active, _hooked
        _active = self
        if not _hooked:  # a hook cannot be removed, so there is one for the life of the process
            sys.addaudithook(_hook)
            _hooked = True
        presence.watch(lambda question, path: self.event(question, (path,)))

    def stop(self) -> None:
        global _active
        _active = None
        presence.unwatch()
        self.files = {path: digest for path, digest in self.files.items() if not self._is_lost(path, digest)}
        self.folders = {path: digest for path, digest in self.folders.items() if not self._is_lost(path, digest)}
        # Whoever makes what is missing finds it there the next time, and goes on as before.
        made = self._written | self._made
        self.presence = {
            path: one
            for path, one in self.presence.items()
            if (one != ABSENT or path not in made) and not self._is_lost(path, one)
        }
        self.links = {path: one for path, one in self.links.items() if one != ABSENT or path not in made}

    def forget(self, written: AbstractSet[str]) -> None:
        """Leave out what the node's processes had `written` before it was read."""
        self.files = {path: digest for path, digest in self.files.items() if path not in written}
        self.presence = {path: answer for path, answer in self.presence.items() if path not in written}
        self.links = {path: answer for path, answer in self.links.items() if path not in written}

    def event(self, name: str, arguments: tuple[Any, ...]) -> None:
        if getattr(self._inside, "now", False):
            return
        self._inside.now = True
        try:
            self._note(name, arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must go on; the record says so
            self.failure = f"{type(error).__name__}: {error}"
            self.stop()
        finally:
            self._inside.now = False

    def _note(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name in _MAKING:
            self._note_made(name, arguments)
            return
        if name == _TEMPORARY:
            self._temporary.add(_absolute(name, arguments[0]))
            return
        path = _absolute(name, arguments[0] if arguments[0] is not None else ".")
        if not path or not self._is_of_interest(path):
            return
        if name in (THERE, LINK):
            self._look(name, path)
            return
        if path in self.files or path in self.folders:
            return
        self.seen.add(path)
        if name == "open" and _writes(path, arguments[2]):
            self._written.add(path)
        elif path not in self._written and path not in self._known and self._is_users(name, path):
            self._record(name, path)

    def _note_made(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Before it is made, and perhaps in vain: what is there already stays an input."""
        path = arguments[_MAKING[name]]
        if arguments[-1] != -1 or os.path.lexists(path):  # the number is that of an open folder, where path begins
            return
        is_its_own = name == "os.mkdir" or (name == "os.rename" and _absolute(name, arguments[0]) in self._written)
        (self._written if is_its_own else self._made).add(_absolute(name, path))

    def _look(self, question: str, path: str) -> None:
        """Note the first answer to whether something is there, or where it leads."""
        found = self.presence if question == THERE else self.links
        if path in found or path in self.roots:
            return
        if not self.is_in_project(path) and not (question == THERE and is_users_own()):
            return
        if path not in self._written and path not in self._known and self._is_users(question, path):
            self._note_age(path)
            found[path] = presence.is_there(path) if question == THERE else presence.link_digest(path)

    def _record(self, name: str, path: str) -> None:
        if name != "open":
            self._note_age(path)
            self.folders[path] = folder_digest(path, self.ignored)
        elif os.path.realpath(path) not in self._known:
            self._note_age(path)
            digest = file_digest(path)
            if digest:
                self.files[path] = digest

    def _note_age(self, path: str) -> None:
        if os.path.exists(path) and os.stat(path).st_ctime >= self.since:
            self._young.add(path)

    @property
    def written_first(self) -> AbstractSet[str]:
        """What the node wrote through Python before any such read of it."""
        return self._written

    @property
    def written(self) -> AbstractSet[str]:
        """Files that the node wrote through Python beside its artifact, and left."""
        return {path for path in self._written if os.path.isfile(path)}

    def is_undeclared(self, path: str) -> bool:
        """Whether a read of `path` can be an input that nobody declared."""
        return self._is_of_interest(path) and path not in self._known and os.path.realpath(path) not in self._known

    def is_in_project(self, path: str) -> bool:
        return any(is_below(path, root) for root in self.roots)

    def _is_of_interest(self, path: str) -> bool:
        if path.endswith(".pyc") or is_below(path, PACKAGE) or is_stdlib(path) or is_installed(path):
            return False
        if _NAMED_BY_CONTENT in f"{path}/":
            return False
        if any(is_below(path, folder) for folder in _SYSTEM) and not is_below(path, _MEMORY):
            return False
        return not any(is_below(path, folder) for folder in self.ignored + self._own)

    def _is_users(self, name: str, path: str) -> bool:
        """Whether an event is the user's doing. Below the project also what has no reader: a thread of a library.

        Libraries look around for themselves where no code of the user's called them; what they read counts still.
        """
        reader = nearest_reader(name)
        is_nobodys = not reader or (reader == "library" and name not in (THERE, LINK))
        return reader == "user" or (is_nobodys and self.is_in_project(path))

    def _is_lost(self, path: str, digest: str) -> bool:
        """Whether what was seen tells nothing, for the run made the file, and perhaps removed it, too; of one that was
        never there it does, unless nobody else could have put it there."""
        is_temporary = any(is_below(path, folder) for folder in self._temporary)
        if path in self.folders and digest != ABSENT:  # new names make a folder young that was there before
            return path in self._young and (is_temporary or not os.path.lexists(path))
        if os.path.lexists(path):
            return self.is_scratch(path)
        return is_temporary if digest == ABSENT else path in self._young or self.is_scratch(path)

    def is_scratch(self, path: str) -> bool:
        """Whether the run itself made `path`, in the folder for temporary files: a child process wrote
        it, so no event told. As a condition it could never hold again."""
        if not is_below(path, tempfile.gettempdir()) or self.is_in_project(path):
            return False
        try:
            return os.stat(path).st_ctime >= self.since
        except OSError:
            return True


def by_any_name(paths: Iterable[str]) -> frozenset[str]:
    """The paths as they are given, absolute, and without links."""
    given = tuple(paths)
    return frozenset([*given, *map(os.path.abspath, given), *map(os.path.realpath, given)])


def file_digest(path: str) -> str:
    """SHA-256 of a file, `-` when there is none, empty for what is no regular file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb", buffering=0) as stream:
            state = hashlib.sha256()
            for chunk in iter(lambda: stream.read(_CHUNK), b""):
                state.update(chunk)
            return state.hexdigest()
    except OSError:
        return ABSENT


def folder_digest(path: str, ignored: Sequence[str] = ()) -> str:
    """SHA-256 of a folder's sorted names, `-` when there is none.

    Left out are byte code and the `ignored` folders, which the build itself makes.
    """
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return ABSENT
    kept = [name for name in names if name != "__pycache__" and os.path.join(path, name) not in ignored]
    return hashlib.sha256("\0".join(kept).encode("utf-8", "surrogateescape")).hexdigest()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if (event in _EVENTS or event in _MAKING or event == _TEMPORARY) and _active is not None:
        _active.event(event, arguments)


def absolute(path: str) -> str:
    """`path` against the working directory of now. `..` after a link stays, since it leads away from there."""
    plain = os.path.abspath(path)
    if ".." not in path or os.path.realpath(path) == os.path.realpath(plain):
        return plain
    return os.path.join(os.getcwd(), path)


def _absolute(event: str, path: Any) -> str:
    """The event's path; empty for the descriptor of a file, whose opening was an event of its own."""
    if isinstance(path, int):
        return "" if event == "open" else _folder_of(path)
    return absolute(os.fsdecode(path))


def _folder_of(descriptor: int) -> str:
    """The path of an open folder, as Linux tells it; empty elsewhere."""
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
    return path if os.path.isdir(path) else ""


def _writes(path: str, flags: int) -> bool:
    """Whether an `open` makes or replaces the file; one that updates an existing file reads it first."""
    if flags & (os.O_TRUNC | os.O_WRONLY):
        return True
    return bool(flags & (os.O_RDWR | os.O_CREAT)) and not os.path.exists(path)
