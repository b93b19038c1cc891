"""Native libraries that a recipe gives to its models: operators for ONNX Runtime, plugins for TensorRT.

The recipe names the nodes that make them, in `libraries` and `plugins`; the nodes that open models get them as inputs
under roles with the prefixes below, so they count by content. An engine takes along those of its own runtime, in
`libraries/` beside it, where the runtime finds them.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Iterable, Mapping

from mobuild.runtime.runner import LIBRARIES

OPERATORS, PLUGINS = "library_", "plugin_"
PREFIXES = {"libraries": OPERATORS, "plugins": PLUGINS}
"""Key of a recipe → what the roles of its libraries begin with."""


def given(inputs: Mapping[str, Path], prefix: str = OPERATORS) -> dict[str, Path]:
    """The libraries among the inputs of a node, by role, in the order in which they are loaded."""
    return {role: inputs[role] for role in sorted(inputs) if role.startswith(prefix)}


def are_among(roles: Iterable[str]) -> bool:
    """Whether a node with these roles loads native code of the user's."""
    return any(role.startswith(tuple(PREFIXES.values())) for role in roles)


def carry(engine: Path, suffix: str, libraries: Mapping[str, Path]) -> None:
    """Make the engine the folder that holds it beside its libraries; without any it stays as it is."""
    if not libraries:
        return
    if engine.is_file():
        alone = engine.rename(engine.with_name(f".{engine.name}"))
        engine.mkdir()
        alone.rename(engine / f"{'model' if suffix == '.onnx' else 'engine'}{suffix}")
    (engine / LIBRARIES).mkdir()
    for role, path in libraries.items():
        shutil.copyfile(path, engine / LIBRARIES / f"{role}.so")
