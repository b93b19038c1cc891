"""What an image has to prove before it is made: layers by hand, and a program in place of its Python."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.errors import NodeFailed
from mobuild.image import layers, sandbox
from mobuild.image.tree import Tree
from mobuild.nodes.image_proof import READ, RUN, ImageProof

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "amd64")
PASSES = '{"passed": true, "cases": [{"outputs": {"y": {"passed": true, "max_abs": 0.25}}}]}'
_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    const char *model = getenv("MOBUILD_MODEL"), *path = getenv("PYTHONPATH");
    if (!model || strcmp(model, "/model") || !path || strcmp(path, "/app")) return 9;
    if (count > 1 && !strcmp(words[1], "-c")) { puts(words[2]); return STARTS; }
    puts(SAYS);
    return STATUS;
}
"""


def program(folder: Path, says: str, status: int = 0, starts: int = 0) -> bytes:
    """A static program that answers as a self test would; skips where none can be made."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc to make a program with")
    (folder / "p.c").write_text(_PROGRAM)
    words = [f"-DSAYS={json.dumps(says)}", f"-DSTATUS={status}", f"-DSTARTS={starts}", "-o", str(folder / "p")]
    made = subprocess.run(["gcc", "-static", *words, str(folder / "p.c")], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no static program can be made: {made.stderr.splitlines()[-1]}")
    return (folder / "p").read_bytes()


def inputs(folder: Path, python: bytes = b"", more: Mapping[str, bytes] | None = None) -> dict[str, Path]:
    """The layers of an image by role."""
    trees = {role: Tree() for role in ("base", "python", "deps", "app", "model")}
    for name in ("tmp", "proc", "dev", "sys", "etc"):
        trees["base"].folder(name)
    trees["python"].file("usr/bin/python3.11", python, executable=True)
    trees["deps"].file("usr/lib/python3/dist-packages/numpy/__init__.py", b"")
    trees["app"].file("app/mobuild_runtime/__init__.py", b"")
    trees["model"].file("model/model.json", b"{}")
    for path, content in (more or {}).items():
        trees["deps"].file(path, content)
    return {role: layers.write(tree, folder / role, role, 0).folder for role, tree in trees.items()}


def proof(way: str = READ, **fields: Any) -> ImageProof:
    return ImageProof(OnnxRuntime(), architecture=ARCHITECTURE, way=way, **fields)


def built(node: ImageProof, given: Mapping[str, Path], folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the artifact, what was measured)."""
    done = node.build(given, folder / "proof.json")
    found: dict[str, Any] = json.loads((folder / "proof.json").read_text())
    return found, dict(done.measurements["proof"])


def needs_sandbox() -> None:
    if reason := sandbox.cannot():
        pytest.skip(reason)


def test_its_self_test_is_run_and_the_sandbox_is_measured_alone(tmp_path: Path) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, PASSES))

    told, measured = built(proof(RUN), given, tmp_path)

    assert told == {"schema": 1, "links": "passed", "denied": "passed", "starts": "passed", "selftest": "passed"}
    assert measured["selftest"] in {f"passed in {tool}" for tool in sandbox.TOOLS}
    assert measured["max_abs"] == 0.25


def test_what_is_said_after_the_self_test_is_no_part_of_it(tmp_path: Path) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, f"{PASSES}\n[]\n1 thread left"))

    assert built(proof(RUN), given, tmp_path)[1]["max_abs"] == 0.25


def test_a_self_test_that_tells_nothing_is_a_failure(tmp_path: Path) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, "hello"))

    with pytest.raises(NodeFailed, match="image: its self test tells nothing") as failed:
        proof(RUN).build(given, tmp_path / "proof.json")

    assert failed.value.hint == "hello"


def test_which_sandbox_it_was_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, PASSES))
    (tmp_path / "broken").mkdir()
    tool = built(proof(RUN), given, tmp_path)[1]["selftest"].split()[-1]
    first = (tmp_path / "proof.json").read_bytes()

    (tmp_path / f"broken/{tool}").write_text("#!/bin/sh\necho 'Error: no cgroups here' >&2\nexit 125\n")
    (tmp_path / f"broken/{tool}").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/broken:{os.environ['PATH']}")
    try:
        measured = built(proof(RUN), given, tmp_path)[1]
    except NodeFailed as error:
        pytest.skip(f"only {tool} works here: {error.message}")

    assert (tmp_path / "proof.json").read_bytes() == first
    assert measured["selftest"] != f"passed in {tool}"
    assert measured["passed_over"][-1].startswith(f"{tool}: ")


def test_other_outputs_than_where_it_was_built_are_a_failure(tmp_path: Path) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, '{"passed": false, "cases": []}', status=1))

    with pytest.raises(NodeFailed, match=r"image: its self test failed in \w+ with status 1") as failed:
        proof(RUN).build(given, tmp_path / "proof.json")

    assert failed.value.hint == '{"passed": false, "cases": []}'
    assert not (tmp_path / "proof.json").exists()


def test_an_engine_for_a_gpu_is_not_run_and_its_image_starts(tmp_path: Path) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, "", status=1))

    told, measured = built(replace(proof(RUN), runtime="tensorrt_rtx"), given, tmp_path)

    assert told["selftest"] == measured["selftest"] == "not run: needs an NVIDIA GPU, and the sandbox has none"
    assert (told["starts"], measured["starts"][:10]) == ("passed", "passed in ")


def test_an_image_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, "", starts=1))

    with pytest.raises(NodeFailed, match=r"its start \(`import tensorrt_lean`\) failed in \w+ with status 1") as failed:
        replace(proof(RUN), runtime="tensorrt_lean").build(given, tmp_path / "proof.json")

    assert "import_module(m.package('tensorrt_lean'))" in failed.value.hint


