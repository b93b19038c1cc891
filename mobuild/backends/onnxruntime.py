"""ONNX Runtime as a builder: the optimized graph, which stays an ONNX file.

The level is EXTENDED: above it ONNX Runtime lays tensors out for the CPU that builds, and the artifact
would run well there only. Such rewriting is left to loading (`runtime.onnxruntime`). The ORT format is not
offered, because its bytes differ from build to build.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

from mobuild import hooks
from mobuild.backend import Profile
from mobuild.engine_errors import runtime_errors
from mobuild.errors import ConfigError, NodeFailed, did_you_mean
from mobuild.libraries import OPERATORS, given
from mobuild.node import Built, unkeyed, user_code
from mobuild.onnxmodel.files import DATA_NAME, MODEL_NAME, data_files
from mobuild.runtime import onnxruntime as ort_runtime
from mobuild.runtime.errors import RuntimeMissing

_EXTERNAL_FILE = "session.optimized_model_external_initializers_file_name"
_EXTERNAL_SIZE = "session.optimized_model_external_initializers_min_size_in_bytes"


@dataclass(frozen=True)
class OnnxRuntime:
    """`provider_options` are those of the provider (`device_id`, `arena_extend_strategy`), `raw` session configuration
    entries; both are used while building and running. `hook(options)` may change the
    SessionOptions last. `libraries` of custom operators are those that the node is given."""

    provider: str = ort_runtime.CPU
    level: str = "extended"
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    hook: str = user_code("")
    libraries: Sequence[str] = unkeyed(())

    name: ClassVar[str] = "onnxruntime"
    revision: ClassVar[int] = 1
    runtime: ClassVar[str] = "onnxruntime"
    symmetric: ClassVar[bool] = False
    distribution: ClassVar[str] = "onnxruntime"
    notice: ClassVar[str] = ""
    carries: ClassVar[str] = OPERATORS

    def __post_init__(self) -> None:
        if self.level not in ort_runtime.LEVELS:
            raise ConfigError(
                f"level: expected one of {', '.join(ort_runtime.LEVELS)}, found {self.level!r}."
                f"{did_you_mean(self.level, ort_runtime.LEVELS)}"
            )
        if self.provider_options and self.provider == ort_runtime.CPU:
            raise ConfigError(
                f"provider_options: {self.provider} takes none, found {', '.join(self.provider_options)}",
                "options of the session go into raw; backend.provider=CUDAExecutionProvider runs on a GPU",
            )

    @property
    def suffix(self) -> str:
        return ".onnx"

    @property
    def tools(self) -> tuple[str, ...]:
        return (self.distribution,)

    @property
    def library(self) -> str:
        """The shared library of the provider, of those that have one of their own."""
        name = ort_runtime.LIBRARIES.get(self.provider)
        return f"onnxruntime/capi/{name}" if name else ""

    def placed(self, inputs: Mapping[str, Path]) -> OnnxRuntime:
        """This backend with the libraries of custom operators that the node is given."""
        return replace(self, libraries=tuple(map(str, given(inputs).values())))

    def build(self, model: Path, profiles: Sequence[Profile], precision: str, out: Path) -> Built:
        """Write the optimized ONNX; a folder when `model` keeps its weights in external data."""
        entries = _texts(self.raw)
        target = out
        if data_files(model):
            out.mkdir()
            target = out / MODEL_NAME
            entries = {_EXTERNAL_FILE: DATA_NAME, _EXTERNAL_SIZE: "1024", **entries}
        with runtime_errors():
            ort = ort_runtime.module()
            options = self._options(ort, entries, target)
            ort_runtime.open_session(model, self.provider, options, _texts(self.provider_options))
        if not target.exists():
            raise NodeFailed(f"onnxruntime {ort.__version__} wrote no optimized model")
        return Built({"builder": f"onnxruntime {ort.__version__}", "target": self.provider})

    def lacks(self, precision: str) -> str:
        if precision == "bf16" and self.provider == ort_runtime.CPU:
            return "ONNX Runtime has no bfloat16 kernels for CPUs"
        return ""

    def runs_here(self) -> str:
        if self.provider == ort_runtime.CPU:
            return ""  # every build has it; the planner asks, and must not import the library
        try:
            ort_runtime.refuse_missing_provider(ort_runtime.module(), self.provider)
        except RuntimeMissing as error:
            return error.message
        return ""

    def run_options(self, profiles: Sequence[Profile]) -> dict[str, Any]:
        options = {"provider_options": _texts(self.provider_options)} if self.provider_options else {}
        hook = {"configure": self._configure} if self.hook else {}
        return {"provider": self.provider, "entries": _texts(self.raw), "profiles": profiles, **options, **hook}

    def command(self, model: str, profiles: Sequence[Profile], precision: str, out: str, version: str) -> str:
        """Lines of Python, for a shell, that write the same optimized model without mobuild."""
        level = ort_runtime.LEVELS[self.level]
        entries = [f"options.add_session_config_entry({key!r}, {value!r})" for key, value in _texts(self.raw).items()]
        lines = [
            f"# onnxruntime {version}",
            *([f"# not said below: hook {self.hook}"] if self.hook else []),
            "python - <<'EOF'",
            "import onnxruntime",
            "options = onnxruntime.SessionOptions()",
            f"options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}",
            f"options.optimized_model_filepath = {out!r}",
            *entries,
            *(f"options.register_custom_ops_library({path!r})" for path in self.libraries),
            f"providers = [({self.provider!r}, {_texts(self.provider_options)!r})]",
            f"onnxruntime.InferenceSession({model!r}, options, providers=providers)",
            "EOF",
        ]
        return "\n".join(lines)

    def _options(self, ort: Any, entries: Mapping[str, str], target: Path) -> Any:
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, ort_runtime.LEVELS[self.level])
        options.optimized_model_filepath = str(target)
        options.intra_op_num_threads = 1
        options.log_severity_level = 3  # level ALL warns about portability, which its name says
        ort_runtime.register(ort, options, map(Path, self.libraries))
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        self._configure(options)
        return options

    def _configure(self, options: Any) -> None:
        """Let the hook, if there is one, change the options of a session."""
        if self.hook:
            hooks.call(self.hook, "hook(options: onnxruntime.SessionOptions)", options)


def _texts(mapping: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping.items()}
