"""Another revision of the project's git repository, unpacked beside the working tree."""

from __future__ import annotations

import functools
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mobuild.errors import ConfigError


def commit(revision: str, project: Path) -> str:
    """The commit that `revision` names.

    Raises:
        ConfigError: the project is in no git repository, or there is no such revision.
    """
    _git(project, "rev-parse", "--show-toplevel")
    found = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return found.decode().strip()


@contextmanager
def unpacked(revision: str, project: Path, apart: Sequence[Path] = ()) -> Iterator[Path]:
    """The project folder as it was at `revision`, in a folder that is removed afterwards.

    There is what git tracks, and links to what it ignores, virtual environments and data mostly, as that is now; of
    the folders `apart`, which are written to, nothing. The repository itself is left as it is.

    Raises:
        ConfigError: the project is in no git repository, there is no such revision, or the project was not in it.
    """
    top = _top(project)
    named = commit(revision, project)
    inside = project.resolve().relative_to(top.resolve())
    with tempfile.TemporaryDirectory(prefix="mobuild-revision-") as folder:
        archive = _git(top, "archive", "--format=tar", named)
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            members.extractall(folder, filter=functools.partial(_as_it_lies, top))
        _link_ignored(top, Path(folder), apart)
        place = Path(folder) / inside
        if not place.is_dir():
            raise ConfigError(f"revision {revision!r}: has no folder '{inside}'", "name a revision with the project")
        yield place


def counterparts(paths: Iterable[str], project: Path, place: Path) -> list[str]:
    """Those of the folders `paths` in the repository of `project` that git tracks, as they are in the revision that
    was unpacked with its project at `place`."""
    top = _top(project).resolve()
    there = place.resolve()
    for _ in project.resolve().relative_to(top).parts:
        there = there.parent
    below = [Path(path).resolve() for path in paths if Path(path).resolve().is_relative_to(top)]
    found = [(there / path.relative_to(top)).resolve() for path in below]
    return [str(path) for path in found if path.is_dir() and path.is_relative_to(there)]  # no links to what is ignored


def _top(project: Path) -> Path:
    return Path(_git(project, "rev-parse", "--show-toplevel").decode().rstrip("\n"))


def _as_it_lies(top: Path, member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """A filter for `tarfile`: what a link names outside the repository is named there as well; what it names inside,
    is that of the revision."""
    if not member.issym():
        return tarfile.data_filter(member, folder)
    place = (top / member.name).parent
    target = Path(os.path.normpath(place / member.linkname))
    if not target.is_relative_to(top):
        member = member.replace(linkname=str(target), deep=False)
    elif Path(member.linkname).is_absolute():
        member = member.replace(linkname=os.path.relpath(target, place), deep=False)
    return tarfile.tar_filter(member, folder)


def _link_ignored(top: Path, folder: Path, apart: Sequence[Path]) -> None:
    listed = _git(top, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    for name in filter(None, os.fsdecode(listed).split("\0")):
        there, link = top / name.rstrip("/"), folder / name.rstrip("/")
        is_apart = any(each.is_relative_to(there) or there.is_relative_to(each) for each in apart)
        if is_apart or there.name == "__pycache__" or os.path.lexists(link):
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(there)


def _git(folder: Path, *words: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True)
    except FileNotFoundError as error:
        raise ConfigError("git is not installed, and revisions are git's", "install git") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        what = said or f"there is no revision {words[-1].removesuffix('^{commit}')!r}"
        raise ConfigError(f"'{folder}': {what}", "a revision is a commit, a branch or a tag: against=HEAD~1")
    return done.stdout
