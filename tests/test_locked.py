"""Locked requirement sets: read for a plan, made into an environment once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mobuild import locked
from mobuild.errors import MobuildError
from tests.projects import Finished, Project, recipe_project

SET = """\
# made by pip-compile
--extra-index-url https://example.org/simple
Torch_Thing==2.6.0+cpu \\
    --hash=sha256:aaaa \\
    --hash=sha256:bbbb
opencv-python-headless[all]==4.10.0   # via det
old==1.0 ; python_version < "3.9"
old==2.0 ; python_version >= "3.9"
"""


@pytest.mark.parametrize(("version", "old"), [("3.8.18", "1.0"), ("3.11.7", "2.0")])
def test_pins_are_those_of_the_python(tmp_path: Path, version: str, old: str) -> None:
    (tmp_path / "all.lock").write_text(SET)

    found = locked.read(tmp_path / "all.lock", version)

    assert found.pins == {"torch-thing": "2.6.0+cpu", "opencv-python-headless": "4.10.0", "old": old}
    assert found.has_hashes


def test_a_mark_at_the_begin_of_a_file_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "all.lock").write_text("numpy==1.0\n", encoding="utf-8-sig")

    assert locked.read(tmp_path / "all.lock", "3.11.7").pins == {"numpy": "1.0"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("numpy>=1.26\n", "'numpy>=1.26' pins no version"),
        ("numpy\n", "'numpy' pins no version"),
        ("numpy==1.*\n", "'numpy==1.*' pins no version"),
        ("mine @ https://example.org/mine.whl\n", "'mine @ https://example.org/mine.whl' pins no version"),
        ("numpy==1.0\nNumPy==2.0\n", "numpy is pinned twice, to 1.0 and to 2.0"),
        ("-r other.txt\n", "'-r other.txt': a locked set is one file with pinned packages, so there is no '-r'"),
        ("[[package]]\n", "'[[package]]' is no requirement: "),
        ("old==1.0; python_version ~= 'old'\n", "\"old==1.0; python_version ~= 'old'\": its marker cannot be told: "),
        ("# nothing\n", "pins no package for Python 3.11.7"),
    ],
)
def test_what_pins_no_version_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "all.lock").write_text(text)

    with pytest.raises(MobuildError) as caught:
        locked.read(tmp_path / "all.lock", "3.11.7")

    assert caught.value.message.removeprefix(f"'{tmp_path}/all.lock': ").startswith(message)


def build_wheel(source: Path, project: str, out: Path) -> None:
    """Build the wheel of the package in `source` into the folder `out`; `project` is what stands below [project]."""
    system = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    (source / "pyproject.toml").write_text(f"{system}[project]\n{project}")
    words = ("-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(source))
    subprocess.run([sys.executable, *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`scaling` 1.0, and `needy`, which needs it."""
    out = tmp_path_factory.mktemp("wheels")
    for name, needs in (("scaling", ""), ("needy", 'dependencies = ["scaling"]\n')):
        source = tmp_path_factory.mktemp("source")
        (source / name).mkdir()
        (source / name / "__init__.py").write_text("FACTOR = 1.0\n")
        build_wheel(source, f'name = "{name}"\nversion = "1.0"\n{needs}', out)
    return out


@pytest.fixture
def project(tmp_path: Path) -> Project:
    nodes = "  note: {kind: command, cmd: 'python tool.py {out}', out: .txt}\n"
    tool = "import sys, needy, scaling\nopen(sys.argv[1], 'w').write(f'{sys.prefix} {scaling.FACTOR}')\n"
    files = {"tool.py": tool, "all.lock": "needy==1.0\nscaling==1.0\n", "part.lock": "needy==1.0\n"}
    return recipe_project(tmp_path, nodes, files)


