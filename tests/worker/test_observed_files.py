"""Files, folders and links that user code read or asked about undeclared are reported, and nothing else is."""

from __future__ import annotations

import hashlib

import pytest

from mobuild.observers.files import folder_digest


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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


@pytest.mark.parametrize("make", ["os.makedirs(PLACE, exist_ok=True)", "Path(PLACE).mkdir(exist_ok=True)"])
def test_a_folder_that_is_made_unless_it_is_there_is_no_condition(call, tmp_path, make):
    (tmp_path / "there").mkdir()
    place = tmp_path / "there/too"
    place.mkdir()

    outcome = call(f"import os\nfrom pathlib import Path\nPLACE = {str(place)!r}\ndef main():\n    {make}\n")

    assert outcome.observed.presence == {}


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


def test_a_file_of_the_project_that_a_package_reads_when_it_is_imported_is_reported(project, call, tmp_path):
    installed = tmp_path / "venv/site-packages"
    installed.mkdir(parents=True)
    (installed / "library.py").write_text("import os\nos.listdir('.')\nGAIN = open('library.toml').read()\n")
    (project.root / "library.toml").write_text("2")

    outcome = call(f"import sys\nsys.path.append({str(installed)!r})\nimport library\ndef main(): return library.GAIN")

    assert outcome.observed.files == {str(project.root / "library.toml"): sha256("2")}
    assert outcome.observed.folders == {}


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
