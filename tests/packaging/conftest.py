"""The wheel, built from a copy of the repository that is as untidy as a checkout in use, and environments
with it. Each is made once a session, since that is what takes the time."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.installations import REPOSITORY, SITE, Environment, bare_environment, full_environment, must_run

UNTIDY = ("cache/objects/ab/cd", "build/det/cpu/engine.onnx", "recipes/__pycache__/det.pyc", "outputs/.hydra/x.yaml")


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packed, amid what a checkout in use has as well."""
    copy = tmp_path_factory.mktemp("repository")
    for name in ("mobuild", "conf", "recipes"):
        shutil.copytree(REPOSITORY / name, copy / name)
    for name in ("pyproject.toml", "README.md", ".gitignore", "cache/README.md", *UNTIDY):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text((REPOSITORY / name).read_text() if name not in UNTIDY else "rubbish")
    return copy


@pytest.fixture(scope="session")
def distributions(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    out = tmp_path_factory.mktemp("distributions")
    must_run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--sdist", "--outdir", str(out), cwd=checkout)
    return out


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    return next(distributions.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with the heavy packages of the environment that the tests run in."""
    return bare_environment(tmp_path_factory.mktemp("installed") / "venv", wheel, SITE)


@pytest.fixture(scope="session")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install mobuild`, without any extra."""
    return full_environment(tmp_path_factory.mktemp("core") / "venv", wheel)
