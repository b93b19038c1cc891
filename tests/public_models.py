"""ONNX files that packages of the public index ship: what `check` says of each, and what TensorRT-RTX makes of it.

By hand, since the wheels are fetched and each file is built:

    pip download -q --no-deps -d wheels silero-vad==6.2.3 magika==1.0.3 rapidocr-onnxruntime==1.4.4 \\
        basic-pitch==0.4.0 ddddocr==1.6.1
    python -m tests.public_models wheels [HARDWARE]

Prints a row for each file, and ends with status 1 when a prediction was wrong: an error for what builds, or none
for what does not. The files that onnx and onnxruntime ship are tried as well.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from tests.projects import Project

# What may stand in the way of a build of the raw file; a prediction that was wrong must not decide the outcome.
IGNORED = "check.ignore=[R3,R9,R10,F1,F2,O1,S1,Q1,Q2,M1,T1]"
_OCR = "p2o.DynamicDimension."


@dataclass(frozen=True)
class Public:
    """One file of a distribution, and the sizes that it is built for."""

    distribution: str
    member: str
    shapes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.distribution}/{Path(self.member).name}"


_SILERO = {"batch": [1, 1, 8], "sequence": 576}
FETCHED = (
    Public("silero_vad", "silero_vad/data/silero_vad.onnx", {"input_0": 1, "input_1": 512, "state_1": 1}),
    Public("silero_vad", "silero_vad/data/silero_vad_16k_op15.onnx", _SILERO),
    Public("silero_vad", "silero_vad/data/silero_vad_half.onnx", _SILERO),
    Public("silero_vad", "silero_vad/data/silero_vad_op18_ifless.onnx", _SILERO),
    Public("silero_vad", "silero_vad/data/silero_vad_16k_sequence.onnx", {"sequence_length": [1, 64, 512]}),
    Public("silero_vad", "silero_vad/data/silero_vad_openvino_16k.onnx"),
    Public("magika", "magika/models/standard_v3_3/model.onnx", {"unk__214": [1, 4, 8]}),
    Public(
        "rapidocr_onnxruntime",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        {f"{_OCR}0": 1, f"{_OCR}1": [64, 320, 960], f"{_OCR}2": [64, 320, 960]},
    ),
    Public(
        "rapidocr_onnxruntime",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        {f"{_OCR}0": [1, 1, 4], "?": 48, f"{_OCR}1": [48, 320, 640]},
    ),
    Public(
        "rapidocr_onnxruntime",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x_0": [1, 1, 4], "?": 48},
    ),
    Public("basic_pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx", {"unk__749": [1, 2, 4]}),
    Public("ddddocr", "ddddocr/common.onnx", {"image_width": [64, 128, 256]}),
    Public("ddddocr", "ddddocr/common_old.onnx", {"image_width": [64, 128, 256]}),
    Public("ddddocr", "ddddocr/common_det.onnx"),
)
_LIGHT = "onnx/backend/test/data/light/light_"
_NETS = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "zfnet512",
)
INSTALLED = (
    *(Public("onnx", f"{_LIGHT}{name}.onnx") for name in _NETS),
    Public("onnx", "onnx/backend/test/data/simple/test_sequence_model1/model.onnx"),
    Public("onnx", "onnx/backend/test/data/simple/test_strnorm_model_nostopwords_nochangecase/model.onnx"),
    Public("onnx", "onnx/backend/test/data/simple/test_shrink/model.onnx"),
    Public("onnx", "onnx/backend/test/data/simple/test_single_relu_model/model.onnx"),
    Public("onnxruntime", "onnxruntime/datasets/mul_1.onnx"),
    Public("onnxruntime", "onnxruntime/datasets/sigmoid.onnx"),
    Public("onnxruntime", "onnxruntime/datasets/logreg_iris.onnx"),
)


@dataclass(frozen=True)
class Outcome:
    """What check said (codes with their severity) and what came of the build (`built`, or the builder's words)."""

    said: tuple[str, ...]
    built: str

    @property
    def predicted(self) -> bool:
        return any(each.endswith("!") for each in self.said) != (self.built == "built")


def installed(public: Public) -> Path | None:
    """The file in the environment; None where its package is not installed."""
    spec = find_spec(public.distribution)
    places = spec.submodule_search_locations if spec else None
    file = Path(places[0]).parent / public.member if places else None
    return file if file and file.is_file() else None


def tried(public: Public, file: Path, folder: Path, hardware: str = "l20") -> Outcome:
    """Check a file, and build a TensorRT-RTX engine of it as it is."""
    project = Project(folder / "project", folder / "cache")
    project.write("conf/shapes/public.yaml", yaml.safe_dump(dict(public.shapes)))
    (project.root / "model.onnx").symlink_to(file)
    words = ["model=model.onnx", f"hardware={hardware}", "shapes=public", "nodes.engine.needs={model: onnx}"]
    document = json.loads(project.mobuild("check", "format=json", *words, check=False).out)
    told = {(each["code"], each["severity"]) for each in document["findings"]}
    said = tuple(sorted(f"{code}{'!' if severity == 'error' else ''}" for code, severity in told))
    done = project.mobuild("target=engine", *words, IGNORED, check=False)
    assert "fault of mobuild" not in done.err, done.err
    return Outcome(said, "built" if done.status == 0 else done.errors[0].partition("\n")[0])


def fetched(wheels: Path, folder: Path) -> Iterator[tuple[Public, Path]]:
    """The files in the wheels of a folder, unpacked."""
    for public in FETCHED:
        wheel = next(iter(wheels.glob(f"{public.distribution}-*.whl")), None)
        if wheel:
            yield public, Path(zipfile.ZipFile(wheel).extract(public.member, folder / public.distribution))


def main(wheels: Path, hardware: str = "l20") -> int:
    """Print the table."""
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        known = [(public, file) for public in INSTALLED if (file := installed(public))]
        for number, (public, file) in enumerate([*fetched(wheels, folder), *known]):
            outcome = tried(public, file, folder / str(number), hardware)
            wrong += not outcome.predicted
            verdict = "" if outcome.predicted else "WRONG  "
            print(f"| {public.name} | {' '.join(outcome.said) or '–'} | {verdict}{outcome.built[:150]} |", flush=True)
    print(f"{number + 1} files, {wrong} predicted wrongly")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