def pip(folder: Path) -> dict[str, str]:
    """No index, and wheels from a folder."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


def build(project: Project, wheels: Path, lock: str = "all.lock", *, check: bool = True) -> Finished:
    return project.mobuild("target=note", f"toolchain.requirements={lock}", env=pip(wheels), check=check)


def test_a_set_is_made_into_an_environment_once_and_again_when_it_was_left_half(project: Project, wheels: Path) -> None:
    planned = project.mobuild("plan", "target=note", "toolchain.requirements=all.lock")
    first = Path(build(project, wheels).out.strip())
    place = Path(first.read_text().split()[0])
    (place / "kept").touch()
    project.edit("tool.py", "import sys", "import sys, os")
    build(project, wheels)
    was_made_once = (place / "kept").exists()
    (place / "mobuild.json").unlink()  # as if its process had been killed
    project.edit("tool.py", "import sys, os", "import os, sys, json")
    build(project, wheels)

    assert planned.out.startswith("stale")
    assert first.read_text() == f"{place} 1.0"
    assert place.is_relative_to(project.cache / "local")
    assert was_made_once
    assert not (place / "kept").exists()
    assert '"scaling": "1.0"' in Path(f"{first}.json").read_text()


def test_processes_that_need_one_set_at_once_make_it_once(project: Project, wheels: Path, tmp_path: Path) -> None:
    """Over three clones that share a cache: no node is of use to two of them, the environment is."""
    environment = {
        **os.environ,
        **pip(wheels),
        "MOBUILD_CACHE": str(project.cache),
        "PIP_LOG": str(tmp_path / "pip.log"),
    }
    running = []
    for number in range(3):
        clone = tmp_path / f"clone{number}"
        shutil.copytree(project.root, clone)
        with (clone / "tool.py").open("a") as tool:
            tool.write(f"NUMBER = {number}\n")
        words = (sys.executable, "-m", "mobuild", "target=note", "toolchain.requirements=all.lock")
        running.append(
            subprocess.Popen(
                words, cwd=clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    ended = [(*process.communicate(timeout=300), process.returncode) for process in running]

    assert [status for _, _, status in ended] == [0, 0, 0], [err for _, err, _ in ended]
    notes = {(tmp_path / f"clone{n}" / out.strip()).read_text() for n, (out, _, _) in enumerate(ended)}
    assert len(notes) == 1
    assert (tmp_path / "pip.log").read_text().count("Successfully installed needy") == 1


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`scaling` 1.0 and 2.0, with a program `scale` that writes which one it is."""
    out, source = tmp_path_factory.mktemp("versions"), tmp_path_factory.mktemp("source")
    (source / "scaling").mkdir()
    for version in ("1.0", "2.0"):
        (source / "scaling" / "__init__.py").write_text(
            f"import sys\nFACTOR = {version}\n\ndef main():\n    open(sys.argv[1], 'w').write(str(FACTOR))\n"
        )
        build_wheel(source, f'name = "scaling"\nversion = "{version}"\nscripts = {{scale = "scaling:main"}}\n', out)
    return out


@pytest.mark.parametrize(
    "cmd",
    [
        "python -c 'import scaling; scaling.main()' {out}",
        "sh run.sh {out}",
        "scale {out}",
        "python -m scaled {out}",
        "python -m asked {out}",
    ],
    ids=["text", "script", "program", "module", "version"],
)
def test_another_version_of_what_a_program_imports_is_another_input(tmp_path: Path, versions: Path, cmd: str) -> None:
    nodes = f'  note: {{kind: command, cmd: "{cmd}", out: .txt}}\n'
    files = {
        "run.sh": "python -c 'import scaling; scaling.main()' $1\n",
        "scaled.py": "import importlib\nimportlib.import_module('scal' + 'ing').main()\n",
        "asked.py": "import sys, importlib.metadata as m\nopen(sys.argv[1], 'w').write(m.version('scaling'))\n",
        "one.lock": "scaling==1.0\n",
        "two.lock": "scaling==2.0\n",
    }
    project = recipe_project(tmp_path, nodes, files)

    told = [Path(build(project, versions, lock).out.strip()).read_text() for lock in ("one.lock", "two.lock")]
    again = build(project, versions, "one.lock")

    assert told == ["1.0", "2.0"]
    assert "1 fresh" in again.err
    assert Path(again.out.strip()).read_text() == "1.0"


def test_a_comment_in_the_set_and_a_package_that_nobody_imports_change_no_key(project: Project) -> None:
    def key(text: str) -> str:
        project.write("all.lock", text)
        done = project.mobuild("plan", "target=note", "toolchain.requirements=all.lock", "format=json")
        return done.out.partition('"key": ')[2].partition(",")[0]

    before = key("needy==1.0\nscaling==1.0\n")

    assert before == key("# again\nscaling==1.0\nneedy==1.0\nbystander==3.0\n")
    assert before != key("needy==1.0\nscaling==1.1\n")


def test_a_set_that_lacks_what_it_needs_is_refused(project: Project, wheels: Path) -> None:
    done = build(project, wheels, "part.lock", check=False)

    assert done.status == 1
    assert f"error: node 'note': '{project.root}/part.lock' is not complete\n" in done.err
    assert "needy 1.0 requires scaling, which is not installed." in done.err


def test_a_package_that_cannot_be_had_is_named(project: Project, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()

    done = build(project, tmp_path / "none", check=False)

    assert done.status == 1
    assert "No matching distribution found for needy==1.0" in done.err
    assert not list(project.cache.glob("local/*/environments/*/mobuild.json"))


def test_a_set_that_is_not_there_is_named(project: Project, wheels: Path) -> None:
    done = build(project, wheels, "none.lock", check=False)

    assert done.errors[0].startswith(
        f"recipe 'small', node 'note': toolchain.requirements: '{project.root}/none.lock': No such file or directory\n"
    )
