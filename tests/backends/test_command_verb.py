"""`mobuild command engine`: what it prints builds the same engine without mobuild."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine_nets
import onnx
import onnx.version_converter
import pytest

from mobuild.backends.tensorrt import TensorRT
from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.facts.features import flag
from tests.projects import Project

NOTE = """\
# @package _global_
nodes:
  model: {kind: source, uri: det.onnx}
  note: {kind: command, in: {model: model}, cmd: 'python note.py {in.model} {out}', out: .onnx, env: {GAIN: "2"}}
"""
PROFILES = ({"x": ((1, 16), (4, 16), (8, 16)), "n": ((), (), ())},)
TWO = ({"x": ((1, 16), (1, 16), (1, 16))}, {"x": ((2, 16), (4, 16), (8, 16))})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.write("conf/project/default.yaml", "# @package _global_\nshapes: {batch: [1, 4, 8]}\n")
    engine_nets.linear(project.root / "det.onnx")
    return project


def run(project: Project, lines: str) -> None:
    """Run printed lines in a shell, with the tools of this environment."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    subprocess.run(["sh", "-ec", lines], cwd=project.root, env={"PATH": path, "HOME": str(project.root)}, check=True)


@pytest.mark.parametrize("hardware", ["l4", "cpu"])
def test_the_printed_lines_make_the_same_bytes(project: Project, hardware: str) -> None:
    words = ("model=det.onnx", "nodes.engine.needs.model=onnx", f"hardware={hardware}")
    built = project.mobuild("target=engine", *words).out.split()[-1]

    lines = project.mobuild("command", "engine", *words).out
    run(project, lines)

    made = project.root / Path(built).name
    assert made.read_bytes() == (project.root / built).read_bytes()


def test_a_target_that_is_no_engine_has_no_command(project: Project) -> None:
    done = project.mobuild("command", "sanitized", "model=det.onnx", check=False)

    assert done.status == 1
    assert "'sanitized' is no engine: mobuild itself makes it" in done.errors[0]


def test_a_command_of_the_recipe_is_told_with_its_paths_in_place(project: Project) -> None:
    project.write("recipes/det.yaml", NOTE)
    project.write("note.py", "import os, shutil, sys; shutil.copy(*sys.argv[1:]); print(os.environ['GAIN'])")

    lines = project.mobuild("command", "note", "recipe=det").out
    run(project, lines)

    root = project.root
    assert lines == f"cd {root} && env GAIN=2 {sys.executable} note.py {root}/det.onnx {root}/note.onnx\n"
    assert (root / "note.onnx").read_bytes() == (root / "det.onnx").read_bytes()


def test_a_model_that_is_not_built_yet_is_named_with_how_to_build_it(project: Project) -> None:
    done = project.mobuild("command", "engine", "model=det.onnx", check=False)

    assert done.status == 1
    assert "'sanitized', its model, is not built yet" in done.errors[0]
    assert "mobuild target=sanitized model=det.onnx" in done.errors[0]


def test_tensorrt_is_told_for_the_version_that_is_asked_for(project: Project) -> None:
    words = ("model=det.onnx", "nodes.engine.needs.model=onnx", "hardware=l4", "backend=tensorrt")

    ten = project.mobuild("command", "engine", *words, 'backend.version="10.9"').out
    newest = project.mobuild("command", "engine", *words)

    assert ten.startswith("# TensorRT 10.9\ntrtexec --onnx=")
    assert "--stronglyTyped" in ten
    assert "--stronglyTyped" not in newest.out
    assert "tensorrt is not installed and no backend.version is asked for" in newest.err


def words_of(backend: TensorRT, version: str, precision: str = "fp32", profiles: object = PROFILES) -> list[str]:
    """The words of the trtexec line."""
    lines = backend.command("m.onnx", profiles, precision, "e.plan", version).splitlines()  # type: ignore[arg-type]
    return shlex.split(next(line for line in lines if line.startswith("trtexec")))


def test_the_line_says_all_options() -> None:
    backend = TensorRT(
        "8.9",
        workspace="1GiB",
        hardware_compatibility="same_compute_capability",
        version_compatible=True,
        exclude_lean_runtime=True,
        builder_optimization_level=5,
        plugins=("lib/a.so", "lib/b.so"),
        timing_cache="l4.cache",
        raw={"TF32": False, "REFIT": True},
    )

    assert words_of(backend, "10.16") == [
        "trtexec",
        "--onnx=m.onnx",
        "--saveEngine=e.plan",
        "--skipInference",
        "--stronglyTyped",
        "--memPoolSize=workspace:1024M",
        "--minShapes=x:1x16,n:scalar",
        "--optShapes=x:4x16,n:scalar",
        "--maxShapes=x:8x16,n:scalar",
        "--builderOptimizationLevel=5",
        "--profilingVerbosity=layer_names_only",
        "--hardwareCompatibilityLevel=sameComputeCapability",
        "--versionCompatible",
        "--excludeLeanRuntime",
        "--staticPlugins=lib/a.so",
        "--staticPlugins=lib/b.so",
        "--timingCacheFile=l4.cache",
        "--noTF32",
        "--refit",
    ]


