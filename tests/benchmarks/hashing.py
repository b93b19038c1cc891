"""Large files beside what the machine can do: hash an input, look at it again, publish and materialise an artifact.

    python tests/benchmarks/hashing.py [GIB]

Wall seconds, minima of three, with everything written before each. Works in a temporary store; needs room for four
such files.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import xxhash
from measures import Row, show

from mobuild.fingerprint import digest_file
from mobuild.sources import local_digest
from mobuild.store import Store
from mobuild.store.stat_cache import StatCache

_CHUNK = 1 << 20


def main(gib: float) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, file = Path(place), Path(place, "file")
        _write(file, int(gib * 2**30))
        store, caches = Store.open(folder / "cache"), iter(range(100))

        def cached() -> StatCache:
            return StatCache(folder / f"files-{next(caches)}.sqlite")

        mapped = _seconds(lambda: _mapped(file))
        read = _seconds(lambda: _read(file, xxhash.xxh3_128()))
        strong = _seconds(lambda: _read(file, hashlib.sha256()))
        whole = _seconds(lambda: digest_file(file))
        known = cached()
        first = _seconds(lambda: local_digest(file, cached()))
        local_digest(file, known)
        again = _seconds(lambda: local_digest(file, known))
        file.touch()
        time.sleep(0.2)  # a file that changed this instant is hashed again each time
        touched = _once(lambda: local_digest(file, known))
        after = _seconds(lambda: local_digest(file, known))
        cp = _seconds(lambda: _cp(file, folder / "copy"))
        copied = _seconds(lambda: _publish(file, folder / "store"))
        staged = min(_staged(file, folder / "store") for _ in range(3))
        artifact = store.objects.publish(file)
        out = folder / "out"
        placed = _seconds(lambda: (out.unlink(missing_ok=True), store.objects.materialise(artifact.digest, out)))
    show(
        [
            Row("XXH3 by reading, beside XXH3 of a mapped file", read, "s", mapped),
            Row("digest of a file, beside XXH3 by reading", whole, "s", read, "1.1"),
            Row("first look at an input, beside XXH3 by reading", first, "s", read, "1.1"),
            Row("second look at it", again * 1000, "ms", None, "1 ms"),
            Row("look after a touch, beside XXH3 by reading", touched, "s", read, "1.1"),
            Row("look after that", after * 1000, "ms", None, "1 ms"),
            Row("SHA-256 alone, beside cp and sync", strong, "s", cp),
            Row("publish a node's output, beside the same", staged, "s", cp, "1.05"),
            Row("publish a copy of a file, beside the same", copied, "s", cp, "1.05"),
            Row("materialise, beside the same", placed, "s", cp, "1.05"),
        ]
    )


def _write(file: Path, size_bytes: int) -> None:
    block = os.urandom(_CHUNK)
    with open(file, "wb") as stream:
        for _ in range(size_bytes // _CHUNK):
            stream.write(block)


def _seconds(work: Callable[[], object]) -> float:
    return min(_once(work) for _ in range(3))


def _once(work: Callable[[], object]) -> float:
    os.sync()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _mapped(file: Path) -> None:
    with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
        xxhash.xxh3_128(view).hexdigest()


def _read(file: Path, state: object) -> None:
    buffer = memoryview(bytearray(_CHUNK))
    with open(file, "rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            state.update(buffer[:count])  # type: ignore[attr-defined]


def _cp(file: Path, copy: Path) -> None:
    subprocess.run(["cp", file, copy], check=True)
    subprocess.run(["sync", copy], check=True)
    copy.unlink()


def _publish(file: Path, cache: Path) -> None:
    Store.open(cache).objects.publish(file)
    shutil.rmtree(cache)


def _staged(file: Path, cache: Path) -> float:
    store = Store.open(cache)
    output = shutil.copyfile(file, store.staging() / "out")
    begun = time.perf_counter()
    store.objects.publish(output)
    seconds = time.perf_counter() - begun
    shutil.rmtree(cache)
    return seconds


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 4)
