"""`mobuild schema`: editors complete what there is, and flag what there is not."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.projects import RECIPE, Project, recipe_project

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
HARDWARE = sorted((ROOT / "conf/hardware").rglob("*.yaml"))
OWN_KIND = '''
from dataclasses import dataclass
from typing import ClassVar, Mapping


@dataclass(frozen=True)
class Checksum:
    """A digest of one file. `algorithm` is one of hashlib's."""

    algorithm: str = "sha256"
    lines: int = 1  # of the text
    kind: ClassVar[str] = "checksum"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False
'''


def schema_of(project: Project, **environment: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(project.mobuild("schema", env=environment).out)
    Draft202012Validator.check_schema(document)
    return document


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a kind, a key, hardware and a backend of its own."""
    files = {
        "own_kinds.py": OWN_KIND,
        "conf/node/checksum.yaml": "_target_: own_kinds.Checksum\nneeds: {file: weights}\n",
        "conf/hardware/mine.yaml": "name: mine\nvendor: cpu\nbackends: [onnxruntime]\n",
        "conf/precision/mixed.yaml": "# @package _global_\nprecision: fp16\n",
        "recipes/other.yaml": "# @package _global_\nwidth: 640\nnodes:\n  prep: {kind: command, cmd: 'x ${width}'}\n",
    }
    return recipe_project(tmp_path_factory.mktemp("schema"), "  sum: {kind: checksum}\n", files)


@pytest.fixture(scope="module")
def schema(project: Project) -> dict[str, Any]:
    return schema_of(project, PYTHONPATH=str(project.root))


def errors(schema: dict[str, Any], text: str) -> list[str]:
    """Where something is wrong."""
    found: list[str] = []
    for error in Draft202012Validator(schema).iter_errors(yaml.safe_load(text)):
        found.append(f"{error.json_path}: {error.message}")
    return found


@pytest.mark.parametrize("path", [*RECIPES, *HARDWARE], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_shipped_file_is_valid(schema: dict[str, Any], path: Path) -> None:
    assert errors(schema, path.read_text()) == []


def test_every_recipe_of_the_documentation_is_valid(schema: dict[str, Any]) -> None:
    pages = [(ROOT / name).read_text() for name in ("README.md", "recipes/README.md")]
    blocks = [block for page in pages for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    shown = [
        block
        for block in blocks
        if block.lstrip("# \n").startswith(("nodes:", "@package", "recipes/")) and "…" not in block
    ]

    assert len(shown) >= 4
    assert [(block, found) for block in shown if (found := errors(schema, block))] == []


def test_the_projects_own_kind_key_and_choices_are_known(schema: dict[str, Any], project: Project) -> None:
    for name in ("small", "other"):
        assert errors(schema, (project.root / f"recipes/{name}.yaml").read_text()) == []
    kind = schema["$defs"]["kind.checksum"]
    assert kind["description"] == "A digest of one file. `algorithm` is one of hashlib's."
    assert kind["properties"]["algorithm"]["default"] == "sha256"
    assert kind["properties"]["lines"]["description"] == "of the text"
    assert errors(schema, "precision: mixed") == []
    assert errors(schema, "nodes: {sum: {lines: two}}") and errors(schema, "nodes: {sum: {line: 2}}")


VALID = [
    RECIPE,
    "nodes: {onnx: {opset: '${opset}', raw: {x: 1}}}",
    "nodes: {enc: {precision: int8, shapes: {n: 1}, onnx: {kind: export, model: 'a.py:b'}}}",
    "nodes: {prep: {cmd: x}, mine: {_target_: a.B, anything: 1}}",
    "nodes: {engine: {needs: {model: onnx}, timeout_seconds: 60, python: null, env: {A: null}}}",
    "shapes: [{batch: 1}, {batch: [1, 2, 3]}]",
    "shapes: {batch: '${width}'}",
    "constraints: {accuracy_drop: 0.1, cosine_min: null, against: {ref: v1, accuracy_drop: 0.1}}",
    "constraints: '${mine}'",
    "backend: {name: tensorrt, version: '10.16'}",
    "backend: onnxruntime",
    "backend: {tensorrt: {version: '10.9', raw: {}, rest: fp16}, onnxruntime: {level: all}}",
    "nodes: {engine: {backend: {tensorrt_rtx: {raw: {x: 1}}}}}",
    "toolchain: {python: ./venv/bin/python}",
    "defaults: [/recipe/standard, {override /hardware: l4}, _self_]",
    "target: [onnx, engine]",
    "cache: {strict: true}",
    "frozen: '${oc.env:CI,false}'",
]


@pytest.mark.parametrize("text", VALID)
def test_what_is_right_is_not_flagged(schema: dict[str, Any], text: str) -> None:
    assert errors(schema, text) == []


TYPOS = {
    "precison: fp16": "$: Additional properties are not allowed ('precison' was unexpected)",
    "nodes: {onnx: {opsett: 17}}": "$.nodes.onnx: Additional properties are not allowed ('opsett' was unexpected)",
    "nodes: {onnx: {opset: seventeen}}": "$.nodes.onnx.opset: 'seventeen' is not valid",
    "nodes: {onnx: {kind: exprot}}": "$.nodes.onnx.kind: 'exprot' is not one of",
    "nodes: {new: {cmd: x}}": "$.nodes.new.cmd: 'x' is not of type 'object'",
    "nodes: {new: {kind: command, cdm: x}}": "$.nodes.new: Additional properties are not allowed ('cdm'",
    "nodes: {enc: {onnx: {kind: export, modle: x}}}": "$.nodes.enc.onnx: Additional properties are not",
    "nodes: {enc: {onnx: {opset: 17}}}": "$.nodes.enc.onnx: 'kind' is a required property",
    "nodes: {validation: {data: {npzz: a}}}": "$.nodes.validation.data: ",
    "nodes: {engine: {needs: [onnx]}}": "$.nodes.engine.needs: ",
    "precision: fp15": "$.precision: 'fp15' is not valid",
    "shapes: {batch: [1, 8]}": "$.shapes: ",
    "shapes: {batch: 0}": "$.shapes: ",
    "constraints: {acuracy_drop: 0.1}": "$.constraints: ",
    "constraints: {accuracy_drop: low}": "$.constraints: ",
    "constraints: {against: {accuracy_drop: 0.1}}": "$.constraints: ",
    "backend: {name: tensorrtt}": "$.backend: ",
    "backend: {tensorrt: {level: all}}": "$.backend: ",
    "backend: {onnxruntime: {levle: all}}": "$.backend: ",
    "toolchain: {pyhton: x}": "$.toolchain: ",
    "cache: {strikt: true}": "$.cache: ",
    "keep_going: 'yes'": "$.keep_going: ",
    "name: l4\nvendor: nvidia\nmemory: 24": "$: Additional properties are not allowed ('memory'",
    "name: l4\nvendor: nvidia\ncompute_capability: 8.9": "$.compute_capability: 8.9 is not of type 'string'",
    "name: l4\nbackends: [tensorrt_rxt]": "$.backends: ",
}


@pytest.mark.parametrize("text", TYPOS)
def test_a_slip_is_flagged_where_it_is(schema: dict[str, Any], text: str) -> None:
    found = errors(schema, text)

    assert found and found[0].startswith(TYPOS[text]), found


def test_fields_come_with_what_is_said_of_them(schema: dict[str, Any]) -> None:
    onnx = schema["$defs"]["kind.export"]["properties"]

    assert onnx["opset"]["default"] == 20
    assert "order of the network's arguments" in onnx["inputs"]["description"]
    assert schema["$defs"]["recipe"]["properties"]["keep_going"]["description"] == (
        "after a failure, build what does not depend on it"
    )


def test_a_kind_that_cannot_be_imported_is_left_open(tmp_path: Path) -> None:
    files = {"conf/node/lost.yaml": "_target_: nowhere.Lost\nneeds: {}\n"}
    made = schema_of(recipe_project(tmp_path, "  a: {kind: lost}\n", files))

    assert "additionalProperties" not in made["$defs"]["kind.lost"]
    assert errors(made, "nodes: {a: {kind: lost, anything: 1}}") == []


def test_no_library_of_models_is_imported(project: Project) -> None:
    code = (
        "import sys\nfrom mobuild.cli import run\nassert run(['schema']) == 0\n"
        "print({'torch', 'onnx', 'numpy', 'onnxruntime', 'tensorrt'} & set(sys.modules), file=sys.stderr)"
    )

    assert project.python(code).err.strip() == "set()", sys.version


def test_the_same_project_gives_the_same_bytes(project: Project) -> None:
    assert project.mobuild("schema").out == project.mobuild("schema").out


def test_it_takes_no_words(project: Project) -> None:
    done = project.mobuild("schema", "recipe=small", check=False)

    assert (done.status, done.out) == (2, "")
