"""What user code read beyond its closure is reported, and nothing else is."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
import toys

from mobuild.observers.environment import names_digest, value_digest
from mobuild.observers.files import folder_digest


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


def test_undeclared_file_is_reported_with_the_digest_before_the_read(project, call):
    vocabulary = project.write("vocabulary.txt", "a b c")

    outcome = call(
        "from pathlib import Path\n"
        f"def main():\n"
        f"    read = Path({str(vocabulary)!r}).read_text()\n"
        f"    Path({str(vocabulary)!r}).write_text('changed')\n"
        f"    return read\n"
    )

    assert outcome.observed.files == {str(vocabulary): sha256("a b c")}


LISTED = {
    "listdir": "return os.listdir(os.open('recipes/data', os.O_RDONLY))",
    "scandir": "return [each.name for each in os.scandir(os.open('recipes/data', os.O_RDONLY))]",
    "fwalk": "return [names for _, _, names, _ in os.fwalk('recipes/data')]",
}


@pytest.mark.parametrize("function", LISTED)
def test_a_folder_that_is_listed_by_its_descriptor_is_reported(project, call, function):
    data = str(project.write("data/a.txt", "a").parent)

    outcome = call(f"import os\ndef main(): {LISTED[function]}")

    assert outcome.observed.folders == {data: folder_digest(data)}


def test_a_folder_that_is_removed_is_not_listed(project, call):
    outcome = call("import os, shutil\ndef main():\n    os.makedirs('scratch/a')\n    shutil.rmtree('scratch')\n")

    assert outcome.observed.folders == {}


MADE = {
    "folder": "if not place.exists(): place.mkdir()",
    "folders": "os.makedirs(place / 'a' / 'b', exist_ok=True)",
    "renamed": "if not place.exists(): partial.write_text('x'), partial.rename(place)",
    "link": "if not place.exists(): place.symlink_to('elsewhere')",
}


@pytest.mark.parametrize("way", MADE)
def test_what_the_node_makes_itself_is_no_condition(call, way):
    outcome = call(
        "import os\n"
        "from pathlib import Path\n"
        "place, partial = Path('recipes/place'), Path('recipes/partial')\n"
        f"def main():\n    {MADE[way]}\n    return place.exists(), place.is_dir() and os.listdir(place)\n"
    )

    assert (outcome.observed.presence, outcome.observed.folders, outcome.observed.files) == ({}, {}, {})


@pytest.mark.parametrize("make", ["place.symlink_to('data/a.txt')", "place.hardlink_to('recipes/data/a.txt')"])
def test_what_is_read_through_a_link_of_the_nodes_own_is_an_input(project, call, make):
    project.write("data/a.txt", "a")

    outcome = call(
        "from pathlib import Path\n"
        "place = Path('recipes/place')\n"
        f"def main():\n    {make}\n    return place.read_text()\n"
    )

    assert outcome.observed.files == {str(project.root / "recipes/place"): sha256("a")}


@pytest.mark.parametrize("ask", ["Path('recipes/flag').stat()", "os.stat('recipes/flag')"])
def test_a_question_of_a_function_that_is_called_as_one_of_the_library_is_seen(project, call, ask):
    outcome = call(
        "import os\n"
        "from pathlib import Path\n"
        f"def resolve():\n    return {ask}\n"
        "def main():\n"
        "    try:\n"
        "        return resolve()\n"
        "    except OSError:\n"
        "        return None\n"
    )

    assert outcome.observed.presence == {str(project.root / "recipes/flag"): "-"}


def test_a_folder_that_was_there_is_one(project, call):
    data = project.write("data/a.txt", "a").parent

    outcome = call(
        "import os\n"
        "def main():\n"
        "    os.makedirs('recipes/data', exist_ok=True)\n"
        "    return os.listdir('recipes/data')\n"
    )

    assert outcome.observed.folders == {str(data): folder_digest(str(data))}


def test_relative_path_is_taken_against_the_project(project, call):
    (project.root / "labels.txt").write_text("cat")

    outcome = call("def main(): return open('labels.txt').read()")

    assert outcome.observed.files == {str(project.root / "labels.txt"): sha256("cat")}


def test_file_outside_the_project_is_reported_when_user_code_reads_it(project, call, tmp_path):
    (tmp_path / "elsewhere.json").write_text("[1]")

    outcome = call(f"import json\ndef main(): return json.load(open({str(tmp_path / 'elsewhere.json')!r}))")

    assert outcome.observed.files == {str(tmp_path / "elsewhere.json"): sha256("[1]")}


def test_absent_file_is_a_condition(project, call):
    outcome = call(
        "def main():\n"
        "    try:\n"
        "        open('override.yaml')\n"
        "    except FileNotFoundError:\n"
        "        return 'default'\n"
    )

    assert outcome.observed.files == {str(project.root / "override.yaml"): "-"}


def test_known_files_inputs_and_own_writes_are_not_reported(project, call):
    known, given = project.write("known.txt", "k"), project.write("data/given.txt", "g")
    ignored = project.root / "build/scratch.txt"
    ignored.write_text("s")

    outcome = call(
        "from pathlib import Path\n"
        "def main():\n"
        "    Path('made.txt').write_text('m')\n"
        f"    read = [{str(known)!r}, {str(given)!r}, {str(ignored)!r}]\n"
        "    for path in ('made.txt', '/proc/self/status', *read):\n"
        "        Path(path).read_text()\n",
        known_files=(str(known), str(project.recipes / "toys.py")),
        inputs={"data": str(given.parent)},
    )

    assert outcome.observed.files == {}


def test_removing_a_tree_reads_nothing(call):
    outcome = call(
        "import os, tempfile\n"
        "def main():\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        os.makedirs(folder + '/out/deeper')\n"
    )

    assert (outcome.observed.files, outcome.observed.folders) == ({}, {})


def test_listed_folder_is_reported_by_its_names(project, call):
    project.write("images/b.png", "")
    project.write("images/a.png", "")
    images = str(project.recipes / "images")

    outcome = call(f"import glob\ndef main(): return sorted(glob.glob({images + '/*.png'!r}))")

    assert outcome.observed.folders == {images: folder_digest(images)}
    project.write("images/c.png", "")
    assert folder_digest(images) != outcome.observed.folders[images]


def test_folders_of_the_build_are_no_part_of_a_listing(project, call):
    outcome = call("import os\ndef main(): return os.listdir('.')")

    root, build = str(project.root), str(project.root / "build")
    assert outcome.observed.folders == {root: folder_digest(root, [build])}
    assert folder_digest(root, [build]) != folder_digest(root)


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


def test_a_file_of_the_project_that_a_package_reads_when_it_is_imported_is_reported(project, call, tmp_path):
    installed = tmp_path / "venv/site-packages"
    installed.mkdir(parents=True)
    (installed / "library.py").write_text("import os\nos.listdir('.')\nGAIN = open('library.toml').read()\n")
    (project.root / "library.toml").write_text("2")

    outcome = call(f"import sys\nsys.path.append({str(installed)!r})\nimport library\ndef main(): return library.GAIN")

    assert outcome.observed.files == {str(project.root / "library.toml"): sha256("2")}
    assert outcome.observed.folders == {}


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


LIBRARY = """
import os


