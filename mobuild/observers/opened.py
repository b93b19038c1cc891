"""Which files native code and child processes read, from what the kernel says of the folders that they lie in.

For where nothing can be preloaded (`native`). The kernel tells no process, so whatever is read while the node runs
counts, be it by a neighbour or an editor: that can cost a build, and hides none. Three things are taken for the
node's own, or for nobody's, without being sure: files that appear while it runs, files that are opened to be written
and are written to, and listings of folders with modules, the roots among them, which every Python makes.
"""

# ruff: noqa: PTH112, PTH113, PTH114, PTH116, PTH118
# (paths stay text: there are thousands of them)

from __future__ import annotations

import os
import select
import threading
from typing import Any, Mapping

from mobuild.observers.files import Files, by_any_name, file_digest, folder_digest
from mobuild.observers.folders import Folders
from mobuild.observers.inotify import CREATE, DELETE, IGNORED, IS_FOLDER, MOVED_FROM, MOVED_TO, OVERFLOW, Event, Inotify
from mobuild.observers.native import CHANGING, holds_modules
from mobuild.observers.presence import ABSENT
from mobuild.observers.sightings import Sighting

NAME = "inotify"
_COMING, _GOING = CREATE | MOVED_TO, DELETE | MOVED_FROM
_AT_ONCE = 1000  # folders that are looked at before the events of that are taken from the queue


