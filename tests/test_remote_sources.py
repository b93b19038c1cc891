"""Remote sources in whole projects: pinned, fetched once, told beforehand, and never asked for when offline."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobuild import pins
from tests.fetch.servers import Handler, Web, first, status, web, whole
from tests.projects import Project, recipe_project

COPY = "  c: {kind: command, cmd: 'cp -r {in.d} {out}', needs: {d: data}, out: .txt}\n"
NO_SOCKETS = """
import sys

def refuse(event, arguments):
    if event in ("socket.__new__", "socket.getaddrinfo", "socket.connect"):
        raise RuntimeError(f"{event} {arguments}")

sys.addaudithook(refuse)
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with web() as running:
        running.answers["/w.bin"] = whole(b"weights")
        yield running


def project_of(tmp_path: Path, *uris: str) -> Project:
    sources = "".join(f"  data{number or ''}: {{kind: source, uri: '{uri}'}}\n" for number, uri in enumerate(uris))
    return recipe_project(tmp_path, sources + COPY)


def test_a_source_is_pinned_announced_fetched_once_and_then_fresh(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, f"{server.url}/w.bin")

    unpinned = project.mobuild("target=c", check=False)
    project.mobuild("lock", "target=c")
    server.asked.clear()
    planned = project.mobuild("plan", "target=c")
    asked_by_plan = len(server.asked)
    built = project.mobuild("target=c")
    again = project.mobuild("plan", "target=c")

    assert (unpinned.status, asked_by_plan, len(server.asked)) == (1, 0, 1)
    assert unpinned.errors == (
        f"recipe 'small', node 'data': '{server.url}/w.bin' is not pinned\n  mobuild lock target=c recipe=small",
    )
    assert f"never built; fetched from {server.url}/w.bin (7 bytes)" in planned.out
    assert Path(built.out.strip()).read_text() == "weights"
    assert {line.split()[0] for line in again.out.splitlines()} == {"fresh"}


def test_the_same_bytes_from_a_mirror_are_the_same_source(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, f"{server.url}/w.bin")
    project.mobuild("lock", "target=c")
    project.mobuild("target=c")
    server.answers["/mirror/w.bin"] = whole(b"weights")

    project.edit("recipes/small.yaml", "/w.bin", "/mirror/w.bin")
    project.mobuild("lock", "target=c")

    assert project.built("target=c", recipe="small") == set()


def test_moved_content_is_refused_with_both_digests_until_it_is_pinned(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, f"{server.url}/w.bin")
    project.mobuild("lock", "target=c")
    server.answers["/w.bin"] = whole(b"better weights")

    refused = project.mobuild("target=c", check=False)
    pinned = project.mobuild("lock", "target=c")
    built = project.mobuild("target=c")

    old = "9a129038d9a0"
    assert refused.status == 1
    assert f"expected SHA-256 {old}" in refused.errors[0] and " (7 bytes), found " in refused.errors[0]
    assert refused.errors[0].endswith("or run `mobuild lock`")
    assert f"moved {server.url}/w.bin: SHA-256 {old}" in pinned.out
    assert Path(built.out.strip()).read_text() == "better weights"


def test_what_passes_on_the_way_is_no_failure(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, f"{server.url}/w.bin")
    project.mobuild("lock", "target=c")
    server.asked.clear()
    server.answers["/w.bin"] = first(status(503), then=whole(b"weights"))

    assert Path(project.mobuild("target=c").out.strip()).read_text() == "weights"


def test_what_is_gone_fails_its_node_with_the_way_out(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, f"{server.url}/w.bin")
    project.mobuild("lock", "target=c")
    del server.answers["/w.bin"]

    done = project.mobuild("target=c", check=False)

    assert done.status == 1
    assert done.errors == (
        f"node 'data': source '{server.url}/w.bin': is not there: 404 Not Found\n  check its name and version",
    )


