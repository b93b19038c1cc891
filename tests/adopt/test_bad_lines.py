"""Lines that cannot be adopted: each is refused by name, with a remedy, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopted import calibration_cache, constant, detector, encoder, written

from mobuild.errors import MobuildError

BAD = {  # line → status, part of the message, part of the hint
    "": (2, "expected a line", "mobuild adopt -- trtexec"),
    "trtexec --fp16": (2, "expected --onnx=…, found no model", "--onnx=det.onnx"),
    "trtexec --onnx=": (2, "--onnx: expected the path of an ONNX file", ""),
    "trtexec --onnx=~nosuchuser/gone.onnx": (1, "~nosuchuser/gone.onnx: there is no such file", ""),
    "trtexec --onnx=det.onnx --workspace=1e999": (2, "--workspace: expected a size", ""),
    "onnxsim constant.onnx out.onnx --overwrite-input-shape 1,8": (2, "names no input, and the model has none", ""),
    "python -m onnxruntime.quantization.static_quantize_runner -i det.onnx -o q.onnx --minimum_real_range some": (
        *(2, "--minimum_real_range: expected a number, found 'some'", ""),
    ),
    "trtexec --onnx=gone.onnx": (1, "gone.onnx: there is no such file", ""),
    "trtexec --onnx=det.onnx --onnx=bert.onnx": (2, "two models, det.onnx and bert.onnx", ""),
    "trtexec det.onnx": (2, "what is 'det.onnx'?", "--onnx=det.onnx"),
    "trtexec --onnx det.onnx": (2, "what is 'det.onnx'?", "--onnx=det.onnx"),
    "trtexec --onnx=det.onnx --fp61": (2, "there is no flag '--fp61'. Did you mean '--fp16'?", "nothing was written"),
    "trtexec --onnx=det.onnx --builderCacheFile=c": (2, "'--builderCacheFile'", "nothing was written"),
    "trtexec --onnx=det.onnx --warmup=1 --itterations=2": (2, "Did you mean '--warmUp'?", "'--iterations'"),
    "trtexec --loadEngine=det.plan": (2, "opens an engine and builds none", "--saveEngine"),
    "trtexec --uff=det.uff": (2, "Caffe and UFF models", "ONNX"),
    "trtexec --help": (2, "builds nothing", ""),
    "trtexec --onnx=det.onnx --minShapes=images:1x3xAx64": (2, "found 'A' in '1x3xAx64'", "images:1x3x640x640"),
    "trtexec --onnx=det.onnx --minShapes=images:1x3x0x64": (2, "expected whole numbers from 1, found '0'", ""),
    "trtexec --onnx=det.onnx --shapes=1x3x64x64": (2, "expected input:sizes, found '1x3x64x64'", ""),
    "trtexec --onnx=det.onnx --shapes=": (2, "--shapes: expected input:sizes", ""),
    "trtexec --onnx=det.onnx --shapes=image:1x3x64x64": (
        *(2, "'image' is no input of the model. Did you mean 'images'?", "inputs: images:batchx3xhxw"),
    ),
    "trtexec --onnx=det.onnx --shapes=images:1x4x64x64": (2, "the model has the fixed size 3, the line says 4", ""),
    "trtexec --onnx=det.onnx --shapes=images:1x64x64": (2, "expected 4 sizes, found 3", "images:batchx3xhxw"),
    "trtexec --onnx=det.onnx --minShapes=images:4x3x8x8 --maxShapes=images:2x3x8x8": (
        *(2, "axis 0: expected sizes in rising order, found min 4, opt 2, max 2", ""),
    ),
    "trtexec --onnx=det.onnx --minShapes=images:1x3x1x1 --minShapes=images:2x3x1x1": (2, "there twice", "--profile=0"),
    "trtexec --onnx=det.onnx --profile=1 --shapes=images:1x3x1x1": (2, "numbered from 0 on", ""),
    "trtexec --onnx=bert.onnx --shapes=ids:1x8,mask:2x8": (
        2,
        "axis 'batch' of inputs 'ids' and 'mask' is one axis",
        "",
    ),
    "trtexec --onnx=bert.onnx --minShapes=ids:1x8 --maxShapes=ids:1x8,mask:1x8": (
        2,
        "max shapes name input 'mask'",
        "",
    ),
    "trtexec --onnx=det.onnx --workspace=lots": (2, "--workspace: expected a size", ""),
    "trtexec --onnx=det.onnx --memPoolSize=workspce:1": (2, "Did you mean 'workspace'?", ""),
    "trtexec --onnx=det.onnx --memPoolSize=4096": (2, "found '4096'", ""),
    "trtexec --onnx=det.onnx --builderOptimizationLevel=9": (2, "expected one of 0, 1, 2, 3, 4, 5, found '9'", ""),
    "trtexec --onnx=det.onnx --hardwareCompatibilityLevel=turing": (2, "found 'turing'", ""),
    "trtexec --onnx=det.onnx --sparsity=yes": (2, "--sparsity: expected one of disable, enable, force", ""),
    "trtexec --onnx=det.onnx --avgTiming=many": (2, "expected a whole number, found 'many'", ""),
    "trtexec --onnx=det.onnx --int8 --calib=gone.cache": (1, "gone.cache: No such file", ""),
    "trtexec --onnx=det.onnx --int8 --calib=det.onnx": (1, "is no calibration cache of TensorRT", ""),
    "trtexec --onnx=det.onnx && echo done": (2, "expected one command, found several", ""),
    "cd models && trtexec --onnx=det.onnx": (2, "found several", "what follows a cd is typed in that folder"),
    "trtexec --onnx='det.onnx": (2, "the line cannot be split into words", "quote"),
    "trtexec --onnx=broken.onnx": (1, "broken.onnx", ""),
    "python export.py --weights det.pt": (2, "what a Python script does cannot be read off", "mobuild init"),
    "python -m torch.onnx.export det.pt": (2, "what a Python script does cannot be read off", "mobuild init"),
    "snpe-onnx-to-dlc --input_network det.onnx": (2, "'snpe-onnx-to-dlc' is no tool", "kind command"),
    "polygraphy convert det.onnx": (2, "-o", ""),
    "polygraphy convert --fp16 -o det.plan": (2, "found no model", ""),
    "polygraphy convert det.onnx -o det.plan --fp61": (2, "Did you mean '--fp16'?", "nothing was written"),
    "polygraphy convert det.onnx -o clean.onnx": (2, "builds no engine", "target=sanitized"),
    "polygraphy run det.onnx --trt --onnxrt": (2, "keeps no engine", "target=validation"),
    "polygraphy surgeon sanitize det.onnx -o out.onnx": (2, "polygraphy surgeon", ""),
    "onnxsim det.onnx": (2, "expected two files", ""),
    "onnxsim det.onnx out.onnx --skip-fuse": (2, "Did you mean '--skip-fuse-bn'?", ""),
    "onnxsim bert.onnx out.onnx --overwrite-input-shape 1,8": (2, "a shape names no input", ""),
    "python -m onnxruntime.quantization.matmul_nbits_quantizer --input_model det.onnx": (2, "alone", "kind command"),
    "python -m onnxruntime.quantization.preprocess --output det.onnx": (2, "expected --input", ""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bad")
    detector(root / "det.onnx")
    encoder(root / "bert.onnx")
    constant(root / "constant.onnx")
    (root / "broken.onnx").write_bytes(b"\xff\xfe no model")
    return root


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_a_line_that_cannot_be_read_is_refused(folder: Path, line: str) -> None:
    status, message, hint = BAD[line]

    with pytest.raises(MobuildError) as caught:
        written(folder, line)

    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.status == status
    assert not (folder / "recipes").exists()


def test_a_recipe_that_is_there_is_left_alone(tmp_path: Path) -> None:
    detector(tmp_path / "det.onnx")
    written(tmp_path, "trtexec --onnx=det.onnx")

    with pytest.raises(MobuildError) as caught:
        written(tmp_path, "trtexec --onnx=det.onnx --fp16")

    assert "det.yaml is there already" in caught.value.message
    assert "mobuild adopt det_2 -- …" in caught.value.hint


def test_a_cache_of_another_tensorrt_and_another_graph_is_told(tmp_path: Path) -> None:
    detector(tmp_path / "det.onnx")
    calibration_cache(tmp_path / "c.cache", "8601", "images", "elsewhere")

    made = written(tmp_path, "trtexec --onnx=det.onnx --int8 --fp16 --calib=c.cache", "10.5")

    assert made.warnings[:2] == (
        "c.cache: tensors that the model does not have: 'elsewhere'; calibrated on another graph?",
        "c.cache: made by TensorRT 8.6.1, and TensorRT 10.5 takes a cache of its own version alone: the build will "
        "refuse it; calibrate anew",
    )


def test_a_recipe_that_is_a_link_to_nothing_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/.#det.yaml").symlink_to("me@machine.17")

    assert refused(tmp_path, "trtexec --onnx=gone.onnx")[1].startswith("paths start at this folder")


def refused(folder: Path, line: str) -> tuple[str, str]:
    with pytest.raises(MobuildError) as caught:
        written(folder, line)
    return caught.value.message, caught.value.hint


def test_the_lines_of_a_script_are_named(folder: Path) -> None:
    script = (
        "#!/bin/sh\n\npython export.py \\\n  --out det.onnx\nonnxsim det.onnx 'a\nb.onnx'\ntrtexec\n  --onnx=det.onnx\n"
    )

    assert refused(folder, script) == (
        "adopt: expected one command, found 3",
        "adopt one at a time: mobuild adopt -- …\nline 5: onnxsim det.onnx 'a b.onnx'\nline 7: trtexec",
    )
    script += "OUT=here\npolygraphy convert $OUT/a.onnx\n"
    assert refused(folder, script)[1].startswith("adopt one at a time, its variables filled in: ")


def test_a_script_that_exports_becomes_a_node_to_paste(folder: Path) -> None:
    _, hint = refused(folder, "python tools/export.py --weights w/det.pt --names 'a b' --out=det_raw.onnx")

    command = "python tools/export.py --weights {in.weights} --names 'a b' --out={out}"
    assert hint == (
        "as a node of kind command, to paste into a recipe:\nnodes:\n"
        "  weights: {kind: source, uri: w/det.pt}\n"
        f'  onnx: {{kind: command, cmd: "{command}", needs: {{weights: weights}}, out: .onnx}}'
    )


def test_a_model_that_an_adopted_recipe_makes_is_traced_to_it(tmp_path: Path) -> None:
    detector(tmp_path / "det.onnx")
    written(tmp_path, "onnxsim det.onnx det_sim.onnx")

    message, hint = refused(tmp_path, "trtexec --onnx=det_sim.onnx --fp16")

    assert message == f"adopt: det_sim.onnx: there is no such file in {tmp_path}"
    assert hint == (
        "node 'sanitized' of recipe 'det' makes it, and its engine is mobuild target=engine recipe=det;\n"
        "or adopt the path that this prints: mobuild target=sanitized recipe=det"
    )
