"""Packages of Debian become layers: read by mobuild itself, pruned, compiled by their own Python."""

from __future__ import annotations

import shutil
import time
from base64 import b64encode
from pathlib import Path

import pytest

from mobuild.errors import SourceError
from mobuild.image import apt, bytecode, debian
from mobuild.image.locked import Package, check
from mobuild.image.tree import Tree
from tests.fetch.servers import web, whole
from tests.image.packages import deb


def paths(tree: Tree) -> dict[str, str]:
    """Path of each file and link → its target, or nothing."""
    return {entry.path: entry.target for entry in tree.entries() if not entry.is_folder}


def test_files_come_to_a_merged_usr_with_their_links(tmp_path: Path) -> None:
    package = deb(
        tmp_path / "libz.deb",
        {"lib/x86_64-linux-gnu/libz.so.1.2": b"code", "bin/tool": b"#!", "usr/share/man/z.1": b"text"},
        {"lib/x86_64-linux-gnu/libz.so.1": "libz.so.1.2"},
    )
    tree = Tree()

    debian.unpack([package], tree, lambda path: "man" not in path)

    assert paths(tree) == {
        "usr/bin/tool": "",
        "usr/lib/x86_64-linux-gnu/libz.so.1": "libz.so.1.2",
        "usr/lib/x86_64-linux-gnu/libz.so.1.2": "",
    }


def test_the_base_keeps_libraries_and_licences_and_has_accounts_and_mount_points(tmp_path: Path) -> None:
    library = "lib/x86_64-linux-gnu"
    package = deb(
        tmp_path / "libc6.deb",
        {
            f"{library}/libc.so.6": b"code",
            f"usr/{library}/gconv/BIG5.so": b"code",
            "usr/share/doc/libc6/copyright": b"LGPL",
            "usr/share/doc/libc6/NEWS": b"news",
            "usr/bin/ldd": b"#!/bin/bash",
        },
    )

    tree = debian.base([package])

    assert paths(tree) == {
        "bin": "usr/bin",
        "etc/group": "",
        "etc/nsswitch.conf": "",
        "etc/passwd": "",
        "lib": "usr/lib",
        "lib64": "usr/lib64",
        "sbin": "usr/sbin",
        "usr/lib/x86_64-linux-gnu/libc.so.6": "",
        "usr/share/doc/libc6/copyright": "",
    }
    folders = {entry.path: entry.mode for entry in tree.entries() if entry.is_folder}
    assert folders["tmp"] == 0o1777
    assert {"proc", "sys", "dev", "root"} <= set(folders)


@pytest.mark.parametrize("ssl", [True, False])
def test_python_goes_without_what_a_server_does_not_need(tmp_path: Path, ssl: bool) -> None:
    library = "usr/lib/python3.11"
    unwanted = [f"{library}/test/a.py", f"{library}/lib2to3/b.py", f"{library}/lib-dynload/_sqlite3.cpython-311.so"]
    wanted = ["usr/bin/python3.11", f"{library}/json/__init__.py", f"{library}/lib-dynload/_json.cpython-311.so"]
    tls = f"{library}/lib-dynload/_ssl.cpython-311.so"
    package = deb(tmp_path / "python.deb", dict.fromkeys([*unwanted, *wanted, tls], b""))

    tree = debian.python([package], ssl)

    assert set(paths(tree)) == {"usr/bin/python3", *wanted, *([tls] if ssl else [])}


def test_a_file_that_is_no_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.deb").write_text("<html>")

    with pytest.raises(SourceError, match=r"page.deb': cannot be read: it is no ar archive"):
        list(debian.entries(tmp_path / "page.deb"))


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "libc6_1_amd64.deb").write_bytes(b"other")
    package = Package("libc6", "1", "0" * 64, "pool/libc6_1_amd64.deb")

    with pytest.raises(SourceError, match=r"package libc6 1: expected 'libc6_1_amd64.deb' with SHA-256 0000"):
        check([package], tmp_path)


