"""`toolchain.python`: the user's code runs under another interpreter, with what is installed there."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.projects import Project, code_project

RECIPE = """\
# @package _global_
defaults: [/recipe/standard, _self_]
nodes:
  onnx:
    needs: {weights: null}
    model: "net.py:load"
    exporter: torchscript
    inputs: {x: [batch, 8]}
  seen: {_target_: sights.Sight}
  copy: {kind: command, cmd: "cp {in.text} {out}", needs: {text: seen}, out: .txt}
"""

MODULE = """\
import torch
from scaling import FACTOR


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.layer(x) * FACTOR


def load():
    return Net()
"""

KIND = '''\
"""A kind of the user's: writes what its interpreter is and sees."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Mapping

from mobuild.node import Built

ASKED = ("torch", "hydra", "omegaconf", "joblib", "xxhash", "rich", "scaling")


@dataclass(frozen=True)
class Sight:
    kind: ClassVar[str] = "sight"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = True
    suffix: ClassVar[str] = ".txt"
    tools: ClassVar[tuple] = ("python",)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        there = [name for name in ASKED if importlib.util.find_spec(name)]
        out.write_text(json.dumps([list(sys.version_info[:2]), there]))
        return Built()
'''

PYTHON38 = Path.home() / ".pyenv/versions/3.8.18/bin/python3"


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`scaling` 1.0 and 2.0, whose FACTOR is their version, and `bystander`, which nobody imports."""
    out = tmp_path_factory.mktemp("wheels")
    for name, version in (("scaling", "1.0"), ("scaling", "2.0"), ("bystander", "1.0")):
        source = tmp_path_factory.mktemp("source")
        (source / name).mkdir()
        (source / name / "__init__.py").write_text(f"FACTOR = {version}\n")
        (source / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
            f'[project]\nname = "{name}"\nversion = "{version}"\n'
        )
        run("-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(source))
    return out


def run(*words: str) -> None:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class Interpreter:
    """A virtual environment beside the project. With torch, it sees this environment's packages after its own."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder, self.wheels = folder, wheels
        run("-m", "venv", "--without-pip", str(folder))

    def install(self, requirement: str) -> Interpreter:
        pip = ("-m", "pip", "--python", str(self.folder / "bin/python"))
        run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--find-links", str(self.wheels), requirement)
        return self

    def with_torch(self) -> Interpreter:
        site = next((self.folder / "lib").glob("python*/site-packages"))
        (site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
        return self


@pytest.fixture
def project(tmp_path: Path, wheels: Path) -> Project:
    made = Project(tmp_path / "project", tmp_path / "cache")
    made.write("recipes/net.yaml", RECIPE)
    made.write("recipes/net.py", MODULE)
    made.write("sights.py", KIND)
    return made


def under(name: str) -> str:
    return f"toolchain.python=./{name}/bin/python"


def states(project: Project, *words: str) -> dict[str, str]:
    """Node → state and reason of a plan."""
    steps = json.loads(project.mobuild("plan", "format=json", *words).out)["steps"]
    return {step["node"].split()[-1]: "; ".join([step["state"], *step["reasons"]]) for step in steps}


def sidecar(artifact: str) -> dict[str, dict[str, dict[str, str]]]:
    document: dict[str, dict[str, dict[str, str]]] = json.loads(Path(f"{artifact}.json").read_text())
    return document


def test_each_interpreter_makes_its_own_artifact_and_going_back_is_a_hit(project: Project, wheels: Path) -> None:
    for name, requirement in (("old", "scaling==1.0"), ("new", "scaling==2.0")):
        Interpreter(project.root / name, wheels).install(requirement).with_torch()

    old, new = (project.mobuild("target=onnx", under(name)).out.strip() for name in ("old", "new"))

    assert Path(old).read_bytes() != Path(new).read_bytes()
    assert [sidecar(each)["fingerprint"]["toolchain"]["scaling"] for each in (old, new)] == ["1.0", "2.0"]
    assert states(project, "target=onnx", under("old")) == {"onnx": "fresh"}
    assert states(project, "target=onnx", under("new")) == {"onnx": "fresh"}


def test_an_upgrade_there_is_stale_only_when_the_code_imports_it(project: Project, wheels: Path) -> None:
    foreign = Interpreter(project.root / "venv", wheels).install("scaling==1.0").with_torch()
    project.mobuild("target=onnx", under("venv"))

    foreign.install("bystander==1.0")
    after_the_bystander = states(project, "target=onnx", under("venv"))
    foreign.install("scaling==2.0")
    after_the_upgrade = states(project, "target=onnx", under("venv"))
    foreign.install("scaling==1.0")
    after_the_return = states(project, "target=onnx", under("venv"))

    assert after_the_bystander == after_the_return == {"onnx": "fresh"}
    assert after_the_upgrade == {"onnx": "stale; toolchain.scaling: 1.0 → 2.0"}


def test_an_interpreter_without_torch_is_named_with_what_to_install(project: Project, wheels: Path) -> None:
    Interpreter(project.root / "venv", wheels).install("scaling==1.0")

    done = project.mobuild("target=onnx", under("venv"), check=False)

    python = project.root / "venv/bin/python"
    assert done.status == 1
    assert (
        f"error: node 'onnx': needs the module 'torch', which {python} does not have\n"
        f"  install it: {python} -m pip install torch onnx onnxscript onnxruntime numpy\n"
    ) in done.err


def test_an_interpreter_that_is_not_there_is_named(project: Project) -> None:
    done = project.mobuild("target=onnx", under("venv"), check=False)

    assert done.status == 1
    assert (
        f"error: recipe 'net', node 'onnx': python '{project.root}/venv/bin/python': there is no such file\n"
        "  python: of the node, or toolchain.python, names an interpreter, such as ./venv/bin/python\n"
    ) in done.err


def test_an_interpreter_sees_its_own_packages_and_none_of_mobuilds(project: Project, wheels: Path) -> None:
    Interpreter(project.root / "venv", wheels).install("scaling==1.0")

    seen = project.mobuild("target=seen", under("venv"), env={"PYTHONPATH": str(project.root)}).out.strip()

    assert json.loads(Path(seen).read_text()) == [list(sys.version_info[:2]), ["scaling"]]


@pytest.mark.skipif(not PYTHON38.exists(), reason=f"no interpreter {PYTHON38}")
def test_jobs_of_one_sweep_see_the_packages_of_their_own_interpreters(tmp_path: Path) -> None:
    """The package is imported by a name that is made at run time, so that its version is in no key."""
    project = code_project(
        tmp_path, "import importlib\n\n\ndef load():\n    return importlib.import_module('ga' + 'in').GAIN\n"
    )
    for name, gain in (("one", 1), ("two", 2)):
        venv.create(project.root / name)
        site = next((project.root / name / "lib").glob("python*/site-packages"))
        (site / "gain.py").write_text(f"GAIN = {gain}\n")
        (site / f"gain-{gain}.dist-info").mkdir()
        (site / f"gain-{gain}.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: gain\nVersion: {gain}\n")
        (site / f"gain-{gain}.dist-info/RECORD").write_text("gain.py,,\n")

    done = project.mobuild("-m", "target=n", "toolchain.python=./one/bin/python,./two/bin/python")

    assert [Path(line).read_text() for line in done.out.splitlines()] == ["1", "2"]


def test_nodes_run_under_python_38(project: Project) -> None:
    done = project.mobuild("target=copy", f"toolchain.python={PYTHON38}", env={"PYTHONPATH": str(project.root)})

    assert json.loads(Path(done.out.strip()).read_text())[0] == [3, 8]
