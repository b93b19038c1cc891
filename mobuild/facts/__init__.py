"""What vendors support, as data: YAML files with a source and a confidence in every row.

Confidence: S read in source code, D vendor documentation, M measured, K general knowledge, ? uncertain.
Rules may refuse on S, D and M, and only warn on the others. Versions are quoted. Tables end where our
knowledge ends: a newer version is unverified, never wrong.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

CERTAIN = "SDM"


@cache
def load(name: str) -> Any:
    """The content of `facts/<name>.yaml`; not to be changed by callers."""
    import yaml

    return yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"))
