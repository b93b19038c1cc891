"""What the kernel's control group says about memory: the limit, and how often it killed (cgroups(7)).

Read before and after a node, so that "out of memory" is said only when the kernel says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

_UNLIMITED = 1 << 60  # version 1 writes the largest page-aligned number for no limit


@dataclass(frozen=True)
class Memory:
    """Of the group that this process is in. `oom_kills` is -1 where no counter is kept."""

    limit_mib: int | None  # None: no limit
    oom_kills: int

    @property
    def limit(self) -> str:
        return "no limit" if self.limit_mib is None else f"{self.limit_mib} MiB"


def memory(root: Path = Path("/")) -> Memory:
    """The smallest limit on the way up, and the counter of the group itself."""
    for limit_files, events_file in _groups(root):
        limits = [_number(file) for file in limit_files]
        bounded = [limit for limit in limits if limit is not None and limit < _UNLIMITED]
        limit_mib = min(bounded) // 2**20 if bounded else None
        return Memory(limit_mib, _counter(events_file, "oom_kill"))
    return Memory(None, -1)


@cache
def _groups(root: Path) -> list[tuple[list[Path], Path]]:
    """Limit files on the way up, and event file: version 2, or the memory controller of version 1."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            folder, limit, events = _inside(mount, path), "memory.limit_in_bytes", "memory.oom_control"
        elif not controllers and (root / "sys/fs/cgroup/cgroup.controllers").exists():
            folder, limit, events = _inside(root / "sys/fs/cgroup", path), "memory.max", "memory.events"
        else:
            continue
        found.append(([above / limit for above in _upwards(folder, root)], folder / events))
    return found


def _inside(mount: Path, path: str) -> Path:
    """A container without a group namespace names a path that its mount does not show."""
    folder = mount / PurePosixPath(path).relative_to("/")
    return folder if folder.is_dir() else mount


def _upwards(folder: Path, root: Path) -> list[Path]:
    mount = root / "sys/fs/cgroup"
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(mount))]


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdigit() else None


def _counter(file: Path, name: str) -> int:
    pairs = (line.split() for line in _text(file).splitlines())
    return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == name), -1)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""  # no control groups here (another system, a sandbox): no limit is known
