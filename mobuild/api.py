"""The Python API: what the command line does, for notebooks and scripts.

Leaves Hydra's singletons, `sys.argv` and the logging configuration as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.config.compose import hydra_for
from mobuild.config.entry import compose_job
from mobuild.config.overrides import complete, take_apart
from mobuild.config.project import find_project
from mobuild.errors import MobuildError, NodeFailed
from mobuild.report.artifacts import Placed
from mobuild.results import Run
from mobuild.verbs.build import run


@dataclass(frozen=True)
class Built:
    """What `build` made. `path` is the artifact of the only target, for which this can stand; `paths` has all."""

    paths: dict[str, Path]
    run: Run

    @property
    def path(self) -> Path:
        if len(self.paths) != 1:
            raise ValueError(f"{len(self.paths)} targets were built ({', '.join(self.paths)}): use .paths[name]")
        return next(iter(self.paths.values()))

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Built({', '.join(f'{name}: {path}' for name, path in self.paths.items())})"


def build(target: str | Sequence[str] = "engine", *, project: Path | str | None = None, **overrides: Any) -> Built:
    """Build one or several targets; keyword arguments are overrides (`hardware="l20"`).

    A key with a dot goes in a mapping: `build("onnx", **{"nodes.onnx.opset": 18})`.

    Raises:
        MobuildError: the request was not understood, or a node failed; the first error of the run.
    """
    names = target if isinstance(target, str) else f"[{','.join(target)}]"
    words = [f"target={names}", *(f"{key}={_text(value)}" for key, value in overrides.items())]
    found = find_project(Path(project) if project else Path.cwd())
    with hydra_for(found):
        job = compose_job(complete(take_apart(words), found), found)
    done, placed, refused = run([job], lambda error: None)  # raised instead of printed
    _raise(done, refused)
    assert done
    return Built(_paths(placed), done)


def _raise(done: Run | None, refused: Sequence[MobuildError]) -> None:
    failed = [result.error for result in done.results.values() if result.error] if done else []
    errors = [*refused, *failed, *(done.misses() if done else ())]
    if errors:
        raise errors[0]
    if done is None or done.status:
        raise NodeFailed("the build did not finish")


def _paths(placed: Sequence[Placed]) -> dict[str, Path]:
    return {one.node: one.path for one in placed}


def _text(value: Any) -> str:
    """A Python value in Hydra's grammar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_text(item) for item in value) + "]"
    return str(value)
