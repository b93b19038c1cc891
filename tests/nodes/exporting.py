"""Exports of the networks beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mobuild.nodes.export import Export

HERE = Path(__file__).parent


def export(out: Path, network: str, inputs: dict[str, Any], weights: Path | None = None, **fields: Any) -> Any:
    node = Export(model=f"networks.py:{network}", inputs=inputs, **fields)
    return node.build({"weights": weights} if weights else {}, out)