def test_without_an_engine_inside_it_is_started_alone(tmp_path: Path) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, "", status=1))
    del given["model"]

    told, _ = built(proof(RUN, model="mount"), given, tmp_path)

    assert told["selftest"] == "not run: no engine inside"
    assert told["starts"] == "passed"


def test_where_nothing_can_run_it_the_reason_is_measured(tmp_path: Path) -> None:
    told, measured = built(proof(READ, selftest=False), inputs(tmp_path), tmp_path)

    assert told["selftest"] == told["starts"] == "not run"
    assert measured["selftest"] == "not run: image.selftest=false"


def test_what_another_machine_ran_is_taken_first_and_reading_is_the_last_resort(tmp_path: Path) -> None:
    other = "arm64" if ARCHITECTURE == "amd64" else "amd64"

    unwanted, foreign = proof("", selftest=False), replace(proof(""), architecture=other)

    assert [each.way for each in unwanted.alternatives] == [RUN, READ]
    assert [each.way for each in foreign.alternatives] == [RUN, READ]
    if not sandbox.cannot():
        assert [each.way for each in proof("").alternatives] == [RUN]
    assert (proof(READ).is_passing, proof(READ, selftest=False).is_passing, proof(RUN).is_passing) == (
        True,
        False,
        False,
    )


def test_what_must_not_be_there_is_named_unless_it_is_allowed(tmp_path: Path) -> None:
    given = inputs(tmp_path, more={"usr/lib/python3/dist-packages/torch/__init__.py": b"", "usr/bin/gcc": b""})

    with pytest.raises(NodeFailed, match="it holds what must not be in one") as failed:
        proof().build(given, tmp_path / "proof.json")
    told, _ = built(proof(allow=("*/torch", "/usr/bin/gcc")), given, tmp_path)

    assert "/usr/bin/gcc: compiler: an image runs code, and makes none" in failed.value.hint
    assert "/usr/lib/python3/dist-packages/torch: package: torch builds" in failed.value.hint
    assert told["denied"] == "passed"


def test_a_library_that_is_linked_and_not_there_is_named(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("no gcc to make a library with")
    (tmp_path / "a.c").write_text("int a(void) { return 1; }")
    (tmp_path / "b.c").write_text("int a(void); int b(void) { return a(); }")
    make = ["gcc", "-shared", "-nostdlib", "-fPIC"]
    subprocess.run([*make, "-Wl,-soname,liba.so.1", "-o", tmp_path / "liba.so", tmp_path / "a.c"], check=True)
    subprocess.run([*make, "-o", tmp_path / "libb.so", tmp_path / "b.c", tmp_path / "liba.so"], check=True)
    given = inputs(tmp_path, more={"usr/lib/libb.so": (tmp_path / "libb.so").read_bytes()})

    with pytest.raises(NodeFailed, match="its programs lack what they link") as failed:
        proof().build(given, tmp_path / "proof.json")

    assert failed.value.hint == "/usr/lib/libb.so: needs liba.so.1: is not in the image"


def test_what_a_base_of_the_users_brings_is_told_and_theirs(tmp_path: Path) -> None:
    given = inputs(tmp_path)
    base = Tree()
    base.file("bin/sh", b"", executable=True)
    (tmp_path / "user").mkdir()
    for number, tree in enumerate((base, Tree())):
        layers.write(tree, tmp_path / f"user/{number:02}", "base", 0, ("zstd", "gzip")[number])
    (tmp_path / "user/config.json").write_text('{"Env": ["OWN=1"]}')

    done = proof().build({**given, "base": tmp_path / "user"}, tmp_path / "proof.json")

    assert done.warnings == [
        "the base has what an image should not have: /bin/sh: shell: who gets into the process would get a shell"
    ]


def test_another_user_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, PASSES))
    before = os.umask(0o077)
    try:
        told, _ = built(proof(RUN), given, tmp_path)
    finally:
        os.umask(before)

    assert told["selftest"] == "passed"


@pytest.mark.parametrize("is_users", [False, True])
def test_podman_loads_a_base_of_the_users_and_runs_the_files_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_users: bool
) -> None:
    """Owners and attributes, which files unpacked here lack, are in no layer of ours."""
    needs_sandbox()
    given = inputs(tmp_path, program(tmp_path, PASSES))
    if is_users:
        given["base"] = tmp_path / "user"
        given["base"].mkdir()
        for number in range(2):
            shutil.copytree(tmp_path / "base", tmp_path / f"user/{number:02}")
        (tmp_path / "user/config.json").write_text("{}")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/podman").write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/words"\nexit 125\n')
    (tmp_path / "tools/podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:{os.environ['PATH']}")

    with contextlib.suppress(NodeFailed):  # where nothing but podman works
        proof(RUN).build(given, tmp_path / "proof.json")

    words = (tmp_path / "words").read_text().splitlines()[0].split()
    assert ("oci:layout:proof" in words, "--rootfs" in words) == (is_users, not is_users)


def test_without_room_it_says_how_much_is_needed_and_where(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    try:
        given = inputs(tmp_path, more={"usr/lib/large": b"x" * 1_000_000})
        with pytest.raises(NodeFailed, match=r"^no space: needs .+ MiB, has .+ KiB at '") as failed:
            proof().build(given, disk / "proof.json")
        left = list(disk.iterdir())
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)

    assert str(disk) in failed.value.message
    assert "make room there" in failed.value.hint
    assert left == []
