"""Is the calibration data of the same kind as the evaluation data, and are they apart?

Accuracy cannot tell: a set that was calibrated on looks better than it is, and one of another kind worse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mobuild.data.manifest import distance, overlap


def warnings(calibration: Path, evaluation: Mapping[str, Any]) -> list[str]:
    """Sentences about both manifests; `calibration` is the file of the one."""
    if not evaluation:
        return []
    manifest = json.loads(calibration.read_text(encoding="utf-8"))
    found = list(distance(manifest, evaluation))
    shared = overlap(manifest, evaluation)
    if shared:
        found.append(
            f"{shared} of {evaluation['count']} evaluation samples are calibration samples as well: the accuracy "
            "looks better than it is"
        )
    return found
