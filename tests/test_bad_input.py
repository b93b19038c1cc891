"""What a user gets wrong: status and message name the thing, the place and the fix, and the store keeps what it has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projects import Finished, Project, toy_project


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose engine is in the cache, with files beside it that are wrong in various ways."""
    import torch

    made = toy_project(tmp_path_factory.mktemp("toy"))
    engine = Path(made.mobuild("target=engine").out.strip())
    torch.save({"first.weight": torch.zeros(3, 8)}, made.root / "models/other.pt")
    made.write("recipes/raises.py", "import json\n\n\ndef load(weights):\n    return json.loads('{')\n")
    (made.root / "damaged.onnx").write_bytes(engine.read_bytes()[:200])
    return made


def error(done: Finished) -> list[str]:
    """The lines of the error, its first without the word."""
    lines = done.err.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("error: "))
    found = [lines[first].removeprefix("error: ")]
    for line in lines[first + 1 :]:
        if not line.startswith("  ") or line.startswith("  log: "):
            break
        found.append(line.strip())
    return found


NODE = "recipe 'toy', node"
CASES = {
    "missing weights": (
        ["nodes.weights.uri=models/tyo.pt"],
        1,
        [
            f"{NODE} 'weights': source '{{root}}/models/tyo.pt': there is no such file. Did you mean 'toy.pt'?",
            "put it there, or write where it is: nodes.weights.uri in the recipe",
        ],
    ),
    "missing data": (
        ["precision=int8", "nodes.calibration.data={npz: tones.npz}"],
        1,
        [
            f"{NODE} 'calibration.data': source '{{root}}/tones.npz': there is no such file.",
            "put it there, or write where it is: data: of node 'calibration'",
        ],
    ),
    "missing model": (
        ["model=no.onnx"],
        1,
        [
            "recipe 'no', node 'onnx': source '{root}/no.onnx': there is no such file.",
            "put it there, or write where it is: model=…",
        ],
    ),
    "wrong digest": (
        ["nodes.weights.uri=file://{root}/models/toy.pt", f"nodes.weights.sha256={'0' * 64}"],
        1,
        [f"node 'weights': source 'file://{{root}}/models/toy.pt': expected SHA-256 {'0' * 64}, found "],
    ),
    "weights of another network": (
        ["nodes.weights.uri=models/other.pt"],
        1,
        ["node 'onnx': loader 'toy.py:load': the weights 'other.pt' do not fit the network 'Net'"],
    ),
    "loader that raises": (
        ["nodes.onnx.model=raises.py:load"],
        1,
        ["node 'onnx': loader 'raises.py:load' raises at recipes/raises.py:5 in load: `return json.loads('{{')`: JSON"],
    ),
    "min above opt": (
        ["shapes.batch=[8,4,16]"],
        1,
        [
            "recipe 'toy', hardware 'cpu': P1: node 'engine': shapes: axis 'batch': min 8 is larger than opt 4",
            "write [min, opt, max] in rising order",
        ],
    ),
    "misspelt axis": (
        ["shapes.bacth=[1,4,16]"],
        2,
        [
            f"{NODE} 'engine': shapes: axis 'bacth' is no dynamic axis of the model. Did you mean 'batch'?",
            "dynamic axes: batch of 'x'",
        ],
    ),
    "float version": (
        ["hardware=l4", "++backend={name: tensorrt, version: 10.10}"],
        2,
        [
            f"{NODE} 'engine', field 'backend', field 'version': expected text, found the float 10.1",
            """a number loses its zeros (10.10 becomes 10.1): quote it, "10.10"; on a command line '"10.10"'""",
        ],
    ),
    "card that nothing fits": (
        ["hardware=gtx1070"],
        1,
        [
            "hardware 'gtx1070': none of its backends [tensorrt] is among the builders [tensorrt_rtx, onnxruntime]",
            "R1: compute capability 6.1: TensorRT from 10.0 starts at 7.0; the last TensorRT that fits is 8.6",
        ],
    ),
    "builder that is not installed": (
        ["hardware=l4", "backend=tensorrt"],
        1,
        [
            "node 'engine': backend 'tensorrt': TensorRT is not installed here",
            "TensorRT builds on a machine with the card: pip install 'mobuild[tensorrt]' and the libraries",
        ],
    ),
    "damaged model": (
        ["model=damaged.onnx"],
        1,
        ["{root}/damaged.onnx'"],
    ),
    "model that is not there": (
        ["model=damagde.onnx"],
        1,
        ["recipe 'damagde', node 'onnx': source '{root}/damagde.onnx': there is no such file. Did you mean "],
    ),
}


@pytest.mark.parametrize(("words", "status", "said"), CASES.values(), ids=list(CASES))
def test_bad_input_is_named_with_the_place_and_the_fix(
    toy: Project, words: list[str], status: int, said: list[str]
) -> None:
    done = toy.mobuild("target=engine", *(word.replace("{root}", str(toy.root)) for word in words), check=False)

    assert (done.status, done.out) == (status, "")
    lines = error(done)
    for expected, found in zip(said, lines, strict=False):
        assert expected.format(root=toy.root) in found
    assert len(lines) >= len(said)
    assert "Traceback" not in done.err
    fresh = [line.split()[0] for line in toy.mobuild("plan", "target=engine").out.splitlines()]
    assert fresh == ["fresh"] * 4


def test_a_misspelt_input_is_named(toy: Project) -> None:
    done = toy.mobuild("target=onnx", "nodes.onnx.inputs.z=[batch,8]", check=False)

    assert done.status == 1
    assert error(done)[0].startswith("node 'onnx': no example of the inputs x ['batch', 8], z ['batch', 8] fits: ")


@pytest.fixture
def reader() -> list[str]:
    """The beginning of a command that may not write what it does not own; root may write everything."""
    words = ["setpriv", "--reuid=65534"] if os.geteuid() == 0 else []
    if words and (
        not shutil.which(words[0]) or subprocess.run([*words, sys.executable, "-c", "import mobuild"]).returncode
    ):
        pytest.skip("another user cannot run this Python, or read this checkout")
    return words


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike `tmp_path`."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        subprocess.run(["chmod", "-R", "u+w", name], check=True)


def test_a_read_only_cache_serves_hits_and_says_why_it_cannot_build(
    toy: Project, folder: Path, reader: list[str]
) -> None:
    project = toy.copy(folder)
    shutil.rmtree(project.root / "build/toy")
    subprocess.run(["chmod", "-R", "a+rX,a-w", folder], check=True)
    (project.root / "build").chmod(0o777)

    hit = as_reader(project, reader, "target=engine")
    miss = as_reader(project, reader, "target=engine", "shapes.batch=[1,2,3]")

    assert (hit.status, hit.out) == (0, f"{project.root}/build/toy/cpu/engine.onnx\n"), hit.err
    assert miss.status == 1
    assert error(miss) == [
        f"node 'engine': cache '{project.cache}': is read-only, nothing can be built into it",
        "choose another folder with cache.dir=<folder> or MOBUILD_CACHE=<folder>",
    ]


def as_reader(project: Project, reader: list[str], *words: str) -> Finished:
    done = subprocess.run(
        [*reader, sys.executable, "-m", "mobuild", *words],
        cwd=project.root,
        env={**os.environ, "MOBUILD_CACHE": str(project.cache)},
        capture_output=True,
        text=True,
    )
    return Finished(done.returncode, done.stdout, done.stderr)
