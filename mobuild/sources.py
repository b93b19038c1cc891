"""What a local source is: the digest of a file, a folder, or an ONNX model with its external data.

Local sources are used in place. Their names and places are not content: a project moved elsewhere has the
same digests. `fetch` and `nodes.source` care for remote files; the planner reads digests here on every
run, so everything goes through the stat cache.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from mobuild import onnx_external
from mobuild.errors import SourceError, did_you_mean
from mobuild.fetch import placeholders
from mobuild.fingerprint import Digest, canonical, digest_bytes
from mobuild.store import listing, reflink
from mobuild.store.stat_cache import StatCache, token

_LEFT_OUT = (".git", "__pycache__", "*.swp", "*~", ".DS_Store")
_REMOTE = "\na remote one is written https://…, s3://…, gs://…, az://… or hf:org/name/file"
_NEVER_EMPTY = (".bin", ".ckpt", ".gguf", ".npy", ".npz", ".onnx", ".pt", ".pth", ".safetensors")


@dataclass(frozen=True)
class SourceContent:
    """A local source as it is now."""

    main: Path  # the folder, the file, or the model of an ONNX bundle
    digest: Digest
    size_bytes: int
    files: Mapping[str, Path]  # every file that counts, by its name in the folder or bundle
    digests: Mapping[str, Digest]  # of the same files
    is_folder: bool
    others: Mapping[str, str] = field(default_factory=dict)
    """What else a listing shows: empty folders (`name/` → nothing), links to nothing or upwards (name → `link`)."""

    @property
    def listed(self) -> Mapping[str, str]:
        """All that its digest is made of, by name; empty for what is no folder."""
        return {**self.digests, **self.others} if self.is_folder else {}

    def tokens(self) -> tuple[str, ...]:
        """The stat tokens of the files as they are now; whoever wrote to one of them changed its token.

        Raises:
            SourceError: one of them is gone.
        """
        try:
            return tuple(token(path.stat()) for path in self.files.values())
        except OSError as error:
            raise SourceError(f"source '{error.filename}': cannot be read: {error.strerror}") from error


def local_digest(path: Path, files: StatCache, said_by: str = "uri: … in the recipe") -> SourceContent:
    """The content of the local source at `path`, which stands in `said_by`.

    A folder has the digest that the store would give it, unless it shows what the store does not keep (`others`); a
    model without external data that of its file.

    Raises:
        SourceError: it is missing, unreadable, a placeholder for the real file, or incomplete.
    """
    try:
        if path.is_dir():
            return _folder(path, files)
        _check_file(path, said_by)
        data = onnx_external.files(path) if onnx_external.is_model(path) else {}
        return _bundle(path, data, files) if data else _file(path, files)
    except OSError as error:
        raise SourceError(f"source '{error.filename or path}': cannot be read: {error.strerror}") from error


def stage(content: SourceContent, destination: Path) -> Path:
    """The path that a tool should read: the source itself, or a real copy in the new folder `destination`.

    onnx and ONNX Runtime refuse external data that is reached by a symbolic or hard link, so a bundle
    with links is copied (sharing blocks where the file system can); everything else is used in place.
    """
    if content.is_folder or len(content.files) == 1 or not _has_links(content):
        return content.main
    try:
        for name, path in content.files.items():
            (destination / name).parent.mkdir(parents=True, exist_ok=True)
            reflink.copy(path, destination / name)
    except OSError as error:
        raise SourceError(
            f"source '{content.main}': cannot be copied to '{destination}': {error.strerror}",
            "make room there, or put real files in place of the links",
        ) from error
    return destination / content.main.name


def _file(path: Path, files: StatCache) -> SourceContent:
    digest, name = files.digest(path), path.name
    return SourceContent(path, digest, path.stat().st_size, {name: path}, {name: digest}, is_folder=False)


def _bundle(model: Path, data: Mapping[str, Path], files: StatCache) -> SourceContent:
    if not all((model.parent / name).exists() for name in data):
        model = model.resolve()  # a link to a model whose data lies beside the real file
    for name, path in data.items():
        _check_no_placeholder(path)
        if name == model.name:
            raise SourceError(f"ONNX file '{model}': names itself as its external data")
    digests = {name: files.digest(path) for name, path in data.items()}
    first = files.digest(model)
    digest = digest_bytes(canonical({"model": first, "external_data": digests}))
    everything = {model.name: model, **data}
    size_bytes = sum(path.stat().st_size for path in everything.values())
    return SourceContent(model, digest, size_bytes, everything, {model.name: first, **digests}, is_folder=False)


def _folder(folder: Path, files: StatCache) -> SourceContent:
    shown = dict(sorted(_walk(folder, "", (folder.resolve(),))))
    found = {name: path for name, path in shown.items() if path.is_file()}
    others = {name: "" if name.endswith("/") else "link" for name in shown.keys() - found.keys()}
    members = {name: _member(path, files) for name, path in found.items()}
    size_bytes = sum(member.size_bytes for member in members.values())
    digests = {name: member.digest for name, member in members.items()}
    digest = digest_bytes(listing.encode(members))
    if others:
        digest = digest_bytes(canonical({"files": digest, "others": others}))
    return SourceContent(folder, digest, size_bytes, found, digests, is_folder=True, others=others)


def _member(path: Path, files: StatCache) -> listing.Member:
    seen = path.stat()
    if seen.st_size < placeholders.LFS_MAXIMUM_BYTES:
        _check_no_pointer(path)
    return listing.Member(files.digest(path), seen.st_size, bool(seen.st_mode & stat.S_IXUSR))


def _walk(folder: Path, prefix: str, above: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    """(name, path) of all that a listing shows and that counts: files, empty folders (`name/`), links that lead to
    nothing or upwards; `above` are the real folders on the way down."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path, name = Path(entry.path), prefix + entry.name
        if any(fnmatch(entry.name, pattern) for pattern in _LEFT_OUT):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from list(_walk(path, name + "/", (*above, path.resolve()))) or [(name + "/", path)]
        elif path.is_dir():  # of pathlib, for which a link to itself is no folder, and no error
            _check_loop(path, above)
            yield name, path
        elif path.is_file() or entry.is_symlink():
            yield name, path
        else:
            raise SourceError(
                f"source '{path}': is neither a file nor a folder", "take it out of the folder, which is read whole"
            )


