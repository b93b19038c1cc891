"""The options of `polygraphy convert` and `run`: how many values each has, and those that need no reading."""

from __future__ import annotations

from mobuild.adopt.options import MANY, ONE, SOME, SWITCH

RAW = {
    "--sparse-weights": "SPARSE_WEIGHTS",
    "--error-on-timing-cache-miss": "ERROR_ON_TIMING_CACHE_MISS",
    "--disable-compilation-cache": "DISABLE_COMPILATION_CACHE",
    "--refittable": "REFIT",
    "--strip-plan": "STRIP_PLAN",
    "--weight-streaming": "WEIGHT_STREAMING",
    "--direct-io": "DIRECT_IO",
    "--allow-gpu-fallback": "GPU_FALLBACK",
    "--trt-safety-restricted": "SAFETY_SCOPE",
}
SWITCHED = {"--version-compatible": "version_compatible", "--exclude-lean-runtime": "exclude_lean_runtime"}
CHOSEN = {
    "--profiling-verbosity": "profiling_verbosity",
    "--tiling-optimization-level": "tiling_optimization_level",
    "--runtime-platform": "runtime_platform",
}
CORNERS = {f"--trt-{corner}-shapes": corner for corner in ("min", "opt", "max")}
TYPES = ("fp16", "bf16", "fp8", "int8")
LEVELS = ("none", "ampere_plus", "same_compute_capability")
POOLS = ("workspace", "dla_managed_sram", "dla_local_dram", "dla_global_dram", "tactic_dram", "tactic_shared_memory")
SHAPES = "--input-shapes"
MEASURING: dict[str, int | str] = {
    **dict.fromkeys(("--save-pb", "--save-tensorboard", "--save-timeline", "--graph-optimization-level"), ONE),
    **dict.fromkeys(("--save-accuracy-results", "--save-error-metrics-plot", "--save-heatmaps"), ONE),
    **dict.fromkeys(("--postprocess-func-script", "--compare-func-script"), ONE),
    **dict.fromkeys(("--cosine-similarity-threshold", "--error-quantile", "--index-tolerance"), SOME),
    **dict.fromkeys(("--l2-threshold, --l2-tolerance", "--psnr-threshold, --psnr-tolerance"), SOME),
    **dict.fromkeys(("--snr-threshold, --snr-tolerance", "--lpips-threshold, --lpips-tolerance"), SOME),
    **dict.fromkeys(("--postprocess, --postprocess-func",), SOME),
    **dict.fromkeys(("--pluginref", "--check-average", "--sequential-runners", "--show-heatmaps"), SWITCH),
    "--show-error-metrics-plot": SWITCH,
    "--save-input-blob": "?",
    **dict.fromkeys(("--gen, --gen-script", "--log-file", "--optimization-profile", "--seed"), ONE),
    **dict.fromkeys(("--iterations, --iters", "--warm-up", "--data-loader-backend-module", "--load-runtime"), ONE),
    **dict.fromkeys(("--data-loader-script", "--save-inputs, --save-input-data", "--save-onnx"), ONE),
    **dict.fromkeys(("--save-outputs, --save-results", "--weight-streaming-budget", "--allocation-strategy"), ONE),
    **dict.fromkeys(("--verbosity", "--log-format", "--val-range", "--rtol, --rel-tol", "--atol, --abs-tol"), SOME),
    **dict.fromkeys(("--load-inputs, --load-input-data", "--load-outputs, --load-results", "--check-error-stat"), SOME),
    **dict.fromkeys(("--compare, --compare-func", "--providers, --execution-providers"), SOME),
    **dict.fromkeys(
        ("-v, --verbose", "-q, --quiet", "--silent", "--trt", "--onnxrt", "--validate", "--fail-fast"), SWITCH
    ),
    **dict.fromkeys(("--use-subprocess", "--no-shape-check", "--infinities-compare-equal"), SWITCH),
}
IGNORED: dict[str, tuple[int | str, str]] = {
    "--model-type": (ONE, "told by the file's name"),
    "--convert-to": (ONE, "told by the target"),
    "--shape-inference, --do-shape-inference": (SWITCH, "kind sanitize does it"),
    "--no-onnxruntime-shape-inference": (SWITCH, "kind sanitize uses onnx's own"),
    "--save-timing-cache": (ONE, "mobuild keeps one cache for each machine: timing_cache: shared"),
    "--calib-base-cls, --calibration-base-class": (ONE, "the cache names its algorithm"),
    "--quantile": (ONE, "of a calibration; nodes.calibration has its own"),
    "--regression-cutoff": (ONE, "of a calibration; nodes.calibration has its own"),
}
LOST: dict[str, int | str] = {
    **dict.fromkeys(("--ckpt", "--gpu-memory-fraction", "--minimum-segment-size"), ONE),
    **dict.fromkeys(("--external-data-size-threshold",), ONE),
    **dict.fromkeys(("--freeze-graph", "--allow-growth", "--dynamic-op", "--tf", "--xla"), SWITCH),
    **dict.fromkeys(("--tftrt, --use-tftrt", "--no-save-all-tensors-to-one-file"), SWITCH),
    "--save-external-data, --external-data-path": "?",
    "--tf-outputs": SOME,
    **dict.fromkeys(
        ("--external-data-dir, --load-external-data, --ext", "--opset", "--save-tactics, --save-tactic-replay"), ONE
    ),
    **dict.fromkeys(("--load-tactics, --load-tactic-replay", "--trt-config-script", "--engine-capability"), ONE),
    **dict.fromkeys(("--trt-config-postprocess-script, --trt-cpps", "--precision-constraints"), ONE),
    **dict.fromkeys(("--all-tensor-dtypes, --all-tensor-datatypes", "--dla-workspace-allocation-strategy"), ONE),
    **dict.fromkeys(("--onnx-outputs", "--onnx-exclude-outputs", "--onnx-outputs-by-type", "--trt-outputs"), SOME),
    **dict.fromkeys(("--trt-exclude-outputs", "--trt-outputs-by-type", "--layer-precisions", "--mark-debug"), SOME),
    **dict.fromkeys(("--tensor-dtypes, --tensor-datatypes", "--tensor-formats", "--all-tensor-formats"), SOME),
    **dict.fromkeys(("--trt-network-postprocess-script, --trt-npps", "--onnx-flags"), SOME),
    **dict.fromkeys(("--tactic-sources", "--preview-features", "--quantization-flags"), MANY),
    **dict.fromkeys(
        ("--fp-to-fp16", "--ignore-external-data", "--plugin-instancenorm", "--decomposable-attentions"), SWITCH
    ),
    **dict.fromkeys(("--mark-unfused-tensors-as-debug-tensors", "--enable-uint8-asymmetric-quantization-dla"), SWITCH),
}
KNOWN: dict[str, int | str] = {
    **dict.fromkeys(
        (*RAW, *SWITCHED, *(f"--{each}" for each in TYPES), "--tf32", "--strongly-typed", "--use-dla"), SWITCH
    ),
    **dict.fromkeys((*CHOSEN, "--load-timing-cache", "--calibration-cache", "--builder-optimization-level"), ONE),
    **dict.fromkeys(("--hardware-compatibility-level", "--max-aux-streams", "-o, --output", "--save-engine"), ONE),
    **dict.fromkeys((*CORNERS, f"{SHAPES}, --inputs", "--plugins", "--compute-capabilities"), SOME),
    "--pool-limit, --memory-pool-limit": SOME,
    **MEASURING,
    **{names: count for names, (count, _) in IGNORED.items()},
    **LOST,
}
NOTES = {names.split(", ")[0]: note for names, (_, note) in IGNORED.items()}
MEASURES = {names.split(", ")[0] for names in MEASURING}
