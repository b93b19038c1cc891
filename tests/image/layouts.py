"""Small trees and OCI layouts for tests, made with the standard library alone."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

_PROGRAM = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "exit")) return atoi(words[2]);
    if (count > 1 && !strcmp(words[1], "wait")) { puts("waiting"); fflush(stdout); for (;;) pause(); }
    printf("uid %d gid %d\n", getuid(), getgid());
    for (char **each = environ; *each; each++) printf("env %s\n", *each);
    printf("root is %s\n", fopen("/x", "w") ? "writable" : "read-only");
    printf("tmp is %s\n", fopen("/tmp/x", "w") ? "writable" : "read-only");
    printf("proc is %s\n", access("/proc/self", F_OK) ? "missing" : "there");
    int port = count > 2 ? atoi(words[2]) : 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int connected = !connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof to);
    printf("network is %s\n", connected ? "there" : "missing");
    return 0;
}
"""


def program_tree(root: Path) -> Path:
    """A tree with one static program, /bin/tell, which tells what it can do; skips where none can be made."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc to make a program with")
    for name in ("bin", "proc", "dev", "sys", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    code = root.parent / "tell.c"
    code.write_text(_PROGRAM)
    made = subprocess.run(["gcc", "-static", "-o", str(root / "bin/tell"), str(code)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no static program can be made: {made.stderr.splitlines()[-1]}")
    return root


def tar(root: Path) -> bytes:
    """All below `root` as a plain tar, in order, without times and owners."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            entry = archive.gettarinfo(path, path.relative_to(root).as_posix())
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            with open(path, "rb") if entry.isreg() else io.BytesIO() as file:
                archive.addfile(entry, file)
    return raw.getvalue()


def layout(
    folder: Path, layers: Sequence[bytes], name: str = "latest", environment: Mapping[str, str] | None = None
) -> str:
    """Write plain tars as the layers of an image; its manifest's digest."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def put(raw: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(raw).hexdigest()
        (blobs / digest).write_bytes(raw)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(raw)}

    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [f"{key}={value}" for key, value in (environment or {}).items()], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(raw).hexdigest()}" for raw in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": put(json.dumps(config).encode(), "config.v1+json"),
        "layers": [put(gzip.compress(raw, mtime=0), "layer.v1.tar+gzip") for raw in layers],
    }
    entry = put(json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": name}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(entry["digest"])