def look(path):
    return os.path.exists(path)


def look_aside(path):
    import threading

    thread = threading.Thread(target=look, args=(path,))
    thread.start()
    thread.join()
"""


def test_what_a_library_looks_for_counts_where_the_users_code_called_it(project, call, tmp_path):
    (tmp_path / "venv/site-packages").mkdir(parents=True)
    (tmp_path / "venv/site-packages/library.py").write_text(LIBRARY)
    sys_path = f"import sys; sys.path.append({str(tmp_path / 'venv/site-packages')!r})\nimport library\n"
    called = f"{sys_path}def main(): return library.look('data/here')"
    aside = f"{sys_path}import threading\ndef main():\n    {{}}.start()\n".format(
        "threading.Thread(target=library.look_aside, args=('data/here',))"
    )

    assert call(called).observed.presence == {str(project.root / "data/here"): "-"}
    assert call(aside).observed.presence == {}


def test_looking_for_a_distribution_is_no_look_at_the_project(project, call):
    outcome = call(
        "from importlib import metadata\n"
        "from pathlib import Path\n"
        "def main(): return [len(metadata.entry_points()), metadata.version('numpy'), Path('.').is_dir()]"
    )

    assert outcome.observed.presence == {}
    assert outcome.observed.folders == {}


ASKS = {
    "os.access": ("__import__('os').access('there', 0)", {"presence": "there"}),
    "os.path.lexists": ("__import__('os').path.lexists('there')", {"presence": "there"}),
    "os.readlink": ("__import__('os').readlink('current')", {"links": "current"}),
    "Path.readlink": ("str(Path('current').readlink())", {"links": "current"}),
    "Path.is_symlink": ("Path('current').is_symlink()", {"links": "current"}),
    "Path.is_symlink of a file": ("Path('there').is_symlink()", {"links": "there"}),
    "Path.resolve": ("Path('current').resolve().name", {"links": "current"}),
    "Path.resolve of a file": ("Path('there').resolve().name", {}),
}


@pytest.mark.parametrize("ask", ASKS)
def test_what_is_asked_about_files_and_links_is_seen(project, call, ask):
    (project.root / "v1").mkdir()
    (project.root / "there").write_text("")
    (project.root / "current").symlink_to("v1")
    code, wanted = ASKS[ask]

    observed = call(f"from pathlib import Path\ndef main(): return {code}").observed

    answers = {"there": "present", "current": sha256("v1")}
    expected = {kind: {str(project.root / name): answers[name]} for kind, name in wanted.items()}
    assert {"presence": observed.presence, "links": observed.links} == {"presence": {}, "links": {}, **expected}
    assert (observed.files, observed.folders) == ({}, {})


def test_a_link_that_is_followed_to_a_name_is_an_input_beside_the_content(project, call):
    (project.root / "v1").write_text("1")
    (project.root / "current").symlink_to("v1")

    observed = call(
        "from pathlib import Path\ndef main(): return Path('current').resolve().name + open('current').read()"
    ).observed

    assert observed.links == {str(project.root / "current"): sha256("v1")}
    assert observed.files == {str(project.root / "current"): sha256("1")}


def test_dots_behind_a_link_lead_to_the_file_that_was_read(project, call):
    (project.root / "elsewhere/v1").mkdir(parents=True)
    (project.root / "data").symlink_to("elsewhere/v1")
    (project.root / "elsewhere/other.txt").write_text("read")
    (project.root / "other.txt").write_text("not read")

    observed = call("def main(): return open('data/../other.txt').read()").observed

    assert observed.files == {str(project.root / "data/../other.txt"): sha256("read")}


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
