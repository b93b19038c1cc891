"""`mobuild adopt -- LINE` in a folder, as an engineer types it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from adopted import calibration_cache, detector, written
from jsonschema import Draft202012Validator

from mobuild.adopt.line import read
from tests.projects import Project

LINE = (
    "trtexec --onnx=det.onnx --fp16 --workspace=4096 --minShapes=images:1x3x8x8 --optShapes=images:2x3x8x8 "
    "--maxShapes=images:4x3x16x16 --saveEngine=det.plan --iterations=100 --tacticSources=-CUDNN"
)


@pytest.fixture
def folder(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    detector(project.root / "det.onnx")
    return project


def recipe(project: Project, name: str = "det") -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((project.root / "recipes" / f"{name}.yaml").read_text())
    return found


def test_the_line_becomes_a_recipe_and_each_flag_is_told(folder: Project) -> None:
    done = folder.mobuild("adopt", "--", *shlex.split(LINE))

    assert recipe(folder) == {
        "defaults": ["/recipe/standard", {"override /precision": "fp16"}, "_self_"],
        "nodes": {"onnx": {"kind": "source", "uri": "det.onnx"}},
        "shapes": {"batch": [1, 2, 4], "h": [8, 8, 16], "w": [8, 8, 16]},
        "workspace": "4GiB",
        "builders": ["tensorrt", "onnxruntime"],
    }
    told = [" ".join(line.split()) for line in done.out.splitlines()]
    assert str(folder.root / "recipes" / "det.yaml") in told
    assert "mapped --onnx=det.onnx → nodes.onnx.uri" in told
    assert "measuring --iterations=100" in told
    assert "lost --tacticSources=-CUDNN sources of kernels have no key" in told
    assert any(line.startswith("removed --fp16 → precision: fp16 (") and "removed in 11.0" in line for line in told)
    assert any(line.startswith("removed --workspace=4096 → workspace: 4GiB (") for line in told)
    assert told[-1] == "now: mobuild target=engine recipe=det"
    assert done.err == "note: checked for a CPU; for a card: mobuild check recipe=det hardware=l4\n"
    assert (folder.root / ".gitignore").read_text() == "/cache/\n/build/\n"


@pytest.mark.parametrize("words", [["hardware=cpu"], ["hardware=l20", "backend=tensorrt_rtx"]])
@pytest.mark.parametrize("precision", ["", "--fp16", "--fp16 --int8 --calib=c.cache"])
def test_the_recipe_builds(folder: Project, precision: str, words: list[str]) -> None:
    calibration_cache(folder.root / "c.cache", "8601")
    folder.mobuild("adopt", "--", *shlex.split(LINE.replace("--fp16", precision)))

    done = folder.mobuild("target=engine", *words)

    assert folder.root.joinpath(done.out.split()[-1]).is_file()


def test_the_recipe_is_valid_for_editors(folder: Project) -> None:
    folder.mobuild("adopt", "--", *shlex.split(LINE.replace("--iterations=100", "--builderOptimizationLevel=4")))

    schema = Draft202012Validator(json.loads(folder.mobuild("schema").out))

    assert recipe(folder)["backend"] == {"tensorrt": {"builder_optimization_level": 4}}
    assert [error.message for error in schema.iter_errors(recipe(folder))] == []


@pytest.mark.parametrize(
    "line",
    [
        "nohup polygraphy convert det.onnx -o det.plan > log 2>&1 &",
        "docker run -v $PWD:/polygraphy image polygraphy convert det.onnx -o det.plan",
    ],
)
def test_what_stands_around_a_call_does_not_hide_it(line: str) -> None:
    found = read([line])

    assert (found.tool, found.arguments) == ("polygraphy convert", ("det.onnx", "-o", "det.plan"))


def test_a_line_in_quotes_and_from_standard_input_is_the_same(folder: Project) -> None:
    folder.mobuild(
        "adopt", "quoted", f"$ CUDA_VISIBLE_DEVICES=0 /opt/tensorrt/bin/{LINE} 2>&1 | tee log", "hardware=cpu"
    )
    text = LINE.replace(" --", " \\\n    --")
    words = [sys.executable, "-m", "mobuild", "adopt", "typed", "-"]
    subprocess.run(words, cwd=folder.root, input=text, text=True, check=True, capture_output=True)

    assert recipe(folder, "quoted") == recipe(folder, "typed")


def test_paths_are_those_of_the_folder_that_it_is_typed_in(folder: Project) -> None:
    folder.write("recipes/other.yaml", "# @package _global_\nnodes: {}\n")
    inner = Project(folder.root / "models" / "v2", folder.cache)
    inner.root.mkdir(parents=True)
    detector(inner.root / "Seg-Net.v2.onnx")

    inner.mobuild("adopt", "trtexec", "--onnx=./Seg-Net.v2.onnx", "--plugins=../../lib/p.so", "--shapes=images:1x3x8x8")

    made = recipe(folder, "seg_net_v2")
    assert made["nodes"] == {"onnx": {"kind": "source", "uri": "models/v2/Seg-Net.v2.onnx"}}
    assert made["backend"] == {"tensorrt": {"plugins": ["lib/p.so"]}}


def test_the_form_for_scripts(folder: Project) -> None:
    words = ("backend.version=10.5", "hardware=gtx1070", "backend=tensorrt", "format=json")
    done = folder.mobuild("adopt", *words, "--", *shlex.split(LINE))

    told = json.loads(done.out)
    assert told["recipe"] == str(folder.root / "recipes" / "det.yaml")
    assert (told["schema"], told["name"], told["version"], told["target"]) == (1, "det", "10.5", "engine")
    verdicts = {each["flag"]: (each["verdict"], each["key"]) for each in told["flags"]}
    assert verdicts["--fp16"] == ("mapped", "precision: fp16")
    assert verdicts["--workspace"] == ("removed", "workspace: 4GiB")
    assert {each["code"] for each in told["findings"]} >= {"R1"}


def test_what_the_rules_find_is_told_and_is_no_failure(folder: Project) -> None:
    done = folder.mobuild("adopt", "hardware=gtx1070", "--", *shlex.split(LINE))

    assert done.status == 0
    assert "R1" in done.out
    assert (folder.root / "recipes" / "det.yaml").exists()


def test_without_onnx_it_says_what_to_install(folder: Project) -> None:
    dispatch = "from mobuild.dispatch import dispatch; dispatch(['adopt', 'trtexec', '--onnx=det.onnx'])"
    done = folder.python(f"import sys; sys.modules['onnx'] = None; {dispatch}")

    assert done.err == (
        "error: adopt: the model is read with 'onnx', which is not installed\n  pip install 'mobuild[onnx]'\n"
    )
    assert not (folder.root / "recipes").exists()


@pytest.mark.parametrize("words", [["hardware=l44"], ["precison=fp16"], ["format=sarif"], ["-m"]])
def test_words_that_are_not_understood_write_nothing(folder: Project, words: list[str]) -> None:
    done = folder.mobuild("adopt", *words, "--", *shlex.split(LINE), check=False)

    assert done.status == 2
    assert not (folder.root / "recipes" / "det.yaml").exists()


def test_weak_types_of_tensorrt_10_are_kept(folder: Project) -> None:
    calibration_cache(folder.root / "c.cache", "100500")

    folder.mobuild("adopt", "backend.version=10.5", f"{LINE} --int8 --calib=c.cache")

    made = recipe(folder)
    assert made["nodes"]["engine"] == {"needs": {"model": "onnx"}}  # type: ignore[index]
    assert made["backend"]["tensorrt"] == {  # type: ignore[index]
        "version": "10.5",
        "typing": "weak",
        "calibration_cache": "c.cache",
    }
    assert folder.mobuild("plan", "target=engine", "hardware=l4").status == 0


def test_a_timing_cache_is_pinned_where_it_is_there(folder: Project) -> None:
    folder.write("l4.cache", "a timing cache")

    folder.mobuild("adopt", "pinned", "--", *shlex.split(f"{LINE} --timingCacheFile=l4.cache"))
    folder.mobuild("adopt", "shared", "--", *shlex.split(f"{LINE} --timingCacheFile=none.cache"))

    assert recipe(folder, "pinned")["backend"] == {"tensorrt": {"timing_cache": "l4.cache"}}
    assert "backend" not in recipe(folder, "shared")


def test_a_line_with_a_lost_flag_can_stay_as_it_is(folder: Project) -> None:
    folder.mobuild("adopt", "--", *shlex.split(LINE))
    folder.edit("recipes/det.yaml", "  # engine: ", "  engine: ")

    done = folder.mobuild("plan", "hardware=l4")

    assert [line.split()[:3] for line in done.out.splitlines()] == [
        ["fresh", "det/l4", "onnx"],
        ["stale", "det/l4", "engine"],
    ]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("trtexec '--onnx=my det.onnx' --tacticSources=-CUDNN", "trtexec --onnx={in.model} --tacticSources=-CUDNN"),
        ("polygraphy convert 'my det.onnx' --tactic-sources -o 'my det.plan'", "polygraphy convert {in.model}"),
        ("polygraphy run --trt --save-engine='a b.plan' --tactic-sources CUBLAS -- 'my det.onnx'", "polygraphy run"),
    ],
)
def test_files_of_a_line_that_stays_are_places_of_its_node(folder: Project, line: str, command: str) -> None:
    detector(folder.root / "my det.onnx")
    folder.mobuild("adopt", "odd", "--", *shlex.split(line))

    folder.edit("recipes/odd.yaml", "  # engine: ", "  engine: ")
    planned = folder.mobuild("plan", "hardware=l4", "recipe=odd")

    cmd = recipe(folder, "odd")["nodes"]["engine"]["cmd"]  # type: ignore[index]
    assert cmd.startswith(command) and cmd.count("{in.model}") == cmd.count("{out}") == 1 and " det" not in cmd
    assert "stale    odd/l4 engine" in planned.out


def test_polygraphy_for_rtx_builds_for_its_cards(folder: Project) -> None:
    line = "polygraphy convert det.onnx -o det.plan --compute-capabilities 8.6 8.9 --pool-limit workspace:1G"
    shapes = "--trt-min-shapes images:[1,3,8,8] --trt-opt-shapes images:[2,3,8,8] --trt-max-shapes images:[4,3,8,8]"
    folder.mobuild("adopt", "--", *shlex.split(f"{line} {shapes}"))

    done = folder.mobuild("target=engine", "hardware=l20")

    assert recipe(folder)["backend"]["tensorrt_rtx"]["compute_capabilities"] == ["8.6", "8.9"]  # type: ignore[index]
    assert done.out.endswith("engine.plan\n")


def test_onnxsim_builds_the_sanitized_graph(folder: Project) -> None:
    folder.mobuild("adopt", "--", "python", "-m", "onnxsim", "det.onnx", "out.onnx", "3", "--skip-fuse-bn")

    done = folder.mobuild()

    assert recipe(folder)["nodes"]["sanitized"] == {"raw": {"onnxsim": {"skip_fuse_bn": True}}}  # type: ignore[index]
    assert done.out.endswith("sanitized.onnx\n")


def test_preparing_and_quantising_by_onnxruntime(folder: Project) -> None:
    prepare = "python -m onnxruntime.quantization.preprocess --input det.onnx --output p.onnx --skip_onnx_shape True"
    static = "python3 -m onnxruntime.quantization.static_quantize_runner -i det.onnx -o q.onnx --activation_type qint8"
    folder.mobuild("adopt", "prepared", "--", *prepare.split())
    folder.mobuild(
        "adopt", "--", *f"{static} --per_channel --calibration_method entropy --nodes_to_exclude a b".split()
    )

    assert recipe(folder, "prepared")["nodes"]["sanitized"] == {"infer_shapes": False}  # type: ignore[index]
    nodes = recipe(folder)["nodes"]
    assert nodes["quantized"] == {"per_channel": True, "weights_stored": "int8", "exclude": ["a", "b"]}  # type: ignore
    assert nodes["calibration"] == {"method": "entropy"}  # type: ignore[index]
    assert folder.mobuild("plan", "recipe=det").status == 0


def test_the_comment_in_the_recipe_builds_for_the_hardware_that_was_named(folder: Project) -> None:
    folder.mobuild("adopt", "d89", "hardware=l20", "backend=tensorrt_rtx", "--", "trtexec", "--onnx=det.onnx")

    assert "# Build it:  mobuild hardware=l20 recipe=d89" in folder.root.joinpath("recipes/d89.yaml").read_text()


def test_a_flag_of_several_precisions_says_its_reason_once(folder: Project) -> None:
    made = written(folder.root, "trtexec --onnx=det.onnx --best --stronglyTyped")

    notes = {flag.flag: flag.note for flag in made.flags}
    assert notes["--best"] == "does nothing beside --stronglyTyped: the graph's types are the engine's; removed in 11.0"


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("trtexec --onnx=det.onnx", "the builder takes 1, and so does the recipe"),
        ("onnxsim det.onnx out.onnx", "an engine of the recipe takes 1"),
    ],
)
def test_a_size_that_no_one_gave_is_warned_of(folder: Project, line: str, taken: str) -> None:
    made = written(folder.root, line)

    assert list(made.warnings) == [f"no shape gives axis 'batch', 'h', 'w' a size: {taken}"]


def test_a_file_of_ranges_that_is_there_is_left_alone(folder: Project) -> None:
    calibration_cache(folder.root / "c.cache", "110000")
    folder.write("recipes/det.ranges.json", "mine\n")
    line = "trtexec --onnx=det.onnx --int8 --calib=c.cache --saveEngine=det.plan"

    done = folder.mobuild("adopt", "--", *shlex.split(line), check=False)

    assert done.errors == (f"adopt: {folder.root / 'recipes/det.ranges.json'}: cannot be written: File exists",)
    assert (folder.root / "recipes/det.ranges.json").read_text() == "mine\n"
    assert not (folder.root / "recipes/det.yaml").exists()
