"""The wheel, built from a copy of the repository that is as untidy as a checkout in use, and environments
with it. Each is made once a session, since that is what takes the time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from tests.projects import Finished

REPOSITORY = Path(__file__).parents[2]
SITE = Path(sysconfig.get_path("purelib"))
UNTIDY = ("cache/objects/ab/cd", "build/det/cpu/engine.onnx", "recipes/__pycache__/det.pyc", "outputs/.hydra/x.yaml")


@dataclass(frozen=True)
class Environment:
    """A virtual environment with mobuild installed from the wheel."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    @property
    def site(self) -> Path:
        return next((self.folder / "lib").glob("python*/site-packages"))

    def mobuild(self, project: Path, *words: str, check: bool = True) -> Finished:
        """Run the installed console script in a folder."""
        done = _run(str(self.folder / "bin/mobuild"), *words, cwd=project)
        if check:
            assert done.status == 0, done.err
        return done

    def see(self, *folders: Path) -> None:
        """Let the environment import from `folders`, after its own packages."""
        (self.site / "others.pth").write_text("".join(f"{folder}\n" for folder in folders))


def _run(*words: str, cwd: Path = REPOSITORY) -> Finished:
    """Run a program without what would point it to this checkout."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "MOBUILD_CACHE", "COMP_LINE")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    return Finished(done.returncode, done.stdout, done.stderr)


def _must_run(*words: str, cwd: Path = REPOSITORY) -> None:
    done = _run(*words, cwd=cwd)
    assert done.status == 0, done.out + done.err


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
    _must_run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--sdist", "--outdir", str(out), cwd=checkout)
    return out


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    return next(distributions.glob("*.whl"))


def bare_environment(folder: Path, wheel: Path, *others: Path) -> Environment:
    """mobuild alone, and what the site-packages folders `others` hold; nothing is fetched."""
    made = Environment(folder)
    _must_run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    pip = (sys.executable, "-m", "pip", "--python", str(made.python))
    _must_run(*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    made.see(*others)
    return made


def full_environment(folder: Path, wheel: Path, extras: str = "") -> Environment:
    """mobuild as a user installs it, with pinned dependencies from pip's index."""
    _must_run(sys.executable, "-m", "venv", str(folder))
    constraints = str(REPOSITORY / ".ci/constraints.txt")
    _must_run(str(folder / "bin/pip"), "install", "--quiet", "-c", constraints, f"{wheel}{extras}")
    return Environment(folder)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with the heavy packages of the environment that the tests run in."""
    return bare_environment(tmp_path_factory.mktemp("installed") / "venv", wheel, SITE)


@pytest.fixture(scope="session")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install mobuild`, without any extra."""
    return full_environment(tmp_path_factory.mktemp("core") / "venv", wheel)


def linked(folder: Path, *distributions: str) -> Path:
    """A site-packages folder with these distributions alone, as links to those of this environment."""
    site = folder / "site-packages"
    site.mkdir(parents=True)
    for name in distributions:
        for top in {file.parts[0] for file in metadata.files(name) or () if file.parts[0] != ".."}:
            if not (site / top).exists():
                (site / top).symlink_to(SITE / top)
    return site


def tree(folder: Path) -> set[str]:
    """The names at the top of a folder."""
    return {path.name for path in folder.iterdir()}
