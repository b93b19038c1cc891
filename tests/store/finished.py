"""A finished build's record, to change and to store."""

from __future__ import annotations

import dataclasses

from mobuild.fingerprint import Digest, Fingerprint
from mobuild.store import Artifact, Record

FINGERPRINT = Fingerprint("export", 1, {"opset": 20, "shapes": [1, 2]}, {"weights": "ab" * 16}, {}, {"onnx": "1.23.2"})


def record(**changes: object) -> Record:
    plain = Record(
        key=FINGERPRINT.key,
        fingerprint=FINGERPRINT,
        artifact=Artifact(Digest("cd" * 16), "ef" * 32, 7, is_folder=False),
        suffix=".onnx",
        seconds=1.5,
        measurements={"parity": {"max_abs": float("inf")}},
        onnx={"opset": 20},
        warnings=("reads vocabulary.txt, which no field names",),
        conditions=(),
        observed_by=("audit",),
        log=None,
        peak_rss_mib=12.5,
        created="2026-01-02T03:04:05Z",
        seen={"host": "a"},
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]