class Opened:
    """Watches inside its `with`, from another process than the node's; `add` tells what was seen. Never disturbs the
    node: where the kernel refuses, `failure` says why."""

    def __init__(self, job: Mapping[str, Any], limit: int = 0, many: int = 100, pause_seconds: float = 0.02) -> None:
        """Up to `limit` folders are watched. After `many` events there is a pause, so that they are taken in bulk."""
        self.failure = ""
        own = [*job["inputs"].values(), job["out"]]
        self._job, self._limit, self._many, self._pause_seconds = job, limit, many, pause_seconds
        known = by_any_name(job["known_files"])
        self._judge = Files((job["project"], job["folder"]), known, job["ignored_folders"], own)
        self._listed: dict[str, Sighting] = {}
        self._read: dict[str, Sighting] = {}
        self._came: set[int] = set()  # watches of folders that came meanwhile; to look at them is an event, too
        self._made: set[int] = set()  # of those the ones that were made: all in them is new, under whatever name
        self._new: set[str] = set()  # paths of these
        self._moves: set[int] = set()  # and their moves
        self._number = 0  # of the last event
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Opened:
        self._pipe: tuple[int, ...] = ()  # wakes the thread
        self._queue: Inotify | None = None
        self._folders: Folders | None = None
        try:
            self._pipe = os.pipe()
            self._queue = Inotify()
            self._folders = Folders(self._queue, self._judge, self._limit)
            self._begin(self._folders)
            self._thread.start()
        except OSError as error:
            self._fail(error.strerror or str(error))
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop()
        for descriptor in self._pipe:
            os.close(descriptor)
        if self._queue:
            self._queue.close()

    def add(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The worker's document with what only this observer saw. To be called when the node's processes are dead,
        since then all of their files are closed."""
        self._stop()
        observed = document["observed"]
        others = {*observed["files"], *observed["folders"], *observed["modules"].values()}
        files, folders = self._found(frozenset(document["written"]), others)
        changes = {
            "files": {**observed["files"], **files},
            "folders": {**observed["folders"], **folders},
            "presence": {path: one for path, one in observed["presence"].items() if path not in {**files, **folders}},
            "unsure": sorted({**files, **folders}),
        }
        said = dict(document, observed={**observed, **changes})
        self._fail(self._folders.failure if self._folders else "")
        if self.failure:
            said["warnings"] = [*document["warnings"], f"the observer of {NAME} missed reads ({self.failure})"]
        else:
            said["observed_by"] = [*document["observed_by"], NAME]
        return said

    def _begin(self, folders: Folders) -> None:
        for root in (self._job["project"], self._job["folder"]):
            for count, _ in enumerate(folders.walk(root)):
                if not count % _AT_ONCE:
                    self._take()
        folders.watch_named(self._job["node"], self._job["project"])
        self._take()
        if len(folders) and not self._number:  # looking at the folders is an event, too
            raise OSError("no event arrives here")
        self._read.clear()
        self._listed.clear()

    def _follow(self) -> None:
        """The life of the thread that empties the queue."""
        assert self._queue
        poll = select.poll()
        for descriptor in (self._queue.descriptor, self._pipe[0]):
            poll.register(descriptor, select.POLLIN)
        while not self._stopped.is_set():
            poll.poll()
            # Equal events in a row become one in the queue, two openings too: the fewer the better.
            if self._take() >= self._many:
                self._stopped.wait(self._pause_seconds)

    def _stop(self) -> None:
        if self._thread.is_alive():
            self._stopped.set()
            os.write(self._pipe[1], b".")
            self._thread.join()

    def _take(self) -> int:
        """How many events were in the queue, which is empty now."""
        before = self._number
        try:
            if self._queue and self._folders:
                for event in self._queue.events():
                    self._note(event, self._folders)
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must go on; the record says so
            self._fail(f"{type(error).__name__}: {error}")
        return self._number - before

    def _note(self, event: Event, folders: Folders) -> None:
        self._number += 1
        if event.what & OVERFLOW:
            self._fail("more happened at once than the kernel's queue holds")
        for path in folders.paths(event.watch):
            if event.name:
                self._note_name(event, path, folders)
            elif event.what & IS_FOLDER and event.watch not in self._came:
                self._sight(self._listed, path, event.what)
            elif not event.what & IS_FOLDER:
                self._sight(self._read, path, event.what)
        if event.what & IGNORED:
            folders.forget(event.watch)

    def _note_name(self, event: Event, folder: str, folders: Folders) -> None:
        path, is_folder, names = (
            os.path.join(folder, event.name),
            event.what & IS_FOLDER,
            event.what & (_COMING | _GOING),
        )
        if not is_folder:
            is_new = event.watch in self._made or bool(event.what & _COMING and not folders.had(path))
            self._sight(self._read, path, event.what, is_new)
        if not names or event.name == "__pycache__" or path in self._judge.ignored:
            return
        self._sight(self._listed, folder, names)
        if is_folder:
            self._note_folder(event, path, folders)
        elif names & _COMING and os.path.islink(path):
            self._came.update(folders.walk(path) if os.path.isdir(path) else ())
            folders.watch(path)

    def _note_folder(self, event: Event, path: str, folders: Folders) -> None:
        """One that is made may have another name, or be gone, when its event is taken from the queue."""
        if event.what & _GOING:
            folders.leave(path)
            self._moves.update([event.move] if path in self._new and event.what & MOVED_FROM else ())
            return
        came = list(folders.walk(path))
        self._came.update(came)
        if event.what & CREATE or event.move in self._moves:
            self._new.add(path)
            self._made.update(came)

    def _sight(self, among: dict[str, Sighting], path: str, what: int, is_new: bool = False) -> None:
        if path not in among:
            among[path] = Sighting(is_new)
        among[path].add(self._number, what)

    def _found(self, written: frozenset[str], others: set[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Files that were read and folders that were listed, with their digests, but those that `others` saw, too."""
        self._take()
        for sighting in (*self._read.values(), *self._listed.values()):
            sighting.end()
        own = others | {path for path in written & self._read.keys() if self._read[path].is_written_first}
        is_undeclared = self._judge.is_undeclared
        files = [path for path, one in self._read.items() if one.is_input and path not in own and is_undeclared(path)]
        folders = [path for path, one in self._listed.items() if one.is_input and path not in others]
        data = [path for path in folders if is_undeclared(path) and not holds_modules(path, self._judge.roots)]
        digests = {path: digest for path in files if (digest := file_digest(path))}
        listings = {path: folder_digest(path, self._judge.ignored) for path in data}
        self._take()  # what changed while it was digested
        return (
            {path: self._held(path, self._read[path], digest) for path, digest in digests.items()},
            {path: self._held(path, self._listed[path], digest) for path, digest in listings.items()},
        )

    def _held(self, path: str, sighting: Sighting, digest: str) -> str:
        """The digest, unless it may be another one than was read."""
        if digest == ABSENT or sighting.changed_at > sighting.read_at:
            return CHANGING
        is_unseen = not sighting.written_at and os.path.isfile(path) and os.stat(path).st_ctime >= self._judge.since
        return CHANGING if is_unseen else digest

    def _fail(self, why: str) -> None:
        self.failure = self.failure or why
