"""Debian packages as files of an image: an own reader of .deb (deb(5): ar with tars), pruned by allow lists.

No maintainer script runs, and no dpkg is needed. What lies in /lib or /bin comes to /usr, as Debian 12 has it.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Callable, Iterable, Iterator, Mapping, Sequence

from mobuild.errors import SourceError, ToolchainError
from mobuild.image.tree import Entry, Tree, plain

PYTHON = "3.11"
BASE = (
    *("base-files", "libc6", "libgcc-s1", "libstdc++6", "zlib1g"),
    *("libexpat1", "libffi8", "liblzma5", "libbz2-1.0"),
)
PYTHONS = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib")
SSL = ("libssl3",)

_LIBRARY = "usr/lib/*-linux-gnu/"
_BESIDE_LIBC = ("libgcc_s", "libstdc++", "libz", "libexpat", "libffi", "liblzma", "libbz2", "libssl", "libcrypto")
_BASE_KEPT = (
    *("usr/lib/os-release", "etc/os-release", "etc/debian_version", "etc/host.conf"),
    *("usr/share/common-licenses/*", "usr/share/doc/*/copyright", "usr/lib64/ld-*.so.*", "usr/lib/ld-*.so.*"),
    *(f"{_LIBRARY}{name}.so*" for name in ("ld-*", "libc", "libm", "libmvec", "libdl", "libpthread", "librt")),
    *(f"{_LIBRARY}{name}.so*" for name in ("libutil", "libresolv", "libnss_dns", "libnss_files", *_BESIDE_LIBC)),
)
_PYTHON_KEPT = ("usr/bin/python3.11", "usr/lib/python3.11/*", "usr/share/doc/*/copyright")
_STDLIB = "usr/lib/python3.11/"
# Tools for people at a terminal, mailboxes, sound files: no server imports them.
_UNSERVED = """
_pyio aifc antigravity doctest imaplib mailbox nntplib pickletools poplib pyclbr rlcompleter smtpd sndhdr sunau tabnanny
telnetlib this trace
"""
_PYTHON_DROPPED = (
    *(f"{_STDLIB}{name}/*" for name in ("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "venv")),
    *(f"{_STDLIB}{name}/*" for name in ("pydoc_data", "distutils", "unittest/test", "config-*", "sqlite3", "curses")),
    *(f"{_STDLIB}{name}/*" for name in ("dbm", "wsgiref", "xmlrpc")),
    *(f"{_STDLIB}lib-dynload/{name}.*" for name in ("_sqlite3", "_curses*", "_dbm", "nis", "readline", "_uuid")),
    *(f"{_STDLIB}lib-dynload/{name}.*" for name in ("_crypt", "_test*", "_ctypes_test", "_xxtestfuzz", "xx*")),
    *(
        f"{_STDLIB}{name}"
        for name in ("sitecustomize.py", "turtle.py", "_pydecimal.py", "pydoc.py", "EXTERNALLY-MANAGED")
    ),
    *(f"{_STDLIB}{name}.py" for name in _UNSERVED.split()),
)
_SSL_MODULES = (f"{_STDLIB}lib-dynload/_ssl.*", f"{_STDLIB}lib-dynload/_hashlib.*")
_MOVED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_USERS = "root:x:0:0:root:/root:/usr/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/usr/sbin/nologin\n"
_GROUPS = "root:x:0:\nnonroot:x:65532:\n"
_NAMES = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"


def base(debs: Iterable[Path]) -> Tree:
    """The lowest layer: libc, what Python's modules and wheels link, accounts, names, empty mount points."""
    tree = Tree()
    unpack(debs, tree, lambda path: _is_any(path, _BASE_KEPT))
    for name in ("bin", "lib", "lib64", "sbin"):
        tree.folder(f"usr/{name}")
        tree.link(name, f"usr/{name}")
    for path, text in (("etc/passwd", _USERS), ("etc/group", _GROUPS), ("etc/nsswitch.conf", _NAMES)):
        tree.file(path, text.encode())
    for name in ("proc", "sys", "dev", "root", "run"):
        tree.folder(name)
    tree.folder("tmp", 0o1777)
    return tree


def libraries(debs: Iterable[Path]) -> Tree:
    """What Python and wheels link beside libc, for a base that has its own."""
    tree = Tree()
    named = tuple(f"{_LIBRARY}{name}.so*" for name in _BESIDE_LIBC)
    unpack(debs, tree, lambda path: _is_any(path, named))
    return tree


def python(debs: Iterable[Path], ssl: bool = False) -> Tree:
    """The interpreter and as much of its library as a server needs."""
    dropped = (*_PYTHON_DROPPED, *(() if ssl else _SSL_MODULES))
    tree = Tree()
    unpack(debs, tree, lambda path: _is_any(path, _PYTHON_KEPT) and not _is_any(path, dropped))
    tree.link("usr/bin/python3", "python3.11")
    return tree


def unpack(debs: Iterable[Path], tree: Tree, keeps: Callable[[str], bool]) -> None:
    """Add the files of the packages that `keeps` says yes to; folders come with them."""
    for deb in debs:
        for entry in entries(deb):
            if entry.is_folder or not keeps(entry.path):
                continue
            if entry.target:
                tree.link(entry.path, entry.target)
            else:
                assert entry.content is not None
                tree.file(entry.path, entry.content, bool(entry.mode & 0o100))


def entries(deb: Path) -> Iterator[Entry]:
    """What a package installs, under the paths of a merged /usr.

    Raises:
        SourceError: the file is no package.
        ToolchainError: it is packed with zstd, and `zstandard` is not installed.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(_data(deb))) as archive:
            for member in archive:
                if member.name.strip("./"):
                    yield _entry(archive, member)
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError, ValueError) as error:
        raise SourceError(f"Debian package '{deb}': cannot be read: {error}") from error


def _entry(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    path = _merged(plain(member.name))
    if member.isdir():
        return Entry(path, 0o755)
    if member.issym():
        return Entry(path, 0o777, target=member.linkname)
    stream = archive.extractfile(member)  # follows hard links
    if stream is None:
        raise ValueError(f"{member.name!r} is neither a file nor a link")
    return Entry(path, member.mode, stream.read())


def _merged(path: str) -> str:
    return f"usr/{path}" if path.split("/")[0] in _MOVED else path


def _data(deb: Path) -> bytes:
    """The tar with the files."""
    raw = deb.read_bytes()
    if not raw.startswith(b"!<arch>\n"):
        raise ValueError("it is no ar archive")
    place = 8
    while place + 60 <= len(raw):
        name, size = raw[place : place + 16].decode().strip().rstrip("/"), int(raw[place + 48 : place + 58])
        place += 60
        if name.startswith("data.tar"):
            return _unpacked(name, raw[place : place + size])
        place += size + size % 2
    raise ValueError("it holds no data.tar")


# Layers that are written in one process have packages in common; all of them plain are 45 MB.
@functools.lru_cache(maxsize=len((*BASE, *PYTHONS, *SSL)))
def _unpacked(name: str, data: bytes) -> bytes:
    if name.endswith(".zst"):
        try:
            import zstandard
        except ImportError as error:
            raise ToolchainError("Debian package: is packed with zstd", "pip install zstandard") from error
        return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(data))
    openers: Mapping[str, Callable[[bytes], bytes]] = {
        ".xz": lzma.decompress,
        ".gz": gzip.decompress,
        ".bz2": bz2.decompress,
        ".tar": bytes,
    }
    return openers[Path(name).suffix](data)


def _is_any(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
