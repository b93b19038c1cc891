"""Inputs that change in awkward ways: while a node runs, behind links, with clocks that jump, in odd places."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mobuild.errors import MobuildError, SourceError
from tests.faults.steps import NODES, Steps, assert_whole, environment, record_files, steps_project
from tests.projects import recipe_project


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    made = steps_project(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made


# Reads its input when `go` is there, and ends when that is gone again.
SLOW = """\
echo one >> "$RUNS"
touch "$RUNS.waits"
until [ -e "$RUNS.go" ]; do sleep 0.02; done
cat "$2" > "$1"
touch "$RUNS.read"
while [ -e "$RUNS.go" ]; do sleep 0.02; done
"""
WAITING = """\
  data: {kind: source, uri: data.txt}
  one: {kind: command, cmd: "sh slow.sh {out} {in.data}", needs: {data: data}, out: .txt}
"""


class Slow:
    """A build whose only node waits for the test before it reads, and again before it ends."""

    def __init__(self, root: Path) -> None:
        self.project = recipe_project(root, WAITING, {"slow.sh": SLOW, "data.txt": "planned"})
        self.runs, self.data = root / "runs", self.project.root / "data.txt"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mobuild", "target=one"],
            cwd=self.project.root,
            env={**os.environ, "MOBUILD_CACHE": str(self.project.cache), "RUNS": str(self.runs)},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.wait_for("waits")

    def wait_for(self, name: str) -> None:
        while not self.runs.with_name(f"runs.{name}").exists():
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            time.sleep(0.02)  # for another process, not for a time

    def read(self) -> None:
        self.runs.with_name("runs.go").touch()
        self.wait_for("read")

    def end(self) -> tuple[int, str]:
        self.runs.with_name("runs.go").unlink()
        _, err = self.process.communicate()
        return self.process.returncode, err


@pytest.mark.parametrize("put_back", [False, True], ids=["edited", "edited and put back"])
def test_an_input_that_is_edited_while_the_node_runs_voids_its_result(tmp_path: Path, put_back: bool) -> None:
    slow = Slow(tmp_path)
    before = slow.data.stat()

    slow.data.write_text("another")
    slow.read()
    if put_back:
        slow.data.write_text("planned")
        os.utime(slow.data, ns=(before.st_atime_ns, before.st_mtime_ns))
    status, err = slow.end()

    assert status == 1
    assert "error: node 'one': its input 'data' changed while it ran\n  run mobuild again" in err
    assert record_files(slow.project.cache) == []
    assert not (slow.project.root / "build/small/cpu/one.txt").exists()


def test_an_undisturbed_slow_node_is_kept(tmp_path: Path) -> None:
    slow = Slow(tmp_path)

    slow.read()

    assert slow.end()[0] == 0
    assert (slow.project.root / "build/small/cpu/one.txt").read_text() == "planned"


def test_a_failed_node_is_not_kept_its_siblings_are_and_the_rerun_resumes_there(steps: Steps) -> None:
    steps.project.edit("step.sh", "{ echo", '[ $name != three ] || [ -e "$RUNS.ok" ] || exit 3\n{ echo')

    with pytest.raises(MobuildError, match="node 'three'"):
        steps.build()
    first = steps.ran()
    steps.runs.with_name("runs.ok").touch()
    again = steps.build()

    assert set(first) == {"one", "pair", "three"}
    assert again == {"three", "last"}
    assert_whole(steps.project.cache)


def forward(path: Path) -> None:
    os.utime(path, (4_102_444_800, 4_102_444_800))  # 2100


def backward(path: Path) -> None:
    os.utime(path, (0, 0))


@pytest.mark.parametrize("clock", [forward, backward])
def test_times_of_inputs_do_not_matter_and_edits_under_them_do(steps: Steps, clock: Callable[[Path], None]) -> None:
    data = steps.project.root / "data/a.txt"
    steps.build()

    clock(data)
    touched = steps.build()
    data.write_text("text c\n")  # of the same size
    clock(data)
    edited = steps.build()

    assert (touched, edited) == (set(), set(NODES))
    assert b"text c" in steps.artifacts()["last"]


def test_a_record_from_the_future_is_a_record(steps: Steps) -> None:
    steps.build()
    for path in record_files(steps.project.cache):
        text = path.read_text()
        created = json.loads(text)["created"]
        _replace_record(path, text.replace(created, "2999-01-01T00:00:00+00:00"))

    assert steps.build() == set()


def _replace_record(path: Path, text: str) -> None:
    from mobuild.fingerprint import digest_bytes

    document = json.loads(text)
    del document["checksum"]
    document["checksum"] = digest_bytes(json.dumps(document, sort_keys=True).encode())
    path.unlink()
    path.write_text(json.dumps(document))


def test_a_link_counts_by_what_it_leads_to(steps: Steps, tmp_path: Path) -> None:
    data = steps.project.root / "data/a.txt"
    (tmp_path / "one.txt").write_text(data.read_text())
    (tmp_path / "two.txt").write_text("text c\n")
    steps.build()

    data.unlink()
    data.symlink_to(tmp_path / "one.txt")
    linked = steps.build()
    data.unlink()
    data.symlink_to(tmp_path / "two.txt")
    retargeted = steps.build()
    (tmp_path / "two.txt").write_text("text d\n")
    edited = steps.build()
    data.unlink()
    os.link(tmp_path / "one.txt", data)
    hard = steps.build()

    assert (linked, hard) == (set(), set())
    assert retargeted == edited == set(NODES)


def test_a_folder_behind_a_link_counts_by_what_it_leads_to(steps: Steps) -> None:
    folder = steps.project.root / "data"
    steps.build()

    folder.rename(folder.with_name("first"))
    folder.symlink_to("first")
    linked = steps.build()
    steps.project.write("second/a.txt", "text c\n")
    steps.project.write("second/b.txt", "text b\n")
    folder.unlink()
    folder.symlink_to("second")
    retargeted = steps.build()

    assert (linked, retargeted) == (set(), set(NODES))


def _swap(folder: Path) -> None:
    (folder / "a.txt").rename(folder / "c.txt")
    (folder / "b.txt").rename(folder / "a.txt")
    (folder / "c.txt").rename(folder / "b.txt")


FOLDER: dict[str, Callable[[Path], object]] = {
    "a file more": lambda folder: (folder / "c.txt").write_text("more"),
    "a file more below": lambda folder: [(folder / "sub").mkdir(), (folder / "sub/c.txt").write_text("more")],
    "an empty file more": lambda folder: (folder / "c.txt").touch(),
    "two files swapped": _swap,
    "a file that may run": lambda folder: (folder / "a.txt").chmod(0o755),
}


@pytest.mark.parametrize("change", FOLDER)
def test_a_change_of_a_dataset_folder_is_noticed(steps: Steps, change: str) -> None:
    steps.build()

    FOLDER[change](steps.project.root / "data")

    assert "one" in steps.build()


def test_a_file_that_left_or_changed_its_name_is_noticed(steps: Steps) -> None:
    steps.project.write("data/c.txt", "c")
    steps.build()

    (steps.project.root / "data/c.txt").rename(steps.project.root / "data/d.txt")
    renamed = steps.build()
    (steps.project.root / "data/d.txt").unlink()
    removed = steps.build()

    assert "one" in renamed and "one" in removed


def test_a_dataset_folder_that_is_gone_is_named(steps: Steps) -> None:
    steps.build()
    (steps.project.root / "data").rename(steps.project.root / "elsewhere")

    with pytest.raises(SourceError, match=f"source '{steps.project.root}/data': there is no such file"):
        steps.build()


@pytest.mark.parametrize("name", ["with space", "ünï ✓", "new\nline", "q'uo\"te $HOME", os.fsdecode(b"\xff\xfe"), "*"])
def test_a_project_may_lie_in_an_odd_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    steps = steps_project(tmp_path / name)
    for variable, value in steps.env.items():
        monkeypatch.setenv(variable, value)

    first, again = steps.build(), steps.build()

    assert (first, again) == (set(NODES), set())
    assert len(steps.artifacts()) == 3


def test_the_answer_of_a_project_in_an_odd_place_is_right(tmp_path: Path) -> None:
    steps = steps_project(tmp_path / os.fsdecode(b"new\nline \xff"))
    command = [sys.executable, "-m", "mobuild", "target=last"]

    done = [
        subprocess.run(command, cwd=steps.project.root, env=environment(steps), capture_output=True) for _ in range(3)
    ]

    assert [one.returncode for one in done] == [0, 0, 0], done[-1].stderr
    assert {one.stdout for one in done} == {os.fsencode(steps.build_folder / "last") + b"\n"}


@pytest.mark.parametrize("length", [200, 300])
def test_a_long_name_of_a_node_works_or_is_refused_in_words(tmp_path: Path, length: int) -> None:
    name = "n" * length
    project = recipe_project(tmp_path, f"  {name}: {{kind: command, cmd: 'touch {{out}}', out: .txt}}\n")

    done = project.mobuild(f"target={name}", check=False)

    assert done.status == (0 if length == 200 else 1)
    assert length == 200 or done.errors[0].startswith(f"node '{name}': the system refuses: File name too long ('")


def test_sets_of_text_have_one_order_in_every_process(tmp_path: Path) -> None:
    script = "import sys\nopen(sys.argv[1], 'w').write(' '.join({f'{i}.5' for i in range(40)}))\n"
    nodes = '  words: {kind: command, cmd: "python words.py {out}", out: .txt}\n'
    project = recipe_project(tmp_path, nodes, {"words.py": script})
    project.mobuild("target=words", env={"PYTHONHASHSEED": "7"})

    verified = project.mobuild("verify", "verify.rebuild=true", "target=words", env={"PYTHONHASHSEED": "random"})

    assert "deterministic" in verified.out and "varies" not in verified.out


def test_asserts_and_encodings_are_the_same_in_every_environment(tmp_path: Path) -> None:
    script = "import sys\nopen(sys.argv[1], 'w').write(f'{__debug__} {len(open(\"umlaut.txt\").read())}')\n"
    nodes = '  words: {kind: command, cmd: "python words.py {out}", out: .txt}\n'
    project = recipe_project(tmp_path, nodes, {"words.py": script, "umlaut.txt": "ä"})

    other = {"PYTHONOPTIMIZE": "2", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    project.mobuild("target=words", env=other)

    assert (project.root / "build/small/cpu/words.txt").read_text() == "True 1"
