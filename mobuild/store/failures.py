"""Failures: what the last failed build of a node left, kept to be looked at.

One folder per project, recipe, variant and node, so that they do not fill the disk: the next failure of the
node takes its place, and a finished build removes it. Variants that share a step share the folder by a link.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mobuild.fingerprint import Digest, canonical, digest_bytes
from mobuild.store.refs import folder_of


@dataclass(frozen=True)
class Owner:
    """Whose failure it is: one node of one variant of a recipe in a project."""

    project: Path
    recipe: str
    variant: str
    node: str


class Failures:
    """The kept failures of one store; losing one costs a look, never a build."""

    def __init__(self, root: Path, staging: Path) -> None:
        self._root, self._staging = root, staging

    def find(self, owner: Owner) -> Path | None:
        """The folder of the owner's last failure, where it is kept."""
        path = self._path(owner)
        return path.resolve() if path.is_dir() else None

    def keep(self, staged: Path, owners: Sequence[Owner]) -> None:
        """Move `staged`, a folder of the staging, to where all its owners find it.

        Raises:
            OSError: the disk refuses, or another process was faster.
        """
        first, *others = dict.fromkeys(map(self._path, owners))
        for path in (first, *others):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._clear(path)
        staged.rename(first)
        for path in others:
            path.symlink_to(os.path.relpath(first, path.parent))

    def drop(self, owners: Iterable[Owner]) -> None:
        """Forget the failures of the owners: their nodes are finished."""
        if kept := set(self.kept()):
            for path in kept.intersection(map(self._path, owners)):
                with suppress(OSError):
                    self._clear(path)

    def kept(self) -> list[Path]:
        """Every folder, and every link to one."""
        return sorted(self._root.glob("*/*"))

    def linked(self, rubbish: Collection[Path] = ()) -> Iterator[Digest]:
        """The objects that are inputs of what is kept, for `mobuild shell` runs it again; `rubbish` does not count."""
        for folder in self.kept():
            if folder in rubbish or folder.is_symlink():
                continue
            with suppress(FileNotFoundError):  # the node was built meanwhile, and nothing of it is kept any more
                targets = [path.readlink() for path in folder.glob("in/*") if path.is_symlink()]
                yield from (Digest(target.parent.name + target.name) for target in targets)

    def _clear(self, path: Path) -> None:
        if path.is_symlink():
            path.unlink()
        elif path.exists():  # renamed first, so that nobody finds half a folder
            folder = Path(tempfile.mkdtemp(prefix="failed-", dir=self._staging))
            path.rename(folder / "old")
            shutil.rmtree(folder, ignore_errors=True)

    def _path(self, owner: Owner) -> Path:
        # Digests, for the same reasons as with refs.
        return (
            self._root / folder_of(owner.project) / digest_bytes(canonical([owner.recipe, owner.variant, owner.node]))
        )
