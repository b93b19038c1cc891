"""A line of trtexec → a recipe → `mobuild command`: the same flags, or the ones that take their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopted import calibration_cache, detector, encoder, flags, told, written

MIN, OPT, MAX = (f"--{corner}Shapes=images:{n}x3x640x640" for corner, n in (("min", 1), ("opt", 8), ("max", 32)))
SHAPES = f"{MIN} {OPT} {MAX}"
FIXED = "--minShapes=images:4x3x64x64 --optShapes=images:4x3x64x64 --maxShapes=images:4x3x64x64"
IDS = " ".join(f"--{c}Shapes=ids:{n}x{s},mask:{n}x{s}" for c, n, s in (("min", 1, 1), ("opt", 8, 64), ("max", 32, 128)))
# What trtexec does anyway, what mobuild always says, and its own size of the workspace where the line has none.
SAID = {"--skipInference": "", "--profilingVerbosity": "layer_names_only", "--builderOptimizationLevel": "3"}
WORKSPACE = {"pool workspace": 4.0 * 2**30}
STRONG = {"--stronglyTyped": ""}

SAME = [  # version, model, flags: what comes back has all of them and no others
    ("8.6", "det", f"{SHAPES} --fp16 --workspace=4096"),
    ("8.6", "det", f"{SHAPES} --fp16 --buildOnly --memPoolSize=workspace:2048"),
    ("8.6", "det", f"{SHAPES} --int8 --fp16 --calib=c86.cache --workspace=1024"),
    ("8.6", "det", f"{SHAPES} --fp16 --versionCompatible --excludeLeanRuntime"),
    ("8.6", "det", f"{SHAPES} --fp16 --hardwareCompatibilityLevel=ampere+ --builderOptimizationLevel=5"),
    ("8.6", "det", f"{SHAPES} --fp16 --plugins=libp.so --staticPlugins=libq.so"),
    ("8.6", "det", f"{SHAPES} --fp16 --maxAuxStreams=2 --avgTiming=16 --noTF32"),
    ("8.6", "bert", f"{IDS} --fp16 --sparsity=enable --refit"),
    ("10.0", "det", f"{SHAPES} --fp16 --stripWeights --refit"),
    ("10.0", "bert", f"{IDS} --bf16 --memPoolSize=workspace:8G"),
    ("10.0", "det", f"{FIXED} --fp16 --useDLACore=0 --allowGPUFallback --memPoolSize=workspace:512,dlaSRAM:1"),
    ("10.3", "det", f"{SHAPES} --stronglyTyped --memPoolSize=workspace:1.5G"),
    ("10.4", "det", f"{SHAPES} --fp16 --maxTactics=100 --timingCacheFile=l4.cache"),
    ("10.5", "det", f"{SHAPES} --int8 --fp16 --calib=c105.cache --vc"),
    ("10.5", "det", f"--profile=0 {FIXED} --profile=1 {SHAPES} --fp16"),
    ("10.5", "det", f"{SHAPES} --fp16 --bf16"),
    ("10.5", "det", f"{SHAPES} --fp8 --fp16"),
    ("10.6", "det", f"{SHAPES} --fp16 --monitorMemory --noCompilationCache --errorOnTimingCacheMiss"),
    ("10.8", "det", f"{SHAPES} --fp16 --tilingOptimizationLevel=3 --l2LimitForTiling=1048576"),
    ("10.9", "det", f"{SHAPES} --stronglyTyped --hardwareCompatibilityLevel=sameComputeCapability"),
    ("10.9", "bert", f"{IDS} --stronglyTyped --allowWeightStreaming"),
    ("10.12", "det", f"{SHAPES} --fp16 --precisionConstraints=obey --profilingVerbosity=detailed"),
    ("10.13", "det", f"{SHAPES} --stronglyTyped --runtimePlatform=WindowsAMD64 --noBuilderCache"),
    ("10.16", "det", f"{SHAPES} --stronglyTyped --memPoolSize=workspace:4G,tacticSharedMem:48K"),
    ("10.16", "det", f"{SHAPES} --fp16 --builderOptimizationLevel=0 --distributiveIndependence"),
    ("11.0", "det", f"{SHAPES} --memPoolSize=workspace:2G --builderOptimizationLevel=4"),
    ("11.2", "bert", f"{IDS} --noTF32 --versionCompatible --excludeLeanRuntime"),
    ("11.4", "det", f"{SHAPES} --staticPlugins=libp.so --staticPlugins=libq.so --maxAuxStreams=0"),
    ("11.5", "det", f"--profile=0 {FIXED} --profile=1 {SHAPES} --profilingVerbosity=none"),
    ("11.5", "bert", f"{IDS} --stripWeights --refit --monitorMemory"),
]
OTHER = [  # version, flags, those that are gone, those that take their place
    ("10.5", "--fp16 --workspace=2048 --explicitBatch", {"--explicitBatch"}, {}),
    ("10.0", "--fp16 --buildOnly --heuristic --minTiming=2", {"--heuristic", "--minTiming"}, {}),
    ("10.5", "", set(), STRONG),  # the graph's types are the engine's either way
    ("10.5", "--int8 --calib=c105.cache", set(), {"--fp16": ""}),  # what is not int8 may be fp16
    ("10.5", "--int8 --fp16", {"--int8"}, {}),  # scales from random numbers
    ("10.5", "--best", {"--best"}, {"--fp16": ""}),
    ("10.5", "--fp16 --stronglyTyped", {"--fp16"}, {}),
    ("10.1", "--fp16 --stripAllWeights", {"--stripAllWeights"}, {"--stripWeights": "", "--refit": ""}),
    ("11.5", "--fp16 --workspace=1024", {"--fp16"}, {}),
    ("11.5", "--int8 --fp16 --calib=c86.cache", {"--int8", "--fp16", "--calib"}, {}),
    (
        "11.5",
        "--bf16 --stronglyTyped --weightless",
        {"--bf16", "--stronglyTyped", "--weightless"},
        {"--stripWeights": ""},
    ),
    (
        "11.5",
        "--precisionConstraints=obey --layerPrecisions=a:fp16",
        {"--precisionConstraints", "--layerPrecisions"},
        {},
    ),
    ("11.5", "--useCudaGraph --iterations=50 --duration=0", {"--useCudaGraph", "--iterations", "--duration"}, {}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lines")
    (root / "l4.cache").write_bytes(b"a timing cache")
    calibration_cache(root / "c86.cache", "8600")
    calibration_cache(root / "c105.cache", "100500")
    for name in ("libp.so", "libq.so"):
        (root / name).write_bytes(b"a library")
    return root


def returned(folder: Path, version: str, model: str, given: str) -> tuple[dict[str, object], dict[str, object]]:
    """The flags of a line and those that come back, without what both have anyway."""
    for old in folder.glob("*.onnx"):
        old.unlink()
    (detector if model == "det" else encoder)(folder / f"{model}.onnx")
    line = f"trtexec --onnx={model}.onnx --saveEngine={model}.plan {given}"
    made = written(folder, line, version, f"r{len(list(folder.glob('recipes/*')))}")
    back = {**flags(told(folder, made, version))}
    there = {**SAID, **WORKSPACE, **flags(line)}
    return there, {**SAID, **back}


@pytest.mark.parametrize(("version", "model", "given"), SAME, ids=range(len(SAME)))
def test_what_the_version_has_comes_back(folder: Path, version: str, model: str, given: str) -> None:
    there, back = returned(folder, version, model, given)

    assert back == there


@pytest.mark.parametrize(("version", "given", "gone", "instead"), OTHER, ids=range(len(OTHER)))
def test_what_it_lacks_gives_way(
    folder: Path, version: str, given: str, gone: set[str], instead: dict[str, object]
) -> None:
    there, back = returned(folder, version, "det", f"{SHAPES} {given}")

    kept = {name: value for name, value in there.items() if name not in gone}
    assert back == {**kept, **instead}
