"""Kind `rewrite`: the user's own changes to a graph, proven to leave its numbers as they were.

What `sanitize` drops when it is no improvement was asked for here, so a change that shows outside is an error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import hooks, libraries, onnxmodel, parity
from mobuild.errors import ConfigError, NodeFailed
from mobuild.node import Built, user_code
from mobuild.nodes.sanitize import judge
from mobuild.onnxmodel.summary import write_ranges

_FORM = "hook(model: onnx.ModelProto) → the model, or nothing when it is changed in place"


@dataclass(frozen=True)
class Rewrite:
    """Change the model by `hook(model)`.

    `ranges` (input → [low, high]) says which values the inputs of a foreign model take; `sizes` (axis → size) chooses
    the sizes at which the results are compared.
    """

    kind: ClassVar[str] = "rewrite"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = True
    suffix: ClassVar[str] = ".onnx"
    tools: ClassVar[tuple[str, ...]] = ("onnx", "onnxruntime", "numpy")

    hook: str = user_code("")
    ranges: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    absolute_tolerance: float = parity.ABSOLUTE
    relative_tolerance: float = parity.RELATIVE

    def __post_init__(self) -> None:
        if not self.hook:
            raise ConfigError("expected a hook, found none", 'write hook: "file.py:function"')

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".rewrite-") as folder:
            start = onnxmodel.plain_files(inputs["model"], Path(folder))
            before = judge.look(start, self.ranges, self.sizes, tuple(libraries.given(inputs).values()))
            model = self._rewritten(onnxmodel.load(start), inputs)
        onnxmodel.strip(model)
        write_ranges(model, {**before.summary["ranges"], **self.ranges})
        onnxmodel.save(model, out)
        measured = self._proof(out, before)
        warnings = [f"what it computes is not compared: {before.why_not_run}"] if before.why_not_run else []
        return Built({**measured, "nodes_before": before.summary["nodes"]}, onnxmodel.summary(out), warnings)

    def _rewritten(self, model: Any, inputs: Mapping[str, Path]) -> Any:
        import onnx

        made = hooks.call(self.hook, _FORM, model, inputs=inputs)
        if made is not None and not isinstance(made, onnx.ModelProto):
            raise hooks.unexpected(self.hook, "an onnx.ModelProto", made, _FORM)
        return model if made is None else made

    def _proof(self, out: Path, before: judge.Look) -> dict[str, float]:
        """The largest differences from the model before.

        Raises:
            NodeFailed: the model looks or computes otherwise than before; names the hook.
        """
        after = judge.again(out, before)
        if changed := judge.changed_outside(after, before):
            raise NodeFailed(f"hook {self.hook!r}: {changed}", "whoever runs the model relies on these")
        try:
            return judge.differences(after, before, self.absolute_tolerance, self.relative_tolerance)
        except NodeFailed as error:
            raise NodeFailed(
                f"hook {self.hook!r}: the model differs from that before: {error.message}", error.hint
            ) from error
