"""Interpreters and what is installed for them, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from mobuild import toolchain
from mobuild.distributions import Providers, editable_trees, installed
from mobuild.errors import ToolchainError
from tests.test_interrupts import is_running, wait_for

PYTHON38 = Path.home() / ".pyenv/versions/3.8.18/bin/python"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages with three of them, one made by each kind of tool."""
    made = tmp_path / "venv/lib/python3.11/site-packages"
    files = {
        "Pillow-10.4.0.dist-info/top_level.txt": "PIL\n",
        "hydra_core-1.3.2.dist-info/RECORD": "hydra/__init__.py,,\nhydra_plugins/x.py,,\n",
        "old_tool-0.1-py3.11.egg-info/top_level.txt": "old_tool\n",
    }
    for name, text in files.items():
        (made / name).parent.mkdir(parents=True)
        (made / name).write_text(text)
    return made


def test_host_knows_what_is_installed_here():
    here = toolchain.host()

    found = toolchain.versions(here, ["xxhash", "hydra_core", "python", "not-installed-at-all"])

    assert found == {
        "xxhash": version("xxhash"),
        "hydra_core": version("hydra-core"),
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "not-installed-at-all": "-",
    }
    assert here.modules["hydra"] == "hydra-core"


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ({"onnxruntime": "1.32.0"}, "1.32.0"),
        ({"onnxruntime-gpu": "1.32.0"}, "onnxruntime-gpu 1.32.0"),
        ({"onnxruntime-gpu": "1.31.0", "onnxruntime": "1.32.0"}, "1.32.0"),
        ({"onnxruntime-extensions": "0.14"}, "-"),
    ],
)
def test_a_package_that_stands_in_for_another_counts(known: dict[str, str], found: str) -> None:
    """Else an update of onnxruntime-gpu would leave every engine fresh."""
    here = toolchain.Environment(Path(sys.executable), "3.11.7", (), known, {})

    assert toolchain.versions(here, ["onnxruntime"]) == {"onnxruntime": found}


def test_importing_toolchain_imports_nothing_heavy():
    code = "import sys, mobuild.toolchain, mobuild.closure; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout

    assert not {"torch", "onnx", "numpy", "importlib.metadata", "joblib", "hydra"} & set(loaded.split())


def test_names_are_normalised(site):
    assert installed([str(site)]) == {"pillow": "10.4.0", "hydra-core": "1.3.2", "old-tool": "0.1"}


def test_module_is_mapped_to_its_distribution(site):
    providers = Providers([str(site)])

    assert (providers["PIL"], providers["hydra"]) == ("pillow", "hydra-core")
    assert "torch" not in providers
    assert list(providers) == ["PIL", "hydra", "hydra_plugins", "old_tool"]


def test_editable_install_with_a_finder_is_recognised(site):
    (site / "__editable___mylib_0_1_finder.py").write_text(
        "from __future__ import annotations\nMAPPING: dict[str, str] = {'mylib': '/home/me/src/mylib'}\n"
    )

    assert editable_trees([str(site)]) == ("/home/me/src",)


@pytest.mark.skipif(not PYTHON38.exists(), reason=f"no interpreter {PYTHON38}")
def test_the_first_package_of_the_users_own_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "mine"))
    before = toolchain.probe(PYTHON38, tmp_path)

    (tmp_path / "mine/lib/python3.8/site-packages/net-1.0.dist-info").mkdir(parents=True)
    after = toolchain.probe(PYTHON38, tmp_path)

    assert ("net" in before.distributions, after.distributions.get("net")) == (False, "1.0")