def test_lock_pins_what_can_be_read_and_names_what_cannot(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, f"{server.url}/nosuch.bin", f"{server.url}/w.bin")

    done = project.mobuild("lock", "target=[data,data1]", check=False)

    assert done.status == 1
    assert done.errors == (
        f"source '{server.url}/nosuch.bin': is not there: 404 Not Found\n  check its name and version",
    )
    assert f"{server.url}/w.bin" in (project.root / "recipes/small.lock").read_text()


def test_lock_keeps_what_another_command_pinned_meanwhile(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, f"{server.url}/w.bin")
    other = pins.Pin("0" * 64, 7)

    def answer(handler: Handler, number: int) -> None:
        pins.write(project.root / "recipes/small.lock", {"s3://models/other.pt": other})
        whole(b"weights")(handler, number)

    server.answers["/w.bin"] = answer
    project.mobuild("lock", "target=c")

    found = pins.read(project.root / "recipes/small.lock")
    assert (set(found), found["s3://models/other.pt"]) == ({f"{server.url}/w.bin", "s3://models/other.pt"}, other)


def test_lock_waits_once_for_a_server_that_does_not_answer(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, "s3://models/a.pt", "s3://others/b.pt", f"{server.url}/w.bin")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_DEFAULT_REGION": "us-east-1"}

    done = project.mobuild(
        "lock",
        "target=[data,data1,data2]",
        check=False,
        env={**keys, "AWS_ENDPOINT_URL": endpoint, "AWS_MAX_ATTEMPTS": "1"},
    )

    first, second = done.errors
    assert first.startswith("source 's3://models/a.pt': its server does not answer: ")
    assert second == (
        "source 's3://others/b.pt': was not asked for, since its server has not answered for 's3://models/a.pt'"
    )
    assert done.status == 1 and f"pinned {server.url}/w.bin" in done.out


def test_lock_pins_the_sources_of_every_job_of_a_sweep(tmp_path: Path, server: Web) -> None:
    server.answers["/v.bin"] = whole(b"other")
    project = project_of(tmp_path, f"{server.url}/w.bin")

    project.mobuild("lock", "-m", "target=c", f"nodes.data.uri={server.url}/w.bin,{server.url}/v.bin")

    text = (project.root / "recipes/small.lock").read_text()
    assert f"{server.url}/w.bin" in text and f"{server.url}/v.bin" in text


def test_offline_everything_absent_is_named_at_once_and_no_socket_is_made(tmp_path: Path, server: Web) -> None:
    server.answers["/v.bin"] = whole(b"other")
    project = project_of(tmp_path, f"{server.url}/w.bin", f"{server.url}/v.bin", "s3://bucket/images/")
    project.mobuild("lock", "target=[data,data1]")
    project.write("site/sitecustomize.py", NO_SOCKETS)
    blind = {"PYTHONPATH": str(project.root / "site")}

    absent = project.mobuild("target=[c,data1,data2]", "offline=true", check=False, env=blind)
    planned = project.mobuild("plan", "target=[c,data1]", "offline=true", check=False, env=blind)
    locked = project.mobuild("lock", "target=[c,data1]", "offline=true", check=False, env=blind)
    project.mobuild("target=[c,data1]")
    shutil.rmtree(project.root / "build")
    built = project.mobuild("target=[c,data1]", "offline=true", env=blind)
    again = project.mobuild("verify", "verify.rebuild=true", "target=data", "offline=true", check=False, env=blind)

    assert absent.status == planned.status == locked.status == 1
    assert absent.errors == (
        "offline=true, and 3 remote sources are not in the cache:\n"
        f"  node 'data': {server.url}/w.bin (7 bytes)\n"
        f"  node 'data1': {server.url}/v.bin (5 bytes)\n"
        "  node 'data2': s3://bucket/images/, not pinned\n"
        "  run the same once with a network, or copy a cache that has them",
    )
    assert "offline=true, and 2 remote sources are not in the cache" in planned.err
    assert "lock: offline=true, and to pin is to read" in locked.err
    assert [Path(line).read_text() for line in built.out.splitlines()] == ["weights", "other"]
    assert "node 'data': is to be fetched, and offline=true asks no network" in again.out


