"""What to do about a failure of a tool: its words, the cause and the remedy, in the order in which they are tried.

A pattern is the shape of a message as it was met: by us (`reference` is the tool's version; tests provoke those with
a small network, but for the assertion on scopes: nested `If`s over a whole model of megabytes fail with it, small ones
build) or in the public report that `reference` names. Every error that leaves a builder, an exporter, a simplifier or a
runtime passes through here. Keeps Python 3.8 syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable

_RTX = "TensorRT-RTX 1.7.1"


@dataclass(frozen=True)
class Remedy:
    """For messages in which `pattern`, a regular expression, is found. `is_failure` marks what builders only warn
    of although the engine would be wrong or fail when it runs, `of_versions` what two TensorRT on one machine cause,
    `is_harmless` what costs time and no more."""

    pattern: str
    cause: str
    fix: str
    reference: str
    is_failure: bool = False
    of_versions: bool = False
    is_harmless: bool = False

    @property
    def hint(self) -> str:
        return f"{self.cause}: {self.fix}"


REMEDIES = (
    Remedy(
        r"Turing \(SM75\): FP32 GEMM is not supported",
        "Turing has no fp32 matrix product in TensorRT-RTX",
        "build a model of float16 (precision=fp16),\nor for a card of compute capability 8.0 or newer (hardware=l4)",
        _RTX,
    ),
    Remedy(
        r"HW-specific datatypes: b16",
        "Turing has no bfloat16",
        "precision=fp16, or a card of compute capability 8.0 or newer (hardware=l4)",
        _RTX,
    ),
    Remedy(
        r"OutOfMemory|within workspace limit",
        "the builder has too little scratch memory",
        "give it more: workspace=4GiB",
        _RTX,
    ),
    Remedy(
        r"no optimization profile has been defined",
        "a dynamic axis has no size, or an integer input that holds sizes has no values",
        "give every dynamic axis its sizes (shapes.batch=[1,8,32]),\nand such an input what it holds at min, opt "
        "and max (shapes.size=[[1,8],[2,16],[4,32]]); mobuild check names them",
        f"{_RTX}; NVIDIA/TensorRT#1116, #768",
    ),
    Remedy(
        r"Invalid optimization profiles for input|missing dimensions in profile",
        "the sizes of an input do not fit the model",
        "give every dynamic axis its sizes in rising order: shapes.batch=[1,8,32]",
        _RTX,
    ),
    Remedy(
        r"k(?:MIN|OPT|MAX) values are not self-consistent|reshape would change volume",
        "a size is a constant inside the graph (a Reshape, most often), so the other sizes fail when the engine runs",
        "export again with that axis dynamic, at the operator that the message names",
        "roboflow/rf-detr#376, ultralytics/ultralytics#17541",
        is_failure=True,
    ),
    Remedy(
        r"violate shape constraints",
        "sizes of a profile do not go together, or not with a size that is a constant inside the graph",
        "give axes that meet at the operator that the message names the same sizes (shapes),\n"
        "or export again with that axis dynamic",
        _RTX,
        is_failure=True,
    ),
    Remedy(
        r"Must have inputs with equal ranks when condition is not a build-time constant",
        "the branches of an `If` return tensors of different rank",
        "export the model without that branch,\nor use backend=onnxruntime",
        _RTX,
    ),
    Remedy(
        r"tScope\.getType\(\) != ScopeType::kUNDEFINED",
        "the builder cannot compile an `If` of this model",
        "export the model without that branch,\nor use backend=onnxruntime",
        _RTX,
    ),
    Remedy(
        r"libnvinfer_lean",
        "a version-compatible plan holds the lean runtime, which is not installed",
        "install libnvinfer_lean of the same version, or leave it out of the plan\n"
        "(backend.exclude_lean_runtime=true; raw: {EXCLUDE_LEAN_RUNTIME: true})",
        _RTX,
    ),
    Remedy(
        r"CHECK\(status == CUDA_SUCCESS\) failed",
        "REFIT, REFIT_IDENTICAL and STRIP_PLAN need a GPU while building",
        "leave them out of raw,\nor build on a machine with one",
        _RTX,
    ),
    Remedy(
        r"getCreators could not be loaded|No creator returned by getPluginCreators",
        "the library exports no TensorRT plugins",
        "a plugin library has the functions getCreators and setLoggerFinder (TensorRT developer guide, Plugin\n"
        "Shared Libraries); build it so, or take it out of backend.plugins",
        _RTX,
    ),
    Remedy(
        r"loadLibrary.*Unable to load library",
        "a plugin library, or a library that it needs, cannot be loaded",
        "ldd tells what is missing; it must be built for this TensorRT and this machine",
        _RTX,
    ),
    Remedy(
        r"[Pp]lugin not found, are the plugin name, version, and namespace correct",
        "the parser neither has the operator nor finds a plugin of that name",
        "name the library that holds it (backend.plugins=[path]), export the model without the operator,\n"
        "or use backend=onnxruntime",
        "NVIDIA/TensorRT#1775, open-mmlab/mmdeploy#2398",
    ),
    Remedy(
        r"Pre-opset 7 broadcasting is unsupported",
        "the model's opset is older than 7, whose operators broadcast otherwise",
        "export the model with opset 13 or newer, or convert it: onnx.version_converter.convert_version(model, 13)",
        _RTX,
    ),
    Remedy(
        r"legalUINT8|unsupported input type of UINT8|has type UInt8",
        "uint8 is for inputs and outputs of the model",
        "cast to float or int32 before anything else, and back at the end, or use backend=onnxruntime",
        _RTX,
    ),
    Remedy(
        r"convertOnnxWeights|Failed to convert ONNX date type|Unable to convert ONNX weights|sparse_value",
        "a tensor is sparse, or of a type that TensorRT lacks (string, uint16, uint32, uint64, int16, complex)",
        "export the model with float32, float16, int32, int64 or bool there, or use backend=onnxruntime",
        _RTX,
    ),
    Remedy(
        r"UNSUPPORTED_NODE",
        "the builder has no such operator, or not in this form",
        "export the model without it, or use backend=onnxruntime",
        _RTX,
    ),
    Remedy(
        r"MODEL_DESERIALIZE_FAILED",
        "the ONNX file is damaged or of another format",
        "fetch or export it again",
        _RTX,
    ),
    Remedy(
        r"[Nn]on-?zero zero.?point is not supported|zeroPoint.* (?:must|should) be (?:0|zero)",
        "the model was quantised asymmetrically, or dynamically",
        "TensorRT takes symmetric static int8: give mobuild the float model and precision=int8",
        "NVIDIA/TensorRT#4698, #2774",
    ),
    Remedy(
        r"has no attribute '(?:FP16|BF16|INT8|FP8|INT4)'",
        "TensorRT 11 has no precision flags",
        "put the types into the graph (precision=fp16 does it), or pin tensorrt<11",
        "yuvraj108c/ComfyUI-Rife-Tensorrt#25",
    ),
    Remedy(
        r"no attribute 'max_workspace_size'",
        "TensorRT 10 removed it",
        "set the limit of the memory pool: workspace=4GiB",
        "NVIDIA/TensorRT#3923, #3816",
    ),
    Remedy(
        r"Version tag does not match|incompatible with serialization format|plan file version"
        r"|plan file is not compatible with this version|expecting library version \S+ got",
        "another TensorRT built this engine than the one that opens it",
        "build it again where it shall run, or for that version (backend.version='\"10.3\"'): mobuild keys the\n"
        "version, so the plan was carried here, or a process finds another library. When both are meant to be\n"
        "one ('expecting' opens it, 'got' built it), compare the paths of the two libnvinfer\n"
        "(python -c 'import tensorrt; print(tensorrt.__version__, tensorrt.__file__)')",
        "yuvraj108c/ComfyUI-Dwpose-Tensorrt#5, NVIDIA/TensorRT#3898, #2544, triton-inference-server/server#317",
        of_versions=True,
    ),
    Remedy(
        r"generated on an incompatible device|compiled for a different (?:compute capability|device)"
        r"|is not supported by the device|not compatible with the (?:current )?device",
        "the engine is for another GPU",
        "build it for this one (hardware=auto), or for a family: backend.hardware_compatibility=ampere_plus",
        "microsoft/onnxruntime#15250, NVIDIA/TensorRT#564",
    ),
    Remedy(
        r"trtexec(?:'|\"|`)?: (?:command )?not found|trtexec: No such file",
        "TensorRT's pip packages have no trtexec, and its other packages put it outside of PATH",
        "it is /usr/src/tensorrt/bin/trtexec of apt install libnvinfer-bin, and in NVIDIA's containers\n"
        "(nvcr.io/nvidia/tensorrt); mobuild builds without it (target=engine)",
        "NVIDIA/TensorRT#2780, wang-xinyu/tensorrtx#620",
    ),
    Remedy(
        r"timing cache will not be used|invalid timing cache",
        "the timing cache is of another version or card, or cut off",
        "nothing is lost but time; a new one is begun",
        "NVIDIA/TensorRT#3566, #1413, NVIDIA/TensorRT-LLM#489",
        is_harmless=True,
    ),
    Remedy(
        r"[Cc]alibration table does not match calibrator algorithm",
        "another TensorRT or another algorithm wrote the calibration cache",
        "calibrate again with this version, or put Q/DQ into the graph (backend.typing=strong, precision=int8)",
        "NVIDIA developer forum, reports on TRT-8600 tables under TensorRT 10",
    ),
    Remedy(
        r"finite FP32 values which would overflow in FP16",
        "weights lie beyond 65504, the largest half",
        "keep those tensors in fp32 (nodes.quantized.keep_fp32), or use precision=bf16",
        "NVIDIA/TensorRT#3101",
    ),
    Remedy(
        r"External data path.*escapes",
        "the weights are reached by a link that leaves the model's folder",
        "copy the file beside the model, or link the whole folder",
        "microsoft/onnxruntime#27353, qdrant/fastembed#603",
    ),
    Remedy(
        r"Unsupported model IR version",
        "the model's format is newer than this ONNX Runtime",
        "update onnxruntime, or export with the onnx of its time; the IR version may be lowered where the opset allows",
        "microsoft/onnxruntime#23602, enpasos/jax2onnx#28",
    ),
    Remedy(
        r"Field 'shape' of '?type'? is required but missing",
        "an output of the graph has no shape",
        "run shape inference before the simplifier, or leave that out (kind sanitize does both)",
        "onnxsim/onnxsim#45",
    ),
    Remedy(
        r"Failed to serialize proto|have an ir_version set properly|exceeds maximum protobuf size",
        "the model is larger than 2 GiB, which protobuf cannot hold in one piece",
        "keep its weights in external data (kind export does), and give tools the path, not the object",
        "onnxsim/onnxsim#262, PR 425",
    ),
    Remedy(
        r"Quantization parameters are not specified for param",
        "calibration never saw this tensor",
        "run shape inference on the model first (kind sanitize does), and calibrate the model that is quantised",
        "microsoft/onnxruntime#11928, #8770",
    ),
    Remedy(
        r"indices element out of data bounds",
        "an index lies beyond an embedding or position table: tokenizer and model do not fit, or the text is too long",
        "check the tokenizer's size, its padding token and the longest sequence in shapes",
        "michaelfeil/infinity#330, MemPalace/mempalace#2114",
    ),
    Remedy(
        r"cudaError 35|driver version is insufficient for CUDA runtime version",
        "there is no GPU here, or its driver is too old",
        "backend=tensorrt_rtx builds for a named card with no GPU (hardware=l4); where one is, update its driver",
        _RTX,
    ),
    Remedy(
        r"Unable to allocate [\d.]+ \w+ for an array|DefaultCPUAllocator: can't allocate memory",
        "the machine has less memory than its sizes ask for",
        "smaller ones: shapes.…, the batch of the data, or a larger machine",
        "numpy 2.4, torch 2.13",
    ),
)


def remedy(words: str) -> str:
    """The hint of the first remedy for a tool's message; empty when none is known."""
    return next((each.hint for each in REMEDIES if re.search(each.pattern, words)), "")


def failures(warnings: Iterable[str]) -> tuple[str, ...]:
    """Those of a builder's warnings that tell of a wrong engine."""
    grave = [each for each in REMEDIES if each.is_failure]
    return tuple(text for text in warnings if any(re.search(each.pattern, text) for each in grave))


def explained(warnings: Iterable[str]) -> tuple[str, ...]:
    """Those of a builder's warnings whose cause is known, each with it, for the user; equal causes once."""
    found: dict[Remedy, str] = {}
    for text in warnings:
        known = next((each for each in REMEDIES if re.search(each.pattern, text)), None)
        if known:
            found.setdefault(known, f"{' '.join(text.split())} ({known.cause}: {known.fix})")
    return tuple(found.values())