def test_a_python_that_a_signal_without_a_name_ends_is_told(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nkill -40 $$\n")
    (tmp_path / "python").chmod(0o755)

    with pytest.raises(ToolchainError, match="was killed by signal 40"):
        toolchain.probe(tmp_path / "python", tmp_path)


def test_probe_asks_another_interpreter(tmp_path):
    found = toolchain.probe(Path(sys.executable), tmp_path)

    assert found.version == "{}.{}.{}".format(*sys.version_info[:3])
    assert found.distributions == toolchain.host().distributions
    assert "" not in found.paths


@pytest.mark.skipif(not PYTHON38.exists(), reason="no Python 3.8 installed by pyenv")
def test_probe_of_python_38(tmp_path):
    found = toolchain.probe(PYTHON38, tmp_path)

    assert found.version == "3.8.18"
    assert "pip" in found.distributions


def fake_python(folder: Path, body: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    return python


def test_answer_is_remembered_until_a_package_folder_changes(tmp_path, site):
    calls = tmp_path / "calls"
    answer = f'{{"version": "3.11.0", "paths": ["{site}"]}}'
    python = fake_python(site.parents[2] / "bin", f"echo x >> {calls}\necho '{answer}'")

    toolchain.probe(python, tmp_path)
    toolchain.probe(python, tmp_path)
    once = calls.read_text()
    (site / "torch-2.6.0.dist-info").mkdir()
    found = toolchain.probe(python, tmp_path)

    assert once == "x\n"
    assert calls.read_text() == "x\nx\n"
    assert found.distributions["torch"] == "2.6.0"


def test_virtual_environment_is_not_resolved_to_its_base(tmp_path):
    link = tmp_path / "bin/python"
    link.parent.mkdir()
    link.symlink_to(sys.executable)

    assert toolchain.probe(Path(os.path.relpath(link)), tmp_path / "cache").python == link


def test_missing_interpreter_names_the_path(tmp_path):
    with pytest.raises(ToolchainError) as caught:
        toolchain.probe(tmp_path / "venv/bin/python", tmp_path)

    assert caught.value.message == f"python '{tmp_path}/venv/bin/python': there is no such file"
    assert "names an interpreter, such as ./venv/bin/python" in caught.value.hint
    assert "toolchain.requirements=export.lock" in caught.value.hint


def test_old_interpreter_is_refused(tmp_path):
    python = fake_python(tmp_path, """echo '{"version": "3.7.16", "paths": []}'""")

    with pytest.raises(ToolchainError, match=r"expected Python 3\.8 or newer, found 3\.7\.16"):
        toolchain.probe(python, tmp_path / "cache")


def test_failing_interpreter_says_its_last_words(tmp_path):
    python = fake_python(tmp_path, "echo 'no libpython3.11.so' >&2; exit 127")

    with pytest.raises(ToolchainError, match=r"ended with status 127: no libpython3\.11\.so"):
        toolchain.probe(python, tmp_path / "cache")


def test_what_is_no_python_is_said_so(tmp_path):
    python = fake_python(tmp_path, "echo hello")

    with pytest.raises(ToolchainError, match=r"is no Python: expected its version, found 'hello'"):
        toolchain.probe(python, tmp_path / "cache")


def test_interpreter_that_never_answers_is_ended_with_all_that_it_started(tmp_path):
    python = fake_python(tmp_path, "sleep 1000 & echo $! > $0.child; wait")

    with pytest.raises(ToolchainError, match=r"no answer in 0\.5 s"):
        toolchain.probe(python, tmp_path / "cache", seconds=0.5)

    child = int((tmp_path / "python.child").read_text())
    wait_for(lambda: not is_running(child))  # the kernel kills when it gets to it


def test_interpreter_is_asked_without_the_terminal(tmp_path):
    python = fake_python(tmp_path, "cat; echo nothing typed")

    with pytest.raises(ToolchainError, match=r"is no Python: expected its version, found 'nothing typed'"):
        toolchain.probe(python, tmp_path / "cache")


def test_conda_install_is_seen_by_its_own_list(tmp_path):
    """What conda installs need not touch a folder of Python packages."""
    calls = tmp_path / "calls"
    python = fake_python(tmp_path / "env/bin", f"""echo x >> {calls}\necho '{{"version": "3.11.0", "paths": []}}'""")
    (tmp_path / "env/conda-meta").mkdir()
    (tmp_path / "cache").mkdir()

    toolchain.probe(python, tmp_path / "cache")
    toolchain.probe(python, tmp_path / "cache")
    (tmp_path / "env/conda-meta/cudatoolkit-12.4-0.json").write_text("{}")
    toolchain.probe(python, tmp_path / "cache")

    assert calls.read_text() == "x\nx\n"


def test_interpreter_that_crashes_is_named_with_its_signal(tmp_path):
    python = fake_python(tmp_path, "kill -SEGV $$")

    with pytest.raises(ToolchainError, match=r"asked for its version, it was killed by SIGSEGV"):
        toolchain.probe(python, tmp_path / "cache")
