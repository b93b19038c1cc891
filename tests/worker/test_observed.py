"""What user code read beyond its closure is reported, and nothing else is."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
import toys

from mobuild.observers.environment import names_digest, value_digest


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_node_reports_what_it_measured_and_wrote(project, call):
    outcome = call("def main(): return 42")

    assert project.out.read_text() == "42"
    assert outcome.measurements == {"answer": 42}
    assert outcome.warnings == ("toy warning",)
    assert outcome.observed_by == ("files", "environment", "modules", "distributions")
    assert outcome.seconds > 0
    assert 1 < outcome.peak_rss_mib < 4000


def test_late_and_dynamic_imports_are_reported_as_modules(project, call):
    late = project.write("late.py", "value = 1")
    dynamic = project.write("plugins/dynamic.py", "value = 2")

    outcome = call(
        "import importlib\n"
        "def main():\n"
        "    import late\n"
        "    return late.value + importlib.import_module('plugins.' + 'dynamic').value\n",
    )

    user = str(project.recipes / "user.py")
    assert outcome.observed.modules == {"late": str(late), "plugins.dynamic": str(dynamic), "user": user}
    assert outcome.observed.sources[str(late)] == sha256("value = 1")
    assert outcome.observed.files == {}


def test_a_module_whose_lines_are_read_counts_by_its_meaning(project, call):
    """Exporters read the lines of the code that they trace, and tracebacks those that they show."""
    helper = project.write("helper.py", "value = 1")

    outcome = call(
        "import importlib, linecache\n"
        "def main(): return linecache.getlines(importlib.import_module('hel' + 'per').__file__)"
    )

    assert outcome.observed.modules["helper"] == str(helper)
    assert outcome.observed.files == {}


def test_module_in_the_closure_is_not_reported(project, call):
    helper = project.write("helper.py", "value = 1")

    outcome = call(
        "import helper\ndef main(): return helper.value",
        known_files=tuple(str(project.recipes / name) for name in ("toys.py", "user.py", "helper.py")),
    )

    assert helper.exists()
    assert outcome.observed.modules == {}


def test_third_party_packages_are_reported_by_version(call):
    from importlib.metadata import version

    outcome = call("def main():\n    import xxhash\n    return 1")

    assert outcome.observed.distributions == {"xxhash": version("xxhash")}
    assert outcome.observed.files == {}


def test_variables_that_user_code_reads_are_reported_by_digest(call, monkeypatch):
    monkeypatch.setenv("TOY_SIZE", "640")
    monkeypatch.delenv("TOY_ABSENT", raising=False)

    outcome = call(
        "import os\n"
        "def main():\n"
        "    os.environ['TOY_SET'] = '1'\n"
        "    return [os.environ['TOY_SIZE'], os.getenv('TOY_ABSENT'), os.environ['TOY_SET']]\n"
    )

    assert outcome.observed.environment == {"TOY_SIZE": value_digest("640"), "TOY_ABSENT": "-"}


def test_reads_of_third_party_code_are_no_conditions(project, call, tmp_path):
    installed = tmp_path / "venv/site-packages"
    installed.mkdir(parents=True)
    (installed / "library.py").write_text("import os\ndef home(): return os.environ.get('HOME')\n")

    outcome = call(f"import sys\nsys.path.append({str(installed)!r})\nimport library\nmain = library.home")

    assert outcome.observed.environment == {}


def test_search_paths_for_programs_and_scratch_are_no_conditions(call):
    outcome = call(
        "import subprocess, tempfile\n"
        "def main():\n"
        "    made = tempfile.mkdtemp() + '/made'\n"
        "    subprocess.run(['sh', '-c', f'echo hi > {made}'])\n"
        "    return open(made).read()\n"
    )

    assert outcome.measurements["answer"] == "hi\n"
    assert (outcome.observed.environment, outcome.observed.files) == ({}, {})
    assert "environment" in outcome.observed_by


def test_secret_is_recorded_by_name_only(call, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("LICENCE", "hunter3hunter3")

    outcome = call(
        "import os\ndef main(): return len(os.environ['HUB_TOKEN'] + os.environ['LICENCE'])",
        secrets=("LICENCE",),
    )

    assert outcome.observed.environment == {"HUB_TOKEN": "secret", "LICENCE": "secret"}


def test_a_variable_read_by_itself_counts_whoever_copied_all_of_them_before(call, monkeypatch):
    monkeypatch.setenv("TOY_SIZE", "640")

    outcome = call(
        "import os\n"
        "def copied(): return {**os.environ}\n"
        "def one(_): return os.environ['TOY_SIZE']\n"
        "def main(): return one(copied())\n"
    )

    assert set(outcome.observed.environment) == {"*", "TOY_SIZE"}


def test_whole_read_of_the_environment_counts_as_its_names(call, monkeypatch):
    monkeypatch.setenv("TOY_SIZE", "640")

    outcome = call(
        "import os\n"
        "def main():\n"
        "    dict(os.environ), {**os.environ}, os.environ.copy(), list(os.environ.items())\n"
        "    return os.environ['TOY_SIZE']\n"
    )

    assert outcome.observed.environment == {
        "*": names_digest(list(os.environ)),
        "TOY_SIZE": value_digest("640"),
    }


def test_edit_of_equal_size_in_the_same_second_runs_the_new_code(project, call, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    helper = project.write("helper.py", "value = 1")
    first = call("import helper\ndef main(): return helper.value")

    helper.write_text("value = 2")
    os.utime(helper, (1_700_000_000, 1_700_000_000))
    project.out.unlink()
    second = call("import helper\ndef main(): return helper.value")

    assert (first.measurements["answer"], second.measurements["answer"]) == (1, 2)
    assert not list(project.recipes.rglob("*.pyc"))


def test_existing_byte_code_of_a_stale_source_is_not_used(project, call, monkeypatch):
    import py_compile

    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    helper = project.write("helper.py", "value = 1")
    os.utime(helper, (1_700_000_000, 1_700_000_000))
    py_compile.compile(str(helper))
    helper.write_text("value = 2")
    os.utime(helper, (1_700_000_000, 1_700_000_000))

    outcome = call("import helper\ndef main(): return helper.value")

    assert outcome.measurements["answer"] == 2


def test_failure_of_an_observer_does_not_break_the_node(project, call):
    outcome = call(
        "import mobuild.observers.files as files\n"
        "def broken(*_): raise RuntimeError('observer')\n"
        "files.nearest_reader = broken\n"
        "def main(): return open('recipes/toys.py').name and open('recipes/user.py').read()[:6]\n"
    )

    assert outcome.measurements["answer"] == "import"
    assert outcome.observed_by == ("environment", "modules", "distributions")
    assert outcome.warnings == (
        "toy warning",
        "the observer of files stopped (RuntimeError: observer); later reads are not known",
    )


def test_two_files_of_one_name_are_two_modules(project):
    project.write("enc/model.py", "import dec_like\ndef main(): return 'enc'")
    project.write("dec_like.py", "from mobuild import usercode\nother = usercode.resolve('dec/model.py:main')")
    project.write("dec/model.py", "def main(): return 'dec'")

    outcome = project.run(toys.Call("enc/model.py:main"))

    assert outcome.measurements["answer"] == "enc"


def test_user_sees_project_and_folder_first_on_the_path(project, call):
    outcome = call("import os, sys\ndef main(): return [*sys.path[:2], os.getcwd()]")

    assert outcome.measurements["answer"] == [str(project.recipes), str(project.root), str(project.root)]
    assert Path(sys.executable).exists()


VARIABLES = {
    "os.environb": "import os\ndef main(): return len(os.environb.get(b'WIDTH') or b'')",
    "a pool of threads": (
        "import os\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "def main():\n    with ThreadPoolExecutor() as pool: return list(pool.map(os.getenv, ['WIDTH']))"
    ),
}


@pytest.mark.parametrize("reader", VARIABLES)
def test_variables_are_seen_by_every_way_to_read_them(call, reader):
    assert call(VARIABLES[reader]).observed.environment == {"WIDTH": value_digest(None)}