def _check_loop(link: Path, above: tuple[Path, ...]) -> None:
    # A link upwards adds no files that are not counted. Another one would add files that tools see, uncounted.
    if link.resolve() not in above:
        raise SourceError(
            f"source '{link}': is a link to a folder, which is not followed",
            f"name '{link.resolve()}' as a source of its own, or put the folder in place of the link",
        )


def _check_file(path: Path, said_by: str) -> None:
    if path.is_symlink() and not path.exists():
        raise SourceError(
            f"source '{path}': is a link to '{path.readlink()}', which leads to no file",
            f"put the file there, let the link lead to it, or write where it is: {said_by}",
        )
    if not path.exists():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise SourceError(
            f"source '{path}': there is no such file.{did_you_mean(path.name, siblings)}",
            f"put it there, or write where it is: {said_by}" + (_REMOTE if ":" in str(path) else ""),
        )
    if not path.is_file():
        raise SourceError(
            f"source '{path}': is neither a file nor a folder",
            f"write its content into a file (cat '{path}' > file), and name that: {said_by}",
        )
    _check_no_placeholder(path)


def _check_no_placeholder(path: Path) -> None:
    start = _start(path)
    if not start and path.suffix.lower() in _NEVER_EMPTY:
        raise placeholders.empty(str(path), is_remote=False)
    placeholders.check(str(path), start, path.suffix, is_remote=False)


def _check_no_pointer(path: Path) -> None:
    placeholders.check_pointer(str(path), _start(path), is_remote=False)


def _start(path: Path) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(placeholders.START_BYTES)


def _has_links(content: SourceContent) -> bool:
    folder = content.main.parent
    return any(
        path.is_symlink() or path.stat().st_nlink > 1 or path.resolve() != folder.resolve() / name
        for name, path in content.files.items()
    )
