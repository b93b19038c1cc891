"""`mobuild cache export|import|key`: to another machine and back, and what made-up files can do (nothing)."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mobuild.errors import SourceError
from mobuild.store import Store
from mobuild.store.importing import import_file
from mobuild.store.record import decode, encode
from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  prep: {kind: command, cmd: "cp {in.copy} {out}/a", in: {copy: copy}, out: folder}
  end: {kind: command, cmd: "cp {in.prep}/a {out}", in: {prep: prep}, out: .txt}
  other: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .md}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = recipe_project(tmp_path_factory.mktemp("export"), NODES, {"text.txt": "one\n"})
    project.mobuild("target=[end,other]")
    project.mobuild("cache", "export", "target=end", "end.tar")
    project.mobuild("cache", "export", "target=[end,other]", "all.tar")
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    return built.copy(tmp_path)


def clone(project: Project, folder: Path) -> Project:
    """The project elsewhere, with an empty cache."""
    shutil.copytree(project.root, folder / "project", ignore=shutil.ignore_patterns("build"))
    return Project(folder / "project", folder / "cache")


def test_what_was_imported_is_fresh_and_nothing_runs(built: Project, tmp_path: Path) -> None:
    other = clone(built, tmp_path)

    done = other.mobuild("cache", "import", "end.tar")

    assert done.out == "end.tar: 3 records added, 0 were here already\n"
    assert other.mobuild("target=end", "frozen=true").out == f"{other.root}/build/small/cpu/end.txt\n"
    assert other.mobuild("verify").status == 0


def test_a_real_engine_is_fresh_on_another_clone(tmp_path: Path) -> None:
    """An export, folders and undeclared inputs among it."""
    from tests.projects import toy_project

    project = toy_project(tmp_path / "here")
    project.mobuild("target=engine")
    file = tmp_path / "engine.tar"
    project.mobuild("cache", "export", "target=engine", str(file))
    other = clone(project, tmp_path / "there")

    other.mobuild("cache", "import", str(file))

    other.mobuild("target=engine", "frozen=true")
    assert set(other.states().values()) == {"fresh"}


def test_equal_caches_export_equal_bytes(project: Project, tmp_path: Path) -> None:
    other = clone(project, tmp_path / "there")
    other.mobuild("cache", "import", "end.tar")

    other.mobuild("cache", "export", "target=end", "again.tar")

    assert (other.root / "again.tar").read_bytes() == (project.root / "end.tar").read_bytes()


def test_importing_twice_changes_nothing(project: Project) -> None:
    before = snapshot(project)

    done = project.mobuild("cache", "import", "end.tar")

    assert done.out == "end.tar: 0 records added, 3 were here already\n"
    assert snapshot(project) == before


def test_records_that_are_here_stay(project: Project, tmp_path: Path) -> None:
    """Of the same work done twice, with other bytes."""
    other = clone(project, tmp_path / "there")
    other.mobuild("target=end")
    before = snapshot(other)

    other.mobuild("cache", "import", "end.tar")

    assert snapshot(other) == before


def test_what_is_damaged_here_is_healed_by_an_import(project: Project) -> None:
    shutil.rmtree(project.cache / "objects")
    (project.cache / "objects").mkdir()

    project.mobuild("cache", "import", "end.tar")

    assert project.mobuild("target=end", "frozen=true").status == 0


def test_gc_leaves_alone_what_an_import_has_staged(built: Project, tmp_path: Path) -> None:
    other = clone(built, tmp_path)
    store = Store.open(other.cache)
    first = decode(next((built.cache / "records").glob("*/*/*.json")).read_bytes())
    with ThreadPoolExecutor(1) as aside:
        with store.lock(first.key):  # so that the import waits before it publishes that one
            done = aside.submit(import_file, Store.open(other.cache), other.root / "all.tar")
            while not (list(store.local.glob("running/*")) or done.done()):
                continue
            other.mobuild("gc", "gc.age=0s")

        assert done.result().added == 4


def test_a_folder_that_is_not_there_is_named(project: Project) -> None:
    done = project.mobuild("cache", "export", "target=end", "none/end.tar", check=False)

    assert done.status == 1
    assert done.errors == ("'none/end.tar': there is no folder 'none' to write it into\n  mkdir -p 'none'",)


def test_what_is_no_plain_file_is_not_replaced(project: Project) -> None:
    """Root's `/dev/null`, for one."""
    os.mkfifo(project.root / "pipe")

    done = project.mobuild("cache", "export", "target=end", "pipe", check=False)

    assert (done.status, done.errors) == (1, ("'pipe': is there, and is no plain file\n  name a new file",))
    assert (project.root / "pipe").is_fifo()


def test_only_what_is_built_can_be_exported(project: Project) -> None:
    project.write("text.txt", "two\n")

    done = project.mobuild("cache", "export", "target=end", "new.tar", check=False)

    assert done.status == 1
    assert done.errors == (
        "small/cpu copy is stale, and only what is built can be exported\n  build it: mobuild target=end recipe=small",
    )
    assert not (project.root / "new.tar").exists()


