"""Kind `quantize`: the model in the precision that is asked for, in the types of its graph.

`fp32` is the model itself: no step at all. `fp16` and `bf16` rewrite types (`lowering`), save where numbers
would suffer (`sensitive`). `int8` puts Q/DQ around convolutions and matrix products (`integers`) from ranges
that calibration stored, so that quantising anew costs seconds; around them the graph is of type `rest`. A
model that is quantised already is left as it is. Whether the result is good enough is validation's business.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import libraries, onnxmodel
from mobuild.errors import ConfigError, NodeFailed, did_you_mean
from mobuild.node import Built
from mobuild.nodes.quantize import integers, lowering, ranges, sensitive
from mobuild.onnxmodel import qdq
from mobuild.onnxmodel.files import EXTERNAL_BYTES, tensor_bytes
from mobuild.onnxmodel.summary import of_model

PRECISIONS = ("fp32", "fp16", "bf16", "int8")
_LOW = {"fp16": 10, "bf16": 16}  # onnx.TensorProto.FLOAT16, BFLOAT16
_NAMES = {10: "float16", 16: "bfloat16"}
_OPERATORS = ("Conv", "MatMul", "Gemm")
_STORED = ("fp32", "int8")
_OF_INT8 = ("exclude", "per_channel", "operators", "outputs_quantized", "weights_stored", "dynamic", "raw")


@dataclass(frozen=True)
class Quantize:
    """`rest` is the precision around int8. `exclude` (names of nodes, or fnmatch patterns) keeps nodes out of
    int8; `keep_fp32` (operators, names or patterns) keeps them float32 besides those that always are.

    `outputs_quantized` quantises the outputs of matrix products too, which costs accuracy.
    `weights_stored` is `fp32`, a Q/DQ pair on each weight as TensorRT wants it, or `int8`, a smaller file.
    `dynamic` quantises weights alone, and activations while running: needs no calibration, and runs in ONNX
    Runtime only. `raw` are extra options of ONNX Runtime's quantiser, unchecked.
    """

    kind: ClassVar[str] = "quantize"
    revision: ClassVar[int] = 4
    isolated: ClassVar[bool] = False
    instead_of: ClassVar[Mapping[str, str]] = {"calibration": "precision=fp32"}  # what needs no such input

    precision: str
    rest: str = "fp32"
    exclude: Sequence[str] = ()
    per_channel: bool = True
    operators: Sequence[str] = _OPERATORS
    outputs_quantized: bool = False
    weights_stored: str = "fp32"
    dynamic: bool = False
    keep_fp32: Sequence[str] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check, and forget what this precision does not read, so that it cannot change the key."""
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("rest", self.rest, ("fp32", *_LOW))
        _one_of("weights_stored", self.weights_stored, _STORED)
        for name in ("exclude", "operators", "keep_fp32"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        if self.precision == "int8" and self.dynamic and self.rest != "fp32":
            raise ConfigError(
                f"dynamic: expected rest fp32, found {self.rest!r}: only ONNX Runtime quantises while running",
                "leave dynamic out, or use backend=onnxruntime",
            )
        unread = [] if self.precision == "int8" else [*_OF_INT8, "rest"]
        if not self._low:
            unread.append("keep_fp32")
        for spec in dataclasses.fields(self):
            if spec.name in unread:
                made = spec.default_factory() if callable(spec.default_factory) else spec.default
                object.__setattr__(self, spec.name, made)

    @property
    def suffix(self) -> str:
        return ".onnx"

    @property
    def tools(self) -> tuple[str, ...]:
        return ("onnx", "onnxruntime", "numpy") if self.precision == "int8" else ("onnx", "numpy")

    @property
    def passes_through(self) -> str:
        return "model" if self.precision == "fp32" else ""

    @property
    def unneeded(self) -> Sequence[str]:
        return () if self.precision == "int8" and not self.dynamic else ("calibration",)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(prefix=".quantize-", dir=out.parent) as folder:
            source = onnxmodel.plain_files(inputs["model"], Path(folder))
            model = _typed(onnxmodel.load(source))
            integers.name_nodes(model)
            measured: dict[str, Any] = {"precision": self.precision}
            warnings: list[str] = []
            if qdq.is_quantized(of_model(model)):
                found = qdq.counts(model)["quantize_nodes"]
                warnings.append(f"{found} Q nodes found: quantize skipped")
                if self.precision == "int8" and self._low:
                    qdq.assert_symmetric(model)
            elif self.precision == "int8":
                model = self._quantized(model, inputs, Path(folder))
            if self._low:
                model, low = self._lowered(model, warnings)
                measured.update(low)
            measured.update(qdq.counts(model))
            onnxmodel.strip(model)
            onnxmodel.save(model, out)
            _assert_loads(out, source, self._low, warnings, tuple(libraries.given(inputs).values()))
        return Built(measured, onnxmodel.summary(out), tuple(warnings))

    @property
    def _low(self) -> int:
        """The type of what is neither int8 nor kept; 0 for float32."""
        return _LOW.get(self.rest if self.precision == "int8" else self.precision, 0)

    def _quantized(self, model: Any, inputs: Mapping[str, Path], scratch: Path) -> Any:
        excluded = integers.excluded_nodes(model, self.exclude, self.operators)
        nothing = integers.why_none(model, self.operators, excluded)
        if self.dynamic:
            model = integers.dynamic(model, self.operators, excluded, self.per_channel, scratch)
        else:
            model = integers.static(
                model,
                ranges.read(inputs["calibration"]),
                self.operators,
                excluded,
                per_channel=self.per_channel,
                outputs_quantized=self.outputs_quantized,
                stores_integers=self.weights_stored == "int8",
                raw=self.raw,
            )
        if not qdq.is_quantized(of_model(model)):
            raise NodeFailed(
                f"precision int8: nothing was quantised: {nothing}",
                "name the operators to quantise with nodes.quantized.operators, exclude less, or export the model\n"
                "without control flow",
            )
        return _typed(model)

    def _lowered(self, model: Any, warnings: list[str]) -> tuple[Any, dict[str, Any]]:
        """The model with its float32 in the low type, and what of it stayed."""
        is_half = self._low == _LOW["fp16"]
        if not is_half:
            model = _typed(lowering.raise_opset(model, self._low))
        self._assert_kept_exist(model)
        lowering.name_constants(model)
        if is_half:
            sensitive.least_scales(model)
        types, opset = lowering.types_of(model), lowering.opset_of(model)
        kept = sensitive.sensitive(model, is_half, self.keep_fp32, types)
        lowered = frozenset(
            lowering.key(node)
            for node in model.graph.node
            if lowering.key(node) not in kept.nodes and lowering.can_lower(node, types, opset, self._low)
        )
        if not lowered and self._low not in types.values():
            raise NodeFailed(
                f"precision {self.precision}: no node of the graph can be rewritten to {_NAMES[self._low]}",
                "its operators take float32 only, or keep_fp32 keeps them all",
            )
        stays = Counter(
            node.op_type
            for node in model.graph.node
            if lowering.key(node) not in lowered and any(types.get(name) == 1 for name in node.output)
        )
        convert = sensitive.to_half if is_half else sensitive.to_bfloat16
        lowering.rewrite(model, lowering.Plan(self._low, opset, types, lowered, convert))
        warnings += kept.warnings
        measured = {"lowered_nodes": len(lowered), "float32_operators": dict(sorted(stays.items()))}
        return _typed(model, strict=True), measured

    def _assert_kept_exist(self, model: Any) -> None:
        for pattern in self.keep_fp32:
            if not any(sensitive.matches(node, (pattern,)) for node in model.graph.node):
                known = {node.op_type for node in model.graph.node} | {node.name for node in model.graph.node}
                raise NodeFailed(
                    f"keep_fp32: {pattern!r} matches no node and no operator.{did_you_mean(pattern, known)}",
                    f"operators: {', '.join(sorted({node.op_type for node in model.graph.node}))}",
                )


def _typed(model: Any, strict: bool = False) -> Any:
    """The model with functions inlined and the types of all its tensors.

    Raises:
        NodeFailed: with `strict`, types that do not fit together: the rewriting was wrong.
    """
    import onnx
    from onnx import inliner

    if model.functions:
        model = inliner.inline_local_functions(model)
    if tensor_bytes(model) > EXTERNAL_BYTES:
        return model  # beyond one message; `sanitized` holds the types already
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=strict, strict_mode=strict)
    except onnx.shape_inference.InferenceError as error:
        raise NodeFailed(
            f"the rewritten graph is not valid: {error}",
            "keep the node that it names with nodes.quantized.keep_fp32",
        ) from error


def _assert_loads(out: Path, source: Path, low: int, warnings: list[str], operators: Sequence[Path]) -> None:
    """Raise NodeFailed when ONNX Runtime loads the model but not what was made of it."""
    if low == _LOW["bf16"]:
        warnings.append(
            "ONNX Runtime has no bfloat16 kernels on the CPU: the model can be neither run nor compared here"
        )
        return
    refused = _refusal(out, operators)
    if not refused:
        return
    if _refusal(source, operators):  # it never did: operators of a plugin, for one
        warnings.append(f"the model cannot be tried: {refused}")
        return
    raise NodeFailed(f"the quantised model: {refused}", "keep the node that it names with exclude or keep_fp32")


def _refusal(model: Path, operators: Sequence[Path]) -> str:
    """Why ONNX Runtime does not load the model; empty when it does."""
    try:
        onnxmodel.open_session(model, libraries=operators)
    except NodeFailed as error:
        return error.message
    return ""


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigError(f"{name}: expected one of {', '.join(known)}, found {value!r}.{did_you_mean(value, known)}")
