"""Kind `rewrite`: changes to a graph, by rules of ours or by a hook of the user's, proven to leave its numbers alone.

What `sanitize` drops when it is no improvement was asked for here, so a change that shows outside is an error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import hooks, libraries, onnxmodel, parity
from mobuild.errors import ConfigError, NodeFailed, did_you_mean
from mobuild.node import Built, user_code
from mobuild.nodes.rewrite.rules import RULES, apply
from mobuild.nodes.sanitize import judge
from mobuild.onnxmodel.summary import write_ranges

_FORM = "hook(model: onnx.ModelProto) → the model, or nothing when it is changed in place"


@dataclass(frozen=True)
class Rewrite:
    """Change the model by `rules` (see `rules.RULES`) and then by `hook(model)`.

    `ranges` (input → [low, high]) says which values the inputs of a foreign model take; `sizes` (axis → size) chooses
    the sizes at which the results are compared.
    """

    kind: ClassVar[str] = "rewrite"
    revision: ClassVar[int] = 3
    isolated: ClassVar[bool] = True
    suffix: ClassVar[str] = ".onnx"
    tools: ClassVar[tuple[str, ...]] = ("onnx", "onnxruntime", "numpy")

    rules: Sequence[str] = ()
    hook: str = user_code("")
    ranges: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    absolute_tolerance: float = parity.ABSOLUTE
    relative_tolerance: float = parity.RELATIVE

    def __post_init__(self) -> None:
        for name in self.rules:
            if name not in RULES:
                raise ConfigError(
                    f"rules: there is no rule {name!r}.{did_you_mean(str(name), RULES)}", f"rules: {', '.join(RULES)}"
                )
        if not (self.rules or self.hook):
            raise ConfigError(
                "expected rules or a hook, found neither",
                f'write rules: [{", ".join(RULES)}], or hook: "file.py:function"',
            )

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".rewrite-") as folder:
            start = onnxmodel.plain_files(inputs["model"], Path(folder))
            before = judge.look(start, self.ranges, self.sizes, tuple(libraries.given(inputs).values()))
            model = onnxmodel.load(start)
            applied = apply(model, self.rules)
            model = self._rewritten(model, inputs)
        onnxmodel.strip(model)
        write_ranges(model, {**before.summary["ranges"], **self.ranges})
        onnxmodel.save(model, out)
        measured = self._proof(out, before)
        warnings = [f"what it computes is not compared: {before.why_not_run}"] if before.why_not_run else []
        warnings += [f"rule {name!r} found nothing to rewrite" for name, count in applied.items() if not count]
        measurements = {**measured, "rules": applied, "nodes_before": before.summary["nodes"]}
        return Built(measurements, onnxmodel.summary(out), warnings)

    def _rewritten(self, model: Any, inputs: Mapping[str, Path]) -> Any:
        import onnx

        if not self.hook:
            return model
        made = hooks.call(self.hook, _FORM, model, inputs=inputs)
        if made is not None and not isinstance(made, onnx.ModelProto):
            raise hooks.unexpected(self.hook, "an onnx.ModelProto", made, _FORM)
        return model if made is None else made

    @property
    def _who(self) -> str:
        return f"hook {self.hook!r}" if self.hook else f"rules {', '.join(self.rules)}"

    def _proof(self, out: Path, before: judge.Look) -> dict[str, float]:
        """The largest differences from the model before.

        Raises:
            NodeFailed: the model looks or computes otherwise than before; names the hook or the rules.
        """
        after = judge.again(out, before)
        if changed := judge.changed_outside(after, before):
            raise NodeFailed(f"{self._who}: {changed}", "whoever runs the model relies on these")
        try:
            return judge.differences(after, before, self.absolute_tolerance, self.relative_tolerance)
        except NodeFailed as error:
            raise NodeFailed(f"{self._who}: the model differs from that before: {error.message}", error.hint) from error
