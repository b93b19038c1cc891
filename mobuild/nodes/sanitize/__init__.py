"""Kind `sanitize`: the same model with a cleaner graph, or the same graph when no tool makes it better.

Simplifiers crash, grow graphs and freeze axes. So each tool's result is judged against its input and
dropped, with a warning, when it is no improvement; the model is never worse for having been here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import libraries, onnxmodel, parity
from mobuild.errors import ConfigError, NodeFailed, did_you_mean
from mobuild.node import Built
from mobuild.nodes.sanitize import judge, tools
from mobuild.onnxmodel import custom
from mobuild.onnxmodel.feeds import check_range
from mobuild.onnxmodel.files import save_beside
from mobuild.onnxmodel.summary import write_ranges

_SWITCHES = {"shape inference": "infer_shapes", "polygraphy": "fold", "onnxsim": "simplify"}


@dataclass(frozen=True)
class Sanitize:
    """Infer shapes, fold constants with Polygraphy, simplify with onnxsim: each can be switched off.

    `ranges` (input → [low, high]) says which values the inputs of a foreign model take; it is kept in the
    model's metadata. `sizes` (axis → size) chooses the sizes at which results are compared. `raw` is
    `{polygraphy: {...}, onnxsim: {...}}`, arguments for `fold_constants` and `simplify`, unchecked.
    """

    kind: ClassVar[str] = "sanitize"
    revision: ClassVar[int] = 4
    isolated: ClassVar[bool] = False

    infer_shapes: bool = True
    fold: bool = True
    simplify: bool = True
    ranges: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    absolute_tolerance: float = parity.ABSOLUTE
    relative_tolerance: float = parity.RELATIVE

    def __post_init__(self) -> None:
        for name in self.raw:
            if name not in tools.OPTIONED:
                raise ConfigError(
                    f"raw: {name!r} is no tool of this node.{did_you_mean(name, tools.OPTIONED)}",
                    f"tools: {', '.join(tools.OPTIONED)}; write raw: {{onnxsim: {{...}}}}",
                )
        for name, limits in self.ranges.items():
            try:
                check_range(limits)
            except ConfigError as error:
                raise ConfigError(f"ranges: input {name!r}: {error.message}", error.hint) from error

    @property
    def suffix(self) -> str:
        return ".onnx"

    @property
    def tools(self) -> tuple[str, ...]:
        return ("onnx", "onnxsim", "polygraphy", "onnx-graphsurgeon", "onnxruntime", "numpy")

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".sanitize-") as folder:
            scratch = Path(folder)
            start = onnxmodel.plain_files(inputs["model"], scratch)
            _assert_inputs(self.ranges, onnxmodel.summary(start))
            operators = tuple(libraries.given(inputs).values())
            start = custom.typed(start, scratch, operators)
            before = judge.look(start, self.ranges, self.sizes, operators)
            best, applied, warnings = self._improve(start, before, scratch)
            measured = self._finish(best, before, out)
        return Built(
            measurements={**measured, "tools": ", ".join(applied), "nodes_before": before.summary["nodes"]},
            onnx=onnxmodel.summary(out),
            warnings=warnings,
        )

    def _improve(self, start: Path, before: judge.Look, scratch: Path) -> tuple[Path, list[str], list[str]]:
        best, now = start, before
        applied: list[str] = []
        warnings = [before.why_not_run] if before.why_not_run else []
        for name, tool in tools.TOOLS.items():
            if not getattr(self, _SWITCHES[name]):
                continue
            candidate = scratch / name.replace(" ", "-")
            options = self.raw.get(name, {})
            problem = tools.attempt(tool, best, candidate, options)
            if not problem:
                found = judge.again(candidate, now)
                self._assert_axes_stay(name, options, now, found)
                problem = judge.worse(found, now, self.absolute_tolerance, self.relative_tolerance)
            if problem:
                warnings.append(f"{name}: {problem}{judge.suspects(now)}; the graph before it is kept")
            else:
                best, now = candidate, found
                applied.append(name)
        return best, applied, warnings

    def _assert_axes_stay(self, name: str, options: Any, before: judge.Look, after: judge.Look) -> None:
        """What the user's own options freeze is an error; what a tool freezes by itself is dropped."""
        lost = judge.lost_axis(before, after)
        if lost and options:
            tensor, axis, value = lost
            raise NodeFailed(
                f"{name}: axis {axis!r} of input {tensor!r} became {value}, by the options in raw.{name}",
                "an engine of this model would take no other size; remove the shape override (shapes for "
                "tests only: test_input_shapes), or export the axis with a fixed size",
            )

    def _finish(self, best: Path, before: judge.Look, out: Path) -> dict[str, Any]:
        model = onnxmodel.load(best, external_data=False)
        judge.name_axes(model)
        onnxmodel.strip(model)
        write_ranges(model, {**before.summary["ranges"], **self.ranges})  # tools drop the metadata
        save_beside(model, onnxmodel.model_file(best), out)
        after = judge.again(out, before)
        return judge.differences(after, before, self.absolute_tolerance, self.relative_tolerance)


def _assert_inputs(ranges: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    names = [each["name"] for each in summary["inputs"]]
    for name in ranges:
        if name not in names:
            raise NodeFailed(
                f"ranges: {name!r} is no input of the model.{did_you_mean(name, names)}",
                f"inputs: {', '.join(names)}",
            )
