"""`why against=REV`: what differs from another revision, with the file that says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mobuild.config.overrides import complete, take_apart
from mobuild.config.project import find_project
from mobuild.revisions import unpacked
from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "python tools/copy.py {in.text} {out}", in: {text: text}, out: .txt}
width: 640
"""
COPY = "import sys\n\nprint(sys.argv)\n"


def git(project: Project, *words: str) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *author, *words], cwd=project.root, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one commit."""
    nodes = NODES.replace("width: 640\n", "")
    files = {"text.txt": "one\n", "tools/copy.py": COPY, "conf/hardware/mine.yaml": HARDWARE}
    project = recipe_project(tmp_path, nodes, files)
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    return project


HARDWARE = """\
name: mine
vendor: generic
memory_gib: 8
backends: [onnxruntime]
"""
URI = "https://models.example.com/w.pt"
REMOTE = f"""\
  net: {{kind: source, package: net==1.0, member: a.pt}}
  folder: {{kind: command, cmd: 'touch {{out}}', out: .txt, needs: {{net: net}}, data: {URI}.data}}
  copy:"""
WORDS = ("why", "target=copy", "hardware=mine")


def test_keys_code_and_content_are_named_with_their_files(project: Project) -> None:
    project.edit("recipes/small.yaml", "out: .txt", "out: .md")
    project.edit("conf/hardware/mine.yaml", "8", "16")
    project.edit("tools/copy.py", "sys.argv", "sys.argv[1:]")
    project.write("text.txt", "two\n")

    lines = project.mobuild(*WORDS, "against=HEAD").out.splitlines()

    assert lines[:2] == [
        "conf/hardware/mine.yaml: hardware.memory_gib: 8 → 16",
        "recipes/small.yaml: nodes.copy.out: .txt → .md",
    ]
    assert [line.split(": ")[:2] for line in lines[2:]] == [
        ["small/mine text", "content"],
        ["small/mine copy", "code.tools/copy.py copy"],
    ]


def test_nothing_differs_from_the_revision_that_lies_here(project: Project) -> None:
    assert project.mobuild(*WORDS, "against=HEAD").out == "nothing differs from HEAD\n"


@pytest.mark.parametrize("revision", ["HEAD~1", "HEAD^", "@{0}~1", "HEAD^{/first}"])
def test_a_revision_is_written_as_git_writes_it(project: Project, revision: str) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "second")

    assert project.mobuild(*WORDS, f"against={revision}").out == f"nothing differs from {revision}\n"


@pytest.mark.parametrize(
    ("word", "seen"),
    [
        ("constraints.against.ref=HEAD~1", "++constraints.against.ref='HEAD~1'"),
        (
            "++constraints.against={ref:v1@{1},accuracy_drop:0.5}",
            "++constraints.against={ref:'v1@{1}',accuracy_drop:0.5}",
        ),
        ("constraints={against:{ref: HEAD~1, latency: 1}}", "++constraints={against:{ref: 'HEAD~1', latency: 1}}"),
        ("against='HEAD~1'", "against='HEAD~1'"),
        ("against=null", "against=null"),
        ("against=v1,HEAD~1", "against=v1,HEAD~1"),
    ],
)
def test_hydra_sees_a_revision_in_quotes(project: Project, word: str, seen: str) -> None:
    completed = complete(take_apart(["-m", word]), find_project(project.root))

    assert completed[0] == seen


def test_a_comment_is_no_difference(project: Project) -> None:
    project.edit("tools/copy.py", "print", "# all of them\nprint")
    project.edit("recipes/small.yaml", "nodes:", "# these\nnodes:")

    assert project.mobuild(*WORDS, "against=HEAD").out == "nothing differs from HEAD\n"


def test_the_answer_as_data(project: Project) -> None:
    project.edit("recipes/small.yaml", "out: .txt", "out: .md")

    answer = json.loads(project.mobuild(*WORDS, "against=HEAD", "format=json").out)

    assert answer["changes"] == [
        {"place": "recipes/small.yaml", "subject": "nodes.copy.out", "old": ".txt", "new": ".md"}
    ]


@pytest.mark.parametrize("recipe", ["small", "small.yaml"])
def test_a_source_that_was_pinned_anew_is_named_with_its_lock_file(project: Project, recipe: str) -> None:
    pins = {name: {"sha256": "0" * 64, "size_bytes": 7} for name in (URI, f"{URI}.data", "net==1.0/a.pt")}
    project.write("recipes/small.lock", json.dumps({"schema": 1, "sources": pins}))
    project.edit("recipes/small.yaml", "uri: text.txt", f"uri: {URI}")
    project.edit("recipes/small.yaml", "  copy:", REMOTE)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "pinned")
    project.edit("recipes/small.lock", "0" * 64, "1" * 64)

    why = project.mobuild(*WORDS, "against=HEAD", f"recipe={recipe}").out.splitlines()
    compared = project.mobuild("compare", "HEAD", ".", *WORDS[1:], "format=json", f"recipe={recipe}").out

    change = f"{'0' * 64} → {'1' * 64}"
    keys = ["nodes.folder.data.sha256", "nodes.net.sha256", "nodes.text.sha256"]
    assert why == [f"recipes/small.lock: {key}: {change}" for key in keys]
    assert json.loads(compared)["comparisons"][0]["configuration"] == [
        {"place": "recipes/small.lock", "key": key, "a": "0" * 64, "b": "1" * 64} for key in keys
    ]


def test_links_out_of_the_repository_lead_where_they_lead_here(project: Project, tmp_path: Path) -> None:
    (tmp_path / "far.txt").write_text("far\n")
    links = {
        "absolute.txt": tmp_path / "far.txt",
        "relative.txt": Path("../far.txt"),
        "own.txt": project.root / "text.txt",
    }
    for name, target in links.items():
        (project.root / name).symlink_to(target)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "links")
    project.write("text.txt", "two\n")

    with unpacked("HEAD", project.root) as folder:
        found = {name: (folder / name).read_text() for name in links}

    assert found == {"absolute.txt": "far\n", "relative.txt": "far\n", "own.txt": "one\n"}


def test_files_of_the_project_are_not_taken_for_modules_of_pythons(project: Project) -> None:
    """mobuild plans a revision in a process of its own, in the folder of that."""
    project.write("queue.py", "raise SystemExit('mine')\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "queue")
    (project.root / "queue.py").unlink()

    assert project.mobuild(*WORDS, "against=HEAD").out == "nothing differs from HEAD\n"


def test_an_unknown_revision_is_named(project: Project) -> None:
    done = project.mobuild(*WORDS, "against=v9", check=False)

    assert done.status == 2
    assert "there is no revision 'v9'" in done.err


def test_a_project_outside_git_is_told(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  c: {kind: command, cmd: 'touch {out}'}\n")

    done = project.mobuild("why", "target=c", "against=HEAD", check=False)

    assert done.status == 2
    assert "not a git repository" in done.err


def test_what_git_ignores_is_as_it_is_now(project: Project) -> None:
    """Virtual environments and weights are in no revision; without them an old one could not be planned."""
    project.write(".gitignore", "/data/\n*.bin\n/build/\n/cache/\n")
    project.edit("recipes/small.yaml", "uri: text.txt", "uri: data/big.bin")
    project.write("data/big.bin", "weights")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "weights aside")
    project.edit("tools/copy.py", "sys.argv", "sys.argv[1:]")

    done = project.mobuild(*WORDS, "against=HEAD")

    assert [line.split(": ")[:2] for line in done.out.splitlines()] == [["small/mine copy", "code.tools/copy.py copy"]]
