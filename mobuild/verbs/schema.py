"""`mobuild schema`: a JSON Schema of the project's recipes and hardware files, for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def show(document: Mapping[str, Any]) -> int:
    """Print it; the same project gives the same bytes."""
    print(json.dumps(document, indent=2, ensure_ascii=False))
    return 0