def test_the_answers_as_data(project: Project) -> None:
    exported = json.loads(project.mobuild("cache", "export", "target=end", "format=json", "end2.tar").out)
    imported = json.loads(project.mobuild("cache", "import", "end2.tar", "format=json").out)
    keyed = json.loads(project.mobuild("cache", "key", "target=end", "format=json").out)

    assert (exported["schema"], exported["records"], exported["file"]) == (1, 3, "end2.tar")
    assert (imported["added"], imported["present"]) == (0, 3)
    assert exported["key"] == keyed["key"] and keyed["nodes"].keys() == {
        f"small/cpu {name}" for name in ("text", "copy", "prep", "end")
    }


KEY = ("cache", "key", "target=end")


def test_the_key_is_the_same_before_and_after_the_build_and_on_another_clone(project: Project, tmp_path: Path) -> None:
    other = clone(project, tmp_path / "there")

    key = other.mobuild(*KEY).out

    assert key.startswith("mobuild-1-") and len(key.strip()) == len("mobuild-1-") + 32
    assert project.mobuild(*KEY).out == key


CHANGES: dict[str, tuple[Callable[[Project], None], bool]] = {
    "an input": (lambda project: project.write("text.txt", "two\n"), True),
    "a parameter": (
        lambda project: project.edit("recipes/small.yaml", "out: .txt}\n  prep", "out: .md}\n  prep"),
        True,
    ),
    "a comment": (lambda project: project.edit("recipes/small.yaml", "nodes:", "# nodes\nnodes:"), False),
    "a touch": (lambda project: (project.root / "text.txt").touch(), False),
    "another target": (lambda project: project.edit("recipes/small.yaml", "out: .md", "out: .html"), False),
    "a constraint": (
        lambda project: project.edit("recipes/small.yaml", "nodes:", "constraints: {engine_mb: 1}\nnodes:"),
        False,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_key_changes_where_a_key_behind_it_does(project: Project, change: str) -> None:
    before = project.mobuild(*KEY).out

    make, is_other = CHANGES[change]
    make(project)

    assert (project.mobuild(*KEY).out != before) == is_other


def test_words_that_are_none_of_its_own(project: Project) -> None:
    unknown = project.mobuild("cache", "exprot", check=False)
    fileless = project.mobuild("cache", "import", check=False)

    assert (unknown.status, fileless.status) == (2, 2)
    assert unknown.errors[0].startswith("cache: what is 'exprot'? Did you mean 'export'?")
    assert fileless.errors == ("cache import: expected one file\n  mobuild cache import FILE",)


Members = list[tuple[tarfile.TarInfo, bytes]]


def rewritten(project: Project, change: Callable[[Members], Members | None]) -> Path:
    """The export with other members."""
    with tarfile.open(project.root / "end.tar") as archive:
        members: Members = []
        for one in archive:
            content = archive.extractfile(one)
            members.append((one, content.read() if content else b""))
    changed = change(members) or members
    path = project.root / "hostile.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in changed:
            archive.addfile(info, io.BytesIO(data))
    return path


def file(name: str, data: bytes = b"evil\n") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def link(name: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info, b""


def header(kind: bytes) -> tarfile.TarInfo:
    """One that tells of the next member, and tells nothing."""
    info = tarfile.TarInfo("././@PaxHeader")
    info.type = kind
    return info


def _object(members: Members) -> int:
    return next(i for i, (info, _) in enumerate(members) if info.name.startswith("objects/"))


def _with_object(data: bytes) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        i = _object(members)
        return [*members[:i], file(members[i][0].name, data), *members[i + 1 :]]

    return change


def _with_record(**changes: object) -> Callable[[Members], Members]:
    """The last record with other fields, written as mobuild would."""

    def change(members: Members) -> Members:
        info, data = members[-1]
        return [*members[:-1], file(info.name, encode(dataclasses.replace(decode(data), **changes)))]  # type: ignore[arg-type]

    return change


OBJECT = "objects/ab/" + "c" * 30
HOSTILE: dict[str, tuple[Callable[[Members], Members | None], str]] = {
    "a path that leaves": (lambda members: [*members, file("objects/../../../evil")], "is neither an object nor"),
    "an absolute path": (lambda members: [*members, file("/tmp/mobuild-evil")], "is neither an object nor"),
    "a foreign name": (lambda members: [*members, file("local/x/files.sqlite")], "is neither an object nor"),
    "a symbolic link": (lambda members: [*members, link(OBJECT, tarfile.SYMTYPE)], "is no plain file"),
    "a hard link": (lambda members: [*members, link(OBJECT, tarfile.LNKTYPE)], "is no plain file"),
    "a device": (lambda members: [*members, link(OBJECT, tarfile.CHRTYPE)], "is no plain file"),
    "a pipe": (lambda members: [*members, link(OBJECT, tarfile.FIFOTYPE)], "is no plain file"),
    "a folder": (lambda members: [*members, link("objects", tarfile.DIRTYPE)], "is no plain file"),
    "a name twice": (lambda members: [*members, members[-1]], "is there twice"),
    "a wrong digest": (_with_object(b"other\n"), "has other content than its name says"),
    "a lost object": (lambda members: [*members[: _object(members)], *members[_object(members) + 1 :]], "is missing"),
    "an object of nobody": (
        lambda members: [members[0], file("objects/84/c4ce8d3ffd7b4ec0e0c02b1c47a1be"), *members[1:]],
        "has other content than its name says",
    ),
    "no record": (lambda members: [*members[:-1], file(members[-1][0].name, b"{}")], "is no record"),
    "a record of other work": (
        lambda members: [*members[:-1], file(f"records/ab/{'a' * 32}/plain.json", members[-1][1])],
        "is the record of other work",
    ),
    "a changed key": (_with_record(key="ab" * 16), "is the record of other work"),
    "a suffix that leaves": (_with_record(suffix="/../../evil"), "is no record"),
    "headers that never end": (
        lambda members: [*members[:1], *[(header(b"x"), b"")] * 2000, *members[1:]],
        "recursion depth",
    ),
    "another version": (lambda members: [file("mobuild-cache", b"mobuild cache 9\n"), *members[1:]], "another version"),
    "no head": (lambda members: members[1:], "is no export of mobuild"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_whole(built: Project, tmp_path: Path, case: str) -> None:
    change, message = HOSTILE[case]
    other = clone(built, tmp_path)
    path = rewritten(other, change)

    refused(other, path, message)
    assert not (tmp_path / "evil").exists() and not Path("/tmp/mobuild-evil").exists()


@pytest.mark.parametrize("place", ["artifact", "member"])
def test_a_record_that_lies_about_its_artifact_is_refused(built: Project, tmp_path: Path, place: str) -> None:
    other = clone(built, tmp_path)

    def change(members: Members) -> Members:
        info, data = members[-1]
        record = decode(data)
        changes = {"sha256": "0" * 64} if place == "artifact" else {"size_bytes": 5}
        lie = dataclasses.replace(record, artifact=dataclasses.replace(record.artifact, **changes))  # type: ignore[arg-type]
        return [*members[:-1], file(info.name, encode(lie))]

    refused(other, rewritten(other, change), "is not the artifact that its record tells of")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_truncated_file_is_refused_whole(built: Project, tmp_path: Path, share: float) -> None:
    other = clone(built, tmp_path)
    whole = (other.root / "end.tar").read_bytes()
    path = other.root / "cut.tar"
    path.write_bytes(whole[: int(len(whole.rstrip(b"\0")) * share)])

    refused(other, path, "")


def test_a_file_cut_between_members_is_refused_whole(built: Project, tmp_path: Path) -> None:
    other = clone(built, tmp_path)
    with tarfile.open(other.root / "end.tar") as archive:
        last = archive.getmembers()[-1]
    path = other.root / "cut.tar"
    path.write_bytes((other.root / "end.tar").read_bytes()[: last.offset])

    refused(other, path, "it is cut off")


def test_a_size_beyond_the_file_is_refused(built: Project, tmp_path: Path) -> None:
    other = clone(built, tmp_path)
    info = tarfile.TarInfo(OBJECT)
    info.size = 1 << 50
    head, _ = file("mobuild-cache", b"mobuild cache 1\n")
    path = other.root / "huge.tar"
    blocks = head.tobuf() + b"mobuild cache 1\n".ljust(512, b"\0") + info.tobuf(tarfile.GNU_FORMAT)
    path.write_bytes(blocks + bytes(10240))

    refused(other, path, "it is cut off")


@pytest.mark.parametrize("content", [b"", b"no tar at all", bytes(10240), b"\x80\x04K\x2a."])
def test_a_file_that_is_no_export_is_refused(project: Project, content: bytes) -> None:
    path = project.root / "junk.tar"
    path.write_bytes(content)

    refused(project, path, "")


def test_a_refusal_is_status_1_and_says_how_to_go_on(project: Project) -> None:
    project.write("junk.tar", "no tar")

    done = project.mobuild("cache", "import", "junk.tar", check=False)

    assert (done.status, done.out) == (1, "")
    assert done.errors[0].splitlines()[1:] == [
        "  nothing of it was imported; make it again: mobuild cache export target=… FILE"
    ]


def test_a_file_that_is_not_there_is_named(project: Project) -> None:
    done = project.mobuild("cache", "import", "nothing.tar", check=False)

    assert done.status == 1
    assert done.errors[0].startswith("'nothing.tar': cannot be read: No such file or directory")


def refused(project: Project, path: Path, message: str) -> None:
    store = Store.open(project.cache)
    before = snapshot(project)

    with pytest.raises(SourceError) as caught:
        import_file(store, path)

    assert caught.value.message.startswith(f"'{path}': is refused: ") and message in caught.value.message
    assert snapshot(project) == before


def snapshot(project: Project) -> dict[str, bytes]:
    """Every object and record, and what is left in staging."""
    folders = [*project.cache.glob("local/*/staging"), project.cache / "objects", project.cache / "records"]
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