def test_several_profiles_are_numbered() -> None:
    words = words_of(TensorRT("8.9"), "10.16", profiles=TWO)

    assert [word for word in words if "rofile=" in word or "min" in word] == [
        "--profile=0",
        "--minShapes=x:1x16",
        "--profile=1",
        "--minShapes=x:2x16",
    ]


@pytest.mark.parametrize(
    ("precision", "flags"), [("fp16", {"--fp16"}), ("int8", {"--int8", "--fp16", "--calib=calibration.cache"})]
)
def test_weak_typing_has_precision_flags(precision: str, flags: set[str]) -> None:
    words = words_of(TensorRT("8.9", typing="weak"), "10.16", precision)

    assert flags <= set(words)
    assert "--stronglyTyped" not in words


@pytest.mark.parametrize("version", ["10.6", "11.0"])
def test_every_flag_stands_in_the_help_of_the_release(version: str) -> None:
    listed = json.loads((Path(__file__).parents[1] / "trtexec_help.json").read_text())[version]
    raw = {"TF32": False, "REFIT": True, "STRIP_PLAN": True, "SPARSE_WEIGHTS": True, "WEIGHT_STREAMING": True}
    caches = {"DISABLE_COMPILATION_CACHE": True, "ERROR_ON_TIMING_CACHE_MISS": True, "MONITOR_MEMORY": True}
    backend = TensorRT(
        "8.9",
        hardware_compatibility="ampere_plus",
        version_compatible=True,
        exclude_lean_runtime=True,
        plugins=("a.so",),
        timing_cache="l4.cache",
        raw={**raw, **caches},
    )

    words = words_of(backend, version, profiles=TWO)[1:]

    assert [word for word in words if word.partition("=")[0] not in listed] == []


@pytest.mark.parametrize("version", ["10.0", "10.4", "10.9", "10.12", "10.16", "11.0", "11.2", "11.5"])
def test_no_flag_is_unknown_to_the_version(version: str) -> None:
    backend = TensorRT("8.9", hardware_compatibility="same_compute_capability", raw={"MONITOR_MEMORY": True})

    told = backend.command("m.onnx", PROFILES, "fp32", "e.plan", version)

    for word in words_of(backend, version)[1:]:
        assert flag(word, version).word in ("yes", "limited"), word
    is_old = version in ("10.0", "10.4")
    assert ("# not said below: --hardwareCompatibilityLevel=sameComputeCapability" in told) == is_old


def test_a_flag_that_was_removed_does_not_come_back_with_a_newer_release() -> None:
    backend = TensorRT("8.9", typing="weak")

    told = backend.command("m.onnx", PROFILES, "fp16", "e.plan", "12.0")

    assert "--fp16" not in words_of(backend, "12.0", "fp16")
    assert "# not said below: --fp16 (--fp16 was removed in 11.0)\n" in told


@pytest.mark.parametrize(
    ("precision", "flags"), [("fp32", set()), ("fp16", {"--fp16"}), ("int8", {"--int8", "--fp16"})]
)
def test_a_release_without_strong_typing_is_told_to_allow_the_types_of_the_graph(
    precision: str, flags: set[str]
) -> None:
    told = TensorRT("8.9").command("m.onnx", PROFILES, precision, "e.plan", "8.6")

    assert "# not said below: --stronglyTyped (--stronglyTyped is there from 9.0 on)\n" in told
    assert "--strongly-typed" not in told
    for line in told.splitlines()[2:5:2]:  # trtexec, polygraphy
        assert {word for word in line.split() if word in ("--fp16", "--int8", "--bf16")} == flags, line
    assert "calib" not in told


WORDS = ("model=det.onnx", "nodes.engine.needs.model=onnx", "backend=tensorrt")


def test_without_a_version_the_line_is_for_the_newest_that_takes_the_card(project: Project) -> None:
    done = project.mobuild("command", "engine", *WORDS, "hardware=v100")

    assert "\n# TensorRT 10.4\ntrtexec " in done.out
    assert "tensorrt is not installed and no backend.version is asked for: this is for 10.4" in done.err


@pytest.mark.parametrize(
    ("hardware", "version", "code"), [("v100", "11.0", "R1"), ("b200", "10.4", "R2"), ("gtx1070", "10.16", "R1")]
)
def test_no_line_is_told_of_what_cannot_be_built(project: Project, hardware: str, version: str, code: str) -> None:
    words = (*WORDS, f"hardware={hardware}", f'backend.version="{version}"')

    done = project.mobuild("command", "engine", *words, check=False)

    assert (done.status, done.out) == (1, "")
    assert f"hardware '{hardware}': {code}: " in done.err