@pytest.mark.skipif(not shutil.which("apt-get"), reason="apt-get is not installed")
def test_an_unknown_package_is_refused_in_the_words_of_apt() -> None:
    with pytest.raises(SourceError, match="Unable to locate package no-such-package-at-all"):
        apt.resolve(["no-such-package-at-all"], "amd64")


def test_a_mirror_serves_packages_by_their_place_in_the_pool(tmp_path: Path) -> None:
    pool = tmp_path / "mirror/debian/pool/main/z"
    pool.mkdir(parents=True)
    (pool / "z_1+2_amd64.deb").write_bytes(b"package")
    (tmp_path / "got").mkdir()
    package = Package("z", "1+2", "", "debian/pool/main/z/z_1+2_amd64.deb")

    apt.fetch([package], "amd64", tmp_path / "got", f"file://{tmp_path}/mirror")

    assert (tmp_path / "got/z_1+2_amd64.deb").read_bytes() == b"package"


def test_credentials_of_a_mirror_are_sent_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with web() as server:
        server.answers["/pool/a.deb"] = whole(b"package")
        mirror = server.url.replace("//", "//ann:swordfish@")
        apt.fetch([Package("a", "1", "", "pool/a.deb")], "amd64", tmp_path, mirror)
        with pytest.raises(SourceError, match=r"127.0.0.1:\d+/pool/b.deb': is not there: 404") as refused:
            apt.fetch([Package("b", "1", "", "pool/b.deb")], "amd64", tmp_path, mirror)

    assert (tmp_path / "a.deb").read_bytes() == b"package"
    assert server.asked[0].headers["authorization"] == "Basic " + b64encode(b"ann:swordfish").decode()
    assert "swordfish" not in str(refused.value)


@pytest.mark.parametrize("mirror", ["nonsense", "ftps://here/debian"])
def test_a_mirror_that_is_no_address_is_named(tmp_path: Path, mirror: str) -> None:
    with pytest.raises(SourceError, match=f"Debian packages: '{mirror}/pool/z.deb' cannot be read: .*unknown url type"):
        apt.fetch([Package("z", "1", "", "pool/z.deb")], "amd64", tmp_path, mirror)


def test_a_mirror_without_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"mirror/pool/z.deb' cannot be read"):
        apt.fetch([Package("z", "1", "", "pool/z.deb")], "amd64", tmp_path, f"file://{tmp_path}/mirror")


def real_debs(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """The packages from where apt has them; skips the test where it has none."""
    if not shutil.which("apt-get"):
        pytest.skip("apt-get is not installed")
    try:
        found = apt.resolve(names, "amd64")
        folder.mkdir(exist_ok=True)
        apt.fetch(found, "amd64", folder, "")
    except SourceError as error:
        pytest.skip(f"apt-get has no packages here: {error}")
    check(found, folder)
    return [folder / each.file for each in found]


def test_byte_code_is_that_of_the_images_python_and_the_same_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := bytecode.cannot("amd64"):
        pytest.skip(reason)
    debs = real_debs(tmp_path / "debs", ("libc6", "zlib1g", "libexpat1", "python3.11-minimal", "libpython3.11-minimal"))

    contents = []
    for name in ("one", "two"):
        tree = Tree()
        tree.file("app/module.py", b"KNOWN = {'a', 'b', 'c'}\ndef f(x):\n    return x in {1, 2, 'q'}\n")
        tree.file("app/template.py", b"{{ name }} = %s\n")
        tree.file("module.py", "# coding: latin-1\nSAID = 'é'\n".encode("latin-1"))
        bytecode.compile_all(tree, debs, tmp_path / name)
        contents.append([entry.content for entry in tree.entries() if entry.path.endswith(".pyc")])
        monkeypatch.setattr(time, "time", lambda: 0.0)  # a board whose clock was never set

    assert contents[0] == contents[1]
    other, code = (each for each in contents[0] if isinstance(each, bytes))
    assert "é".encode() in other or b"\xe9" in other
    assert code[4:8] == (1).to_bytes(4, "little")  # PEP 552: by its hash, unchecked
    assert b"/app/module.py" in code