def test_a_folder_is_fetched_whole_and_its_members_can_be_needed(tmp_path: Path) -> None:
    far = tmp_path / "far"
    for name, text in (("a/1.txt", "one"), ("2.txt", "two")):
        (far / name).parent.mkdir(parents=True, exist_ok=True)
        (far / name).write_text(text)
    project = recipe_project(
        tmp_path,
        f"  data: {{kind: source, uri: 'file://{far}/'}}\n"
        "  c: {kind: command, cmd: 'cp {in.d} {out}', needs: {d: data/a/1.txt}, out: .txt}\n",
    )

    project.mobuild("lock", "target=c")
    paths = [Path(line) for line in project.mobuild("target=[c,data]").out.splitlines()]
    texts = [paths[0].read_text(), *sorted(path.name for path in paths[1].rglob("*.txt"))]
    (far / "3.txt").write_text("three")
    again = project.built("target=[c,data]", recipe="small")
    shutil.rmtree(project.cache)
    moved = project.mobuild("target=c", check=False)

    assert texts == ["one", "1.txt", "2.txt"]
    assert again == set()
    assert "expected SHA-256 folder:" in moved.errors[0] and "(6 bytes), found folder:" in moved.errors[0]


@pytest.mark.parametrize("code", [200, 403])
def test_credentials_of_a_url_reach_no_file_and_no_message(tmp_path: Path, server: Web, code: int) -> None:
    uri = server.url.replace("//", "//me:hunter2@") + "/w.bin?sig=hunter3"
    project = project_of(tmp_path, "w.bin")
    words = ("target=[c,data]", f"nodes.data.uri='{uri}'")

    said = [project.mobuild("target=[c,data]", words[1], check=False), project.mobuild("lock", *words)]
    server.answers["/w.bin"] = whole(b"weights") if code == 200 else status(code)
    said += [project.mobuild(*verb, *words, check=False) for verb in ([], [], ["plan"], ["why"])]

    failed = int(code != 200)
    assert [one.status for one in said] == [1, 0, failed, failed, 0, 0]
    for text in ("hunter2", "hunter3"):
        assert all(text not in one.err + one.out for one in said)
        places = [project.root / "build", project.root / "recipes", project.cache]
        files = [path for place in places for path in place.rglob("*") if path.is_file()]
        assert [path for path in files if text.encode() in path.read_bytes()] == []


def test_two_recipes_with_one_uri_fetch_it_once(tmp_path: Path, server: Web) -> None:
    project = project_of(tmp_path, f"{server.url}/w.bin")
    shutil.copy(project.root / "recipes/small.yaml", project.root / "recipes/other.yaml")
    project.mobuild("lock", "-m", "recipe=small,other", "target=c")
    server.asked.clear()

    project.mobuild("-m", "recipe=small,other", "target=c")

    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("uri", "code", "says"),
    [
        ("s4://b/w.pt", 2, "there is no scheme 's4'."),
        ("hf:", 2, "names no repository\n  write hf:org/name/file@revision"),
        ("https://host/folder/", 2, "is a folder, and a web server lists none"),
    ],
)
def test_a_slip_of_the_pen_in_a_uri_is_no_understood_request(tmp_path: Path, uri: str, code: int, says: str) -> None:
    project = project_of(tmp_path, uri)

    for words in (["target=c"], ["lock", "target=c"]):
        done = project.mobuild(*words, check=False)

        assert done.status == code
        assert f"source '{uri}': {says}" in done.errors[0]


def test_a_pin_of_junk_is_refused(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  data: {kind: source, uri: 's3://b/w.pt', sha256: abc}\n" + COPY)

    done = project.mobuild("target=c", check=False)

    assert done.status == 2
    assert "sha256: expected 64 hexadecimal digits, found 'abc'" in done.errors[0]
