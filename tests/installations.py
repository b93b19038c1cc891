"""Environments with mobuild installed from its wheel, as users have them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tests.projects import Finished

REPOSITORY = Path(__file__).parents[1]
SITE = Path(sysconfig.get_path("purelib"))


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
        done = run_alone(str(self.folder / "bin/mobuild"), *words, cwd=project)
        if check:
            assert done.status == 0, done.err
        return done

    def see(self, *folders: Path) -> None:
        """Let the environment import from `folders`, after its own packages."""
        (self.site / "others.pth").write_text("".join(f"{folder}\n" for folder in folders))


def run_alone(*words: str, cwd: Path = REPOSITORY) -> Finished:
    """Run a program without what would point it to this checkout."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "MOBUILD_CACHE", "COMP_LINE")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    return Finished(done.returncode, done.stdout, done.stderr)


def must_run(*words: str, cwd: Path = REPOSITORY) -> None:
    """Run a program that must succeed."""
    done = run_alone(*words, cwd=cwd)
    assert done.status == 0, done.out + done.err


def bare_environment(folder: Path, wheel: Path, *others: Path) -> Environment:
    """mobuild alone, and what the site-packages folders `others` hold; nothing is fetched."""
    made = Environment(folder)
    must_run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    pip = (sys.executable, "-m", "pip", "--python", str(made.python))
    must_run(*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    made.see(*others)
    return made


def full_environment(folder: Path, wheel: Path, extras: str = "") -> Environment:
    """mobuild as a user installs it, with pinned dependencies from pip's index."""
    must_run(sys.executable, "-m", "venv", str(folder))
    constraints = str(REPOSITORY / ".ci/constraints.txt")
    must_run(str(folder / "bin/pip"), "install", "--quiet", "-c", constraints, f"{wheel}{extras}")
    return Environment(folder)


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
