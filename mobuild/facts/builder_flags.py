"""What flags of trtexec set in TensorRT's `IBuilderConfig`, by the names that `backend.raw` has.

Read in both directions: `mobuild adopt` turns flags into `raw`, `mobuild command` turns `raw` into flags. Which version
has a flag is told by `features`. Source: sampleOptions.cpp and sampleEngines.cpp of 8.6, 10 and 11.
"""

from __future__ import annotations

SWITCHES = {  # member of BuilderFlag → (value, flag)
    "TF32": (False, "--noTF32"),
    "REFIT": (True, "--refit"),
    "STRIP_PLAN": (True, "--stripWeights"),
    "SPARSE_WEIGHTS": (True, "--sparsity=enable"),
    "WEIGHT_STREAMING": (True, "--allowWeightStreaming"),
    "DISABLE_TIMING_CACHE": (True, "--noBuilderCache"),
    "DISABLE_COMPILATION_CACHE": (True, "--noCompilationCache"),
    "ERROR_ON_TIMING_CACHE_MISS": (True, "--errorOnTimingCacheMiss"),
    "MONITOR_MEMORY": (True, "--monitorMemory"),
    "DISTRIBUTIVE_INDEPENDENCE": (True, "--distributiveIndependence"),
    "GPU_FALLBACK": (True, "--allowGPUFallback"),
    "DIRECT_IO": (True, "--directIO"),
    "SAFETY_SCOPE": (True, "--restricted"),
    "OBEY_PRECISION_CONSTRAINTS": (True, "--precisionConstraints=obey"),
    "PREFER_PRECISION_CONSTRAINTS": (True, "--precisionConstraints=prefer"),
    "BF16": (True, "--bf16"),
    "FP8": (True, "--fp8"),
    "INT4": (True, "--int4"),
}
NUMBERS = {  # attribute → flag
    "avg_timing_iterations": "--avgTiming",
    "max_num_tactics": "--maxTactics",
    "max_aux_streams": "--maxAuxStreams",
    "l2_limit_for_tiling": "--l2LimitForTiling",
    "DLA_core": "--useDLACore",  # which makes DLA the default_device_type, too
}
CHOICES = {  # attribute → (flag, member → value)
    "profiling_verbosity": (
        "--profilingVerbosity",
        {"LAYER_NAMES_ONLY": "layer_names_only", "DETAILED": "detailed", "NONE": "none"},
    ),
    "tiling_optimization_level": (
        "--tilingOptimizationLevel",
        {"NONE": "0", "FAST": "1", "MODERATE": "2", "FULL": "3"},
    ),
    "runtime_platform": ("--runtimePlatform", {"SAME_AS_BUILD": "SameAsBuild", "WINDOWS_AMD64": "WindowsAMD64"}),
}
POOLS = {  # member of MemoryPoolType → pool of --memPoolSize
    "DLA_MANAGED_SRAM": "dlaSRAM",
    "DLA_LOCAL_DRAM": "dlaLocalDRAM",
    "DLA_GLOBAL_DRAM": "dlaGlobalDRAM",
    "TACTIC_SHARED_MEMORY": "tacticSharedMem",
}
