"""Large files beside what the machine can do: hash an input, look at it again, publish and materialise an artifact.

    python tests/benchmarks/hashing.py [GIB]

Wall seconds with everything written before each: minima of three where the disk has no part, else medians of six.
Works in a temporary store; needs room for four such files.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import random
import shutil
import statistics
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
_ROUNDS = 6


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
        artifact = store.objects.publish(file)
        works: list[Callable[[Path], float]] = [
            lambda out: _once(lambda: _cp(file, out)),
            lambda out: _once(lambda: Store.open(out).objects.publish(file)),
            lambda out: _staged(file, out),
            lambda out: _once(lambda: store.objects.materialise(artifact.digest, out)),
        ]
        took: list[list[float]] = [[] for _ in works]
        order = random.Random(1)  # a disk that has just taken much takes less, so none always comes after the same
        for _ in range(_ROUNDS):
            for which in order.sample(range(len(works)), len(works)):
                took[which].append(works[which](folder / "made"))
                _remove(folder / "made")  # which is not counted
        cp, copied, staged, placed = map(statistics.median, took)
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


def _staged(file: Path, cache: Path) -> float:
    store = Store.open(cache)
    output = shutil.copyfile(file, store.staging() / "out")
    begun = time.perf_counter()
    store.objects.publish(output)
    return time.perf_counter() - begun


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 4)
