"""Every name of TensorRT that our code writes exists in every release that the code is for.

The names are read from the source; the releases are recorded from the real bindings (`record_tensorrt_api.py`), that of
TensorRT-RTX is asked itself. What is only for TensorRT 10 stands in `tensorrt_versions` and nowhere else.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from record_tensorrt_api import RECORDED

import mobuild
from mobuild.backends.tensorrt_versions import COMPATIBILITY, WEAK_FLAGS

API: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
PACKAGE = Path(mobuild.__file__).parent
SHARED = ("backends/network_builder.py", "backends/builder_log.py", "backends/parser_errors.py", "runtime/plans.py")
OWN = ("backends/tensorrt.py", "backends/timing_cache.py")
VERSIONS = "backends/tensorrt_versions.py"
# What our variables and attributes hold.
HELD = {
    "config": "IBuilderConfig",
    "_builder": "Builder",
    "_network": "INetworkDefinition",
    "_parser": "OnnxParser",
    "profile": "IOptimizationProfile",
    "_runtime": "Runtime",
    "_engine": "ICudaEngine",
    "_context": "IExecutionContext",
    "parser_error": "ParserError",
    "own": "ITimingCache",
    "whole": "ITimingCache",
}
ONLY_TEN = {
    ("IInt8EntropyCalibrator2", ""),
    ("IBuilderConfig", "int8_calibrator"),
    ("IBuilderConfig", "set_calibration_profile"),
}


def names(file: str) -> set[tuple[str, str]]:
    """(class, member) pairs that a source file names; (name, "") for classes and functions of the package."""
    return set(_names(ast.parse((PACKAGE / file).read_text())))


def _names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            path = ast.unparse(node).split(".")
            while path[0] in ("self", "builder"):
                path = path[1:]
            if path[0] in ("trt", "_trt") and len(path) in (2, 3):
                yield path[1], "".join(path[2:]).replace("__members__", "")
            elif path[-2:-1] == ["get_plugin_registry()"]:
                yield "IPluginRegistry", path[-1]
            elif len(path) == 2 and path[0] in HELD:
                yield HELD[path[0]], path[1]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first = node.args[0]
            cls = {"set": "IBuilderConfig", "limit": "MemoryPoolType", "set_flag": "BuilderFlag"}.get(node.func.attr)
            if cls and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield cls, first.value


def lacking(api: dict[str, Any], wanted: set[tuple[str, str]]) -> set[tuple[str, str]]:
    def has(cls: str, member: str) -> bool:
        return (cls in api or cls in api["functions"]) if not member else member in api.get(cls, ())

    named = ((cls, member) for cls, member in wanted if not cls.startswith("_") and not member.startswith("_"))
    return {(cls, member) for cls, member in named if not has(cls, member)}


@pytest.mark.parametrize("version", API)
@pytest.mark.parametrize("file", [*SHARED, *OWN])
def test_every_name_of_the_shared_code_is_in_every_release(file: str, version: str) -> None:
    assert lacking(API[version], names(file)) == set()


@pytest.mark.parametrize("file", SHARED)
def test_every_name_of_the_shared_code_is_in_tensorrt_rtx(file: str) -> None:
    import tensorrt_rtx

    api: dict[str, Any] = {name: dir(value) for name, value in vars(tensorrt_rtx).items() if isinstance(value, type)}
    api["functions"] = [name for name, value in vars(tensorrt_rtx).items() if callable(value)]

    assert lacking(api, names(file)) == set()


@pytest.mark.parametrize("version", API)
def test_what_is_for_tensorrt_10_alone_is_in_it_and_gone_in_11(version: str) -> None:
    missing = lacking(API[version], names(VERSIONS) | {("BuilderFlag", flag) for flag in sum(WEAK_FLAGS.values(), ())})

    flags = {("BuilderFlag", "FP16"), ("BuilderFlag", "BF16"), ("BuilderFlag", "INT8")}
    assert missing == (set() if version.startswith("10") else ONLY_TEN | flags)


@pytest.mark.parametrize("version", API)
def test_compatibility_levels_begin_when_we_say(version: str) -> None:
    for word, since in COMPATIBILITY.items():
        is_there = word.upper() in API[version]["HardwareCompatibilityLevel"]
        assert is_there == (tuple(map(int, version.split("."))) >= tuple(map(int, (since or "0").split("."))))


def test_the_scan_sees_what_the_code_names() -> None:
    seen = set().union(*(names(file) for file in (*SHARED, *OWN, VERSIONS)))

    assert len(seen) > 50
    assert {
        ("NetworkDefinitionCreationFlag", "STRONGLY_TYPED"),
        ("IBuilderConfig", "hardware_compatibility_level"),
        ("BuilderFlag", "VERSION_COMPATIBLE"),
        ("MemoryPoolType", "WORKSPACE"),
        ("ITimingCache", "combine"),
        ("IPluginRegistry", "load_library"),
        ("Builder", "build_serialized_network"),
        ("IExecutionContext", "execute_async_v3"),
    } <= seen


def test_what_differs_between_releases_is_short_and_in_one_place() -> None:
    assert len((PACKAGE / VERSIONS).read_text().splitlines()) < 80
    others = [file for file in PACKAGE.glob("backends/*.py") if file.name != Path(VERSIONS).name]
    assert not [file.name for file in others if "int8_calibrator" in file.read_text() or "FP16" in file.read_text()]
