"""Where nothing can be preloaded, the folders of the project are watched, and what is opened in them is seen."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Project

from mobuild.executors.local import LocalExecutor, Outcome
from mobuild.observers.files import folder_digest
from mobuild.observers.opened import Opened

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

PROGRAMS = ("sh", "cat", "ls", "mv", "cp", "mkdir", "ln", "rm", "tail", "touch", "true", "grep")
OBSERVERS = ("files", "environment", "modules", "distributions", "inotify")
NATIVE = """\
import ctypes, mmap, os
native = ctypes.CDLL(None, use_errno=True)
def opened(path): return native.open(os.fsencode(path), os.O_RDONLY)
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH without a compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def executor(tmp_path: Path, programs: Path) -> Iterator[LocalExecutor]:
    made = LocalExecutor(tmp_path / "tools")
    yield made
    made.close()


@pytest.fixture
def shell(project: Project, call: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Build a node whose code runs a shell command in the project."""
    return lambda command, **options: call(
        f"import subprocess\ndef main(): subprocess.run({command!r}, shell=True)", **options
    )


@pytest.fixture
def extra(project: Project) -> Path:
    (project.root / "extra.txt").write_text("x")
    return project.root / "extra.txt"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_file_that_a_child_reads_is_seen(extra: Path, shell: Callable[..., Outcome]) -> None:
    extra.with_name("other.txt").write_text("o")

    outcome = shell("cat extra.txt missing.txt")

    assert outcome.observed.files == {str(extra): sha256(extra)}
    assert outcome.observed.folders == {}
    assert outcome.observed.unsure == [str(extra)]
    assert outcome.observed_by == OBSERVERS
    assert outcome.warnings == ("toy warning",)


MAPPED = "address = native.mmap(None, ctypes.c_size_t(1), mmap.PROT_READ, mmap.MAP_PRIVATE, file, ctypes.c_long(0))"
NATIVE_READS = {
    "read": "native.read(opened(path), ctypes.create_string_buffer(9), 9)",
    "left open": "return opened(path)",
    "mapped": f"file = opened(path); {MAPPED}; native.close(file)",
}


@pytest.mark.parametrize("read", NATIVE_READS)
def test_file_that_native_code_reads_is_seen(extra: Path, call: Callable[..., Outcome], read: str) -> None:
    outcome = call(f"{NATIVE}def main():\n    path = {str(extra)!r}\n    {NATIVE_READS[read]}\n")

    assert outcome.observed.files == {str(extra): sha256(extra)}


def test_map_of_a_process_that_outlives_the_node_is_a_read(project: Project, extra: Path) -> None:
    with Opened(project.job(None).document()) as opened, extra.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 1, prot=mmap.PROT_READ)
        document = opened.add(empty())
        mapped.close()

    assert document["observed"]["files"] == {str(extra): sha256(extra)}


def test_map_of_what_is_edited_holds_for_no_content(project: Project, extra: Path) -> None:
    with Opened(project.job(None).document()) as opened, extra.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 1, prot=mmap.PROT_READ)
        extra.with_name("other.txt").touch()  # two openings in a row may be told as one
        extra.write_text("y")
        document = opened.add(empty())
        mapped.close()

    assert document["observed"]["files"] == {str(extra): "changing"}


def test_log_that_others_write_on_is_no_input(project: Project, extra: Path) -> None:
    with Opened(project.job(None).document()) as opened, extra.open("a") as stream:
        stream.write("a line\n")
        stream.flush()
        document = opened.add(empty())

    assert document["observed"]["files"] == {}


def test_edit_by_a_name_that_is_not_watched_holds_for_no_content(
    extra: Path, shell: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "other.txt").hardlink_to(extra)

    outcome = shell("cat extra.txt; echo y > ../other.txt")

    assert outcome.observed.files == {str(extra): "changing"}


def test_folder_of_data_that_is_listed_is_seen(project: Project, shell: Callable[..., Outcome]) -> None:
    images = project.write("images/a.png", "").parent
    project.write("code/module.py", "")

    outcome = shell("ls recipes/images/*.png recipes/code . recipes")

    assert outcome.observed.folders == {str(images): folder_digest(str(images))}


@pytest.mark.parametrize(
    "write",
    ["echo m > made", "echo m > half; mv half made", "mkdir new; echo m > new/made; cat new/made; ls new; mv new late"],
)
def test_what_appears_meanwhile_is_no_input(project: Project, shell: Callable[..., Outcome], write: str) -> None:
    outcome = shell(f"{write}; cat made late/made; ls late")

    assert outcome.observed.files == {}
    assert outcome.observed.folders == {}


def test_what_the_node_writes_through_python_is_no_input(extra: Path, call: Callable[..., Outcome]) -> None:
    outcome = call("import os\ndef main():\n    open('extra.txt', 'w').write('y')\n    os.system('cat extra.txt')\n")

    assert extra.read_text() == "y"
    assert outcome.observed.files == {}


@pytest.mark.parametrize("write", ["echo z > extra.txt", "echo z > other; mv other extra.txt"])
def test_what_others_write_before_the_read_is_an_input(extra: Path, shell: Callable[..., Outcome], write: str) -> None:
    """They may be an editor, and the file was there before."""
    outcome = shell(f"{write}; cat extra.txt")

    assert extra.read_text() == "z\n"
    assert outcome.observed.files == {str(extra): sha256(extra)}


def test_what_is_read_before_python_writes_it_holds_for_no_content(extra: Path, call: Callable[..., Outcome]) -> None:
    outcome = call("import os\ndef main():\n    os.system('cat extra.txt')\n    open('extra.txt', 'w').write('y')\n")

    assert outcome.observed.files == {str(extra): "changing"}


def test_what_is_only_written_is_no_input(extra: Path, shell: Callable[..., Outcome]) -> None:
    outcome = shell("echo z > extra.txt; echo y >> extra.txt")

    assert outcome.observed.files == {}


@pytest.mark.parametrize("edit", ["echo y > extra.txt", "echo y > other; mv other extra.txt", "rm extra.txt"])
def test_file_that_is_edited_after_the_read_holds_for_no_content(
    extra: Path, shell: Callable[..., Outcome], edit: str
) -> None:
    outcome = shell(f"cat extra.txt; {edit}")

    assert outcome.observed.files == {str(extra): "changing"}


@pytest.mark.parametrize("then", ["", "; cat extra.txt"], ids=["alone", "and read again"])
def test_file_that_is_edited_while_it_is_open_holds_for_no_content(
    extra: Path, call: Callable[..., Outcome], then: str
) -> None:
    edit = f"open('other.txt', 'w')\n    os.system('echo y > extra.txt{then}')"  # two openings may be told as one
    outcome = call(f"{NATIVE}def main():\n    opened('extra.txt')\n    {edit}\n")

    assert outcome.observed.files == {str(extra): "changing"}


def test_folder_that_changes_after_the_listing_holds_for_no_names(
    project: Project, shell: Callable[..., Outcome]
) -> None:
    images = project.write("images/a.png", "").parent

    outcome = shell("ls recipes/images; touch recipes/images/b.png")

    assert outcome.observed.folders == {str(images): "changing"}


def test_what_python_reads_is_known_to_be_the_nodes(extra: Path, call: Callable[..., Outcome]) -> None:
    outcome = call("import os\ndef main():\n    os.system('cat extra.txt')\n    open('extra.txt').read()\n")

    assert outcome.observed.files == {str(extra): sha256(extra)}
    assert outcome.observed.unsure == []


def test_known_files_inputs_and_ignored_folders_do_not_count(
    project: Project, extra: Path, shell: Callable[..., Outcome]
) -> None:
    (project.root / "input.txt").write_text("i")
    (project.root / "build/other.txt").write_text("o")

    outcome = shell(
        "cat extra.txt input.txt build/other.txt",
        known_files=(str(extra), str(project.recipes / "toys.py")),
        inputs={"text": str(project.root / "input.txt")},
    )

    assert outcome.observed.files == {}
    assert outcome.observed_by == OBSERVERS


def test_module_that_is_loaded_counts_as_code_alone(project: Project, call: Callable[..., Outcome]) -> None:
    helper = project.write("helper.py", "value = 1")

    outcome = call("import importlib\ndef main(): return importlib.import_module('hel' + 'per').value")

    assert outcome.observed.modules["helper"] == str(helper)
    assert outcome.observed.files == {}


def test_links_count_beside_what_they_lead_to(
    project: Project, extra: Path, shell: Callable[..., Outcome], tmp_path: Path
) -> None:
    """Those to folders outside are followed; one that leads around in a circle ends."""
    outside = tmp_path / "outside/deep/data.txt"
    outside.parent.mkdir(parents=True)
    outside.write_text("d")
    (project.root / "link.txt").symlink_to("extra.txt")
    (project.root / "data").symlink_to(tmp_path / "outside")
    (tmp_path / "outside/back").symlink_to(project.root)

    outcome = shell("cat link.txt data/deep/data.txt")

    assert outcome.observed.files == {
        str(extra): sha256(extra),
        str(project.root / "link.txt"): sha256(extra),
        str(project.root / "data/deep/data.txt"): sha256(outside),
    }
    assert outcome.observed_by == OBSERVERS


def test_folder_keeps_being_watched_under_another_name(project: Project, shell: Callable[..., Outcome]) -> None:
    file = project.write("early/a.txt", "a")

    outcome = shell("mv recipes/early recipes/late; cat recipes/late/a.txt")

    assert outcome.observed.files == {str(project.recipes / "late/a.txt"): sha256(project.recipes / "late/a.txt")}
    assert not file.exists()


def test_new_folder_stays_new_under_another_name(project: Project, extra: Path) -> None:
    """Also when it has that name by the time that anybody hears of it."""
    new, late = project.root / "new", project.root / "late"

    with Opened(project.job(None).document(), many=1, pause_seconds=0.3) as opened:
        extra.unlink()  # its event is taken at once, those that follow after the pause
        new.mkdir()
        (new / "made.txt").write_text("m")
        new.rename(late)
        while not is_watched(late):
            pass
        os.close(os.open(late / "made.txt", os.O_RDONLY))
        document = opened.add(empty())

    assert document["observed"]["files"] == {}


@pytest.mark.parametrize("come", ["mv", "ln -s"])
def test_folder_that_comes_meanwhile_is_watched(
    project: Project, call: Callable[..., Outcome], tmp_path: Path, come: str
) -> None:
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    (tmp_path / "elsewhere/deep/a.txt").write_text("a")
    code = f"""\
import os, pathlib
come = {come!r}
"""
    code += """

def is_watched(folder):  # proc(5): fdinfo of the process that watches
    try:
        files = pathlib.Path(f"/proc/{os.getppid()}/fdinfo").iterdir()
        return any(f" ino:{os.stat(folder).st_ino:x} " in file.read_text() for file in files)
    except OSError:  # it closed one meanwhile
        return False

def main():
    os.system(f"{come} ../elsewhere late")
    while not is_watched("late/deep"): pass
    os.system("cat late/deep/a.txt")
"""

    outcome = call(code, timeout_seconds=60)

    late = project.root / "late/deep/a.txt"
    assert outcome.observed.files == {str(late): sha256(late)}


def test_folder_of_a_path_in_the_parameters_is_watched(project: Project, tmp_path: Path) -> None:
    weights = tmp_path / "weights/net.bin"
    weights.parent.mkdir()
    weights.write_text("w")
    (tmp_path / "other.bin").write_text("o")
    job = {**project.job(None).document(), "node": {"cmd": f"sh run.sh '{weights}' /etc/passwd"}}

    with Opened(job) as opened:
        for path in (weights, tmp_path / "other.bin", "/etc/passwd"):
            os.close(os.open(path, os.O_RDONLY))
        document = opened.add(empty())

    assert document["observed"]["files"] == {str(weights): sha256(weights)}


def is_watched(folder: Path) -> bool:
    """Whether this process watches it, as proc(5) tells."""
    for file in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(OSError):  # a descriptor that was closed meanwhile
            if f" ino:{folder.stat().st_ino:x} " in file.read_text():
                return True
    return False


def empty() -> dict[str, object]:
    """The document of a worker that saw nothing."""
    observed = {name: {} for name in ("files", "folders", "modules", "presence")}
    return {"observed": observed, "observed_by": ["files"], "written": [], "warnings": []}


def test_limit_on_folders_is_told(project: Project, extra: Path) -> None:
    (project.root / "a/b").mkdir(parents=True)

    with Opened(project.job(None).document(), limit=2) as opened:
        os.close(os.open(extra, os.O_RDONLY))
        document = opened.add(empty())

    assert document["observed"]["files"] == {str(extra): sha256(extra)}
    assert document["observed_by"] == ["files"]
    assert document["warnings"] == [
        "the observer of inotify missed reads (there are more than 2 folders, and "
        "/proc/sys/fs/inotify/max_user_watches has to serve others, too)"
    ]


def test_overflow_is_told(project: Project, extra: Path) -> None:
    other = extra.with_name("other.txt")
    other.write_text("o")
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 1 << 17:
        pytest.skip("the queue is too long to be filled soon")

    with Opened(project.job(None).document(), many=1, pause_seconds=3600) as opened:
        for _ in range(most):
            for path in (extra, other):
                os.close(os.open(path, os.O_RDONLY))
        document = opened.add(empty())

    assert document["observed_by"] == ["files"]
    assert document["warnings"] == [
        "the observer of inotify missed reads (more happened at once than the kernel's queue holds)"
    ]


def test_no_descriptor_left_is_told(project: Project) -> None:
    """A user has few queues, and a process few descriptors."""
    import resource

    job = project.job(None).document()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        with Opened(job) as opened:
            document = opened.add(empty())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert document["observed_by"] == ["files"]
    assert document["warnings"] == ["the observer of inotify missed reads (Too many open files)"]


@pytest.mark.parametrize("version", ["3.8.18", "3.13.0"])
def test_other_interpreters_are_watched_alike(extra: Path, shell: Callable[..., Outcome], version: str) -> None:
    python = Path.home() / f".pyenv/versions/{version}/bin/python"
    if not python.exists():
        pytest.skip(f"no Python {version} installed by pyenv")

    outcome = shell("cat extra.txt", python=python)

    assert outcome.observed.files == {str(extra): sha256(extra)}
    assert "inotify" in outcome.observed_by


def test_nothing_is_watched_where_a_library_is_preloaded(
    project: Project, extra: Path, shell: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    project.executor = LocalExecutor(tmp_path / "more tools")

    outcome = shell("cat extra.txt")

    assert outcome.observed.files == {str(extra): sha256(extra)}
    assert not outcome.observed.unsure
    assert outcome.observed_by == (*OBSERVERS[:-1], "preload")
