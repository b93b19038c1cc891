"""Flags of trtexec that need no reading: what measures, what changes nothing, what no recipe says."""

from __future__ import annotations

MEASURING = frozenset(
    (
        *("--iterations", "--duration", "--warmUp", "--sleepTime", "--idleTime", "--streams", "--infStreams"),
        *("--exposeDMA", "--noDataTransfers", "--includeDataTransfers", "--useManagedMemory", "--useSpinWait"),
        *("--noSpinWait", "--threads", "--useCudaGraph", "--noCudaGraph", "--timeDeserialize", "--timeRefit"),
        *("--separateProfileRun", "--persistentCacheRatio", "--loadInputs", "--loadRefOutputs", "--refPair"),
        *("--atol", "--rtol", "--accuracyAlgorithm", "--accuracyThreshold", "--useProfile", "--allocationStrategy"),
        *("--weightStreamingBudget", "--avgRuns", "--percentile", "--verbose", "--dumpRefit", "--dumpOutput"),
        *("--dumpRawBindingsToFile", "--dumpProfile", "--dumpLayerInfo", "--dumpOptimizationProfile"),
        *("--exportTimes", "--exportOutput", "--exportProfile", "--exportLayerInfo", "--saveDebugTensors"),
        *("--saveAllDebugTensors", "--refitFromOnnx", "--asyncFileReader", "--getPlanVersionOnly"),
    )
)
HERE = {
    "--skipInference": "mobuild builds, and proves the engine where it can run",
    "--buildOnly": "mobuild builds, and proves the engine where it can run",
}
_CALIBRATED = "a cache holds its scales already"
IGNORED = {
    "--explicitBatch": "every network has an explicit batch",
    "--explicitPrecision": "Q/DQ in the graph are explicit precision",
    "--device": "CUDA_VISIBLE_DEVICES chooses the GPU, hardware= says which card it is",
    "--tempdir": "where the builder keeps temporary files is no part of the engine",
    "--tempfileControls": "where the builder keeps temporary files is no part of the engine",
    "--ignoreParsedPluginLibs": "a parser's own plugins are loaded where they are needed",
    "--leanDLLPath": "of opening engines, not of building them",
    "--batch": "with an ONNX model it is an error; shapes say the batch",
    "--maxBatch": "with an ONNX model it is an error; shapes say the batch",
    "--heuristic": "builder_optimization_level: 2 is its successor",
    "--nvtxMode": "raw: {profiling_verbosity: …} is its successor",
    "--minTiming": "raw: {avg_timing_iterations: …} is its successor",
    **dict.fromkeys(("--minShapesCalib", "--optShapesCalib", "--maxShapesCalib", "--calibProfile"), _CALIBRATED),
}
_LAYERS = "layer by layer the types are those of the graph; nodes.quantized.keep_fp32 and exclude keep layers back"
LOST = {
    "--layerPrecisions": _LAYERS,
    "--layerOutputTypes": _LAYERS,
    "--strictTypes": _LAYERS,
    "--layerDeviceTypes": "devices can be chosen for the whole network alone",
    "--tacticSources": "sources of kernels have no key",
    "--preview": "preview features have no key",
    "--dynamicPlugins": "plugins that travel inside the engine have no key; plugins: [lib.so] loads a library here",
    "--setPluginsToSerialize": "plugins that travel inside the engine have no key; plugins: [lib.so] loads one here",
    "--safe": "engines of the safety runtime are not built",
    "--buildDLAStandalone": "a DLA loadable is no engine",
    "--markDebug": "debug tensors change the engine, and are for debugging alone",
    "--markUnfusedTensorsAsDebugTensors": "debug tensors change the engine, and are for debugging alone",
}
NO_MODEL = ("--uff", "--model", "--deploy", "--output", "--uffInput", "--uffNHWC")
