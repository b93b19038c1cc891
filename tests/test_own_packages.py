"""A package of the user's own below `src/`: found, counted, and of its own revision, installed as a link or not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project, write_weights
from tests.test_revisions import git

NODES = """\
  weights: {kind: source, uri: toy.pt}
  onnx:
    kind: export
    needs: {weights: weights}
    model: "code.py:load"
    exporter: torchscript
    inputs: {x: [batch, 8]}
    outputs: [y]
shapes: {batch: 2}
"""
CODE = "from vision.net import build\n\n\ndef load(weights):\n    return build()\n"
NET = "import torch\n\n\ndef build():\n    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())\n"
TOOL = """\
import sys
sys.path.insert(0, "src")
from vision.words import WORD

open(sys.argv[1], "w").write(WORD)
"""
COMMAND = '  word: {kind: command, cmd: "python tool.py {out}", out: .txt, needs: {text: text}}\n'
TEXT = "  text: {kind: source, uri: text.txt}\n"
FILES = {
    "text.txt": "",
    "src/vision/__init__.py": "",
    "src/vision/net.py": NET,
    "src/vision/words.py": "WORD = 'one'\n",
    "recipes/code.py": CODE,
    "tool.py": TOOL,
    ".gitignore": "/build/\n/cache/\n/env/\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = recipe_project(tmp_path, COMMAND + TEXT + NODES, FILES)
    write_weights(project.root / "toy.pt", seed=0)
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    return project


def test_the_src_folder_needs_no_installation_and_counts(project: Project) -> None:
    assert project.built("target=onnx", recipe="small") == {"onnx"}

    project.edit("src/vision/net.py", "ReLU", "GELU")
    told = project.mobuild("why", "target=onnx").out

    assert "code.vision.net" in told and "src/vision/net.py" in told
    assert project.built("target=onnx", recipe="small") == {"onnx"}


def test_a_module_in_src_that_is_called_like_one_of_pythons_stands_for_none(project: Project) -> None:
    """`from src.logging import …` is how many write it, with src as the package."""
    project.write("src/logging.py", "raise SystemExit('not this one')\n")

    assert project.built("target=onnx", recipe="small") == {"onnx"}


def test_a_program_that_puts_src_on_its_path_is_followed(project: Project) -> None:
    project.mobuild("target=word")
    project.edit("src/vision/words.py", "one", "two")

    line = project.mobuild("target=word").out.strip()

    assert Path(project.root, line).read_text() == "two"


def test_why_against_a_revision_names_code_that_only_ran(project: Project) -> None:
    """What a computed path leads to is in no closure; the last build saw it."""
    project.edit("tool.py", 'sys.path.insert(0, "src")', 'sys.path.insert(0, "lib" + "s")')
    project.write("libs/vision/words.py", "WORD = 'one'\n")
    project.write("libs/vision/__init__.py", "")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "second")
    project.mobuild("target=word")
    assert project.mobuild("why", "target=word", "against=HEAD").out == "nothing differs from HEAD\n"

    project.edit("libs/vision/words.py", "one", "two")

    (line,) = project.mobuild("why", "target=word", "against=HEAD").out.splitlines()
    assert line.startswith("small/cpu word: ") and "libs/vision/words.py: " in line


def test_a_revision_is_built_from_its_own_package_also_where_a_link_to_the_working_tree_is_installed(
    project: Project,
) -> None:
    """`pip install -e .` writes the folder of the working tree into the interpreter."""
    words = ("-m", "venv", "--system-site-packages", "--without-pip", "env")
    subprocess.run([sys.executable, *words], cwd=project.root, check=True)
    (packages,) = (project.root / "env/lib").glob("python*/site-packages")
    (packages / "vision.pth").write_text(f"{project.root}/libs\n")
    _here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "outer.pth").write_text("\n".join(_here) + "\n")
    (project.root / "src").rename(project.root / "libs")  # which mobuild itself does not look into
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "second")
    project.edit("libs/vision/net.py", "ReLU", "GELU")
    git(project, "commit", "-q", "-a", "-m", "third")

    own = ("target=onnx", "toolchain.python=env/bin/python", "format=json")
    told = json.loads(project.mobuild("compare", "HEAD~1", "HEAD", "compare.build=true", *own).out)

    assert "libs/vision/net.py" in json.dumps(told) or "vision.net" in json.dumps(told), told
    keys = {path.parent.name for path in (project.cache / "records").glob("*/*/*.json")}
    assert len(keys) == 2