@pytest.mark.parametrize(
    ("hardware", "version", "said"),
    [
        ("l4", "99", "# R19 warning: TensorRT 99 is unverified: the table ends at 11.5\n"),
        ("l4", "8.6", "# E3 error: node 'engine': mobuild builds with TensorRT from 10.0 on, not with 8.6\n"),
        ("gtx1070", "8.6", "# E3 error: node 'engine': mobuild builds with TensorRT from 10.0 on, not with 8.6\n"),
        ("gh200", "10.4", "# R17 warning: TensorRT 10.4: wheels for ARM servers (SBSA) begin with 10.5\n"),
    ],
)
def test_a_doubt_stands_before_the_line(project: Project, hardware: str, version: str, said: str) -> None:
    if version == "8.6":
        older = onnx.version_converter.convert_version(onnx.load(project.root / "det.onnx"), 17)
        onnx.save(older, project.root / "det.onnx")

    done = project.mobuild("command", "engine", *WORDS, f"hardware={hardware}", f'backend.version="{version}"')

    assert said in done.out.partition("trtexec --onnx")[0]


@pytest.mark.parametrize("version", ["7.0", "8.5"])
def test_an_old_release_gets_the_flags_that_it_has_whatever_python_is_here(project: Project, version: str) -> None:
    older = onnx.version_converter.convert_version(onnx.load(project.root / "det.onnx"), 17)
    onnx.save(older, project.root / "det.onnx")

    lines = project.mobuild("command", "engine", *WORDS, "hardware=v100", f'backend.version="{version}"').out
    trtexec = next(line for line in lines.splitlines() if line.startswith("trtexec "))
    polygraphy = next(line for line in lines.splitlines() if line.startswith("# polygraphy "))

    assert "# R14 " in lines
    assert "--buildOnly" in trtexec
    assert not {"--stronglyTyped", "--skipInference"} & set(trtexec.split())
    assert "OptimizationLevel" not in trtexec
    assert "--builder-optimization-level" not in polygraphy
    assert "# not said below: --builderOptimizationLevel=3 (--builderOptimizationLevel=3 is there from 8.6 on)" in lines
    assert ("compare the flags with trtexec --help" in lines) == (version == "7.0")


def test_raw_that_trtexec_has_flags_for_is_said() -> None:
    raw = {"TACTIC_SHARED_MEMORY": "48KiB", "DLA_MANAGED_SRAM": "1MiB", "max_aux_streams": 2, "GPU_FALLBACK": True}
    dla = {"default_device_type": "DLA", "DLA_core": 0, "profiling_verbosity": "DETAILED"}
    backend = TensorRT("8.7", workspace="1GiB", raw={"DISABLE_TIMING_CACHE": True, **raw, **dla})

    words = words_of(backend, "10.16")

    assert "--memPoolSize=workspace:1024M,dlaSRAM:1024K,tacticSharedMem:48K" in words
    assert {"--maxAuxStreams=2", "--allowGPUFallback", "--useDLACore=0", "--noBuilderCache"} <= set(words)
    assert [word for word in words if "Verbosity" in word] == ["--profilingVerbosity=detailed"]
    assert "# not said" not in backend.command("m.onnx", PROFILES, "fp32", "e.plan", "10.16")


def test_what_only_the_api_can_set_is_told() -> None:
    told = TensorRT("8.9", raw={"engine_capability": "SAFETY"}).command("m.onnx", PROFILES, "fp32", "e.plan", "11.4")

    assert "# not said below: raw.engine_capability=SAFETY\n" in told


@pytest.mark.parametrize(
    ("value", "said"), [("a\ntouch b", "a touch b"), ([1, 2], "[1, 2]"), ({"a": "b\nc"}, "{'a': 'b\\nc'}")]
)
def test_what_is_not_said_stays_in_its_comment(value: Any, said: str) -> None:
    for backend in (TensorRT("8.9", raw={"own": value}), TensorRTRTX("8.9", raw={"own": value})):
        told = backend.command("m.onnx", PROFILES, "fp32", "e.plan", "11.4")

        assert f"\n# not said below: raw.own={said}\n" in told


def test_polygraphy_knows_every_flag_that_is_told() -> None:
    backend = TensorRT(
        "8.9",
        hardware_compatibility="ampere_plus",
        version_compatible=True,
        exclude_lean_runtime=True,
        plugins=("a.so",),
        timing_cache="l4.cache",
    )
    told = backend.command("m.onnx", PROFILES[:1], "fp32", "e.plan", "11.4").splitlines()[-1]
    words = shlex.split(told.removeprefix("# "))
    polygraphy = shutil.which("polygraphy", path=str(Path(sys.executable).parent))
    assert polygraphy

    known = subprocess.run([polygraphy, "convert", "--help"], capture_output=True, text=True, check=True).stdout

    assert words[:2] == ["polygraphy", "convert"]
    assert [word for word in words if word.startswith("--") and word not in known] == []
