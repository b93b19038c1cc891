"""The proof that an image holds all that its ELF files need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mobuild.image.elf import Malformed, read
from mobuild.image.linking import missing

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc to make libraries with")
MACHINE = "x86_64"


def library(path: Path, source: str, *needs: Path, flags: tuple[str, ...] = (), versions: str = "") -> Path:
    """A shared library at `path` that needs `needs` and no libc."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if versions:
        script = path.parent.parent / f"{path.name}.map"
        script.write_text(versions)
        flags = (*flags, f"-Wl,--version-script={script}")
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed", f"-Wl,-soname,{path.name}", *flags]
    code = path.parent.parent / f"{path.name}.c"
    code.write_text(source)
    subprocess.run([*command, "-o", str(path), str(code), *map(str, needs)], check=True)
    code.unlink()
    return path


def found(root: Path, machine: str = MACHINE, **options: object) -> list[str]:
    environment = options.pop("environment", {})
    return [str(each) for each in missing(root, machine, environment, **options)]  # type: ignore[arg-type]


@pytest.fixture
def machine() -> str:
    elf = read(Path(sys.executable).resolve())
    assert elf
    return elf.machine


@needs_gcc
def test_a_need_in_a_folder_of_the_loader_is_met(tmp_path: Path, machine: str) -> None:
    b = library(tmp_path / "usr/lib/libb.so.1", "int b(void) { return 1; }")
    library(tmp_path / "app/liba.so", "int b(void); int a(void) { return b(); }", b)

    assert found(tmp_path, machine) == []


@needs_gcc
def test_a_need_that_is_nowhere_is_named_with_who_needs_it(tmp_path: Path, machine: str) -> None:
    b = library(tmp_path / "usr/lib/libb.so.1", "int b(void) { return 1; }")
    library(tmp_path / "app/liba.so", "int b(void); int a(void) { return b(); }", b)
    b.unlink()

    assert found(tmp_path, machine) == ["/app/liba.so: needs libb.so.1: is not in the image"]


@needs_gcc
def test_a_need_where_the_loader_does_not_look_is_told_from_an_absent_one(tmp_path: Path, machine: str) -> None:
    b = library(tmp_path / "opt/libb.so.1", "int b(void) { return 1; }")
    library(tmp_path / "app/liba.so", "int b(void); int a(void) { return b(); }", b)

    expected = ["/app/liba.so: needs libb.so.1: lies in /opt/libb.so.1, where the loader does not look"]
    assert found(tmp_path, machine) == expected
    assert found(tmp_path, machine, preloaded=["libb.so.*"]) == []
    assert found(tmp_path, machine, environment={"LD_LIBRARY_PATH": "/nowhere:/opt"}) == []


@needs_gcc
def test_a_library_of_the_driver_may_be_missing(tmp_path: Path, machine: str) -> None:
    cuda = library(tmp_path / "opt/libcuda.so.1", "int b(void) { return 1; }")
    library(tmp_path / "app/liba.so", "int b(void); int a(void) { return b(); }", cuda)
    cuda.unlink()

    assert found(tmp_path, machine) == []


@needs_gcc
@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
def test_folders_in_the_file_are_relative_to_it(tmp_path: Path, machine: str, tags: str) -> None:
    b = library(tmp_path / "app/libs/libb.so.1", "int b(void) { return 1; }")
    flags = ("-Wl,-rpath,$ORIGIN/../libs", f"-Wl,{tags}")
    library(tmp_path / "app/bin/liba.so", "int b(void); int a(void) { return b(); }", b, flags=flags)

    assert found(tmp_path, machine) == []


@needs_gcc
@pytest.mark.parametrize(("tags", "is_met"), [("--enable-new-dtags", False), ("--disable-new-dtags", True)])
def test_rpath_serves_the_needs_of_needs_and_runpath_does_not(
    tmp_path: Path, machine: str, tags: str, is_met: bool
) -> None:
    c = library(tmp_path / "app/libs/libc1.so", "int c(void) { return 1; }")
    b = library(tmp_path / "app/libs/libb.so.1", "int c(void); int b(void) { return c(); }", c)
    flags = ("-Wl,-rpath,$ORIGIN/../libs", f"-Wl,{tags}", f"-Wl,-rpath-link,{c.parent}")
    library(tmp_path / "app/bin/liba.so", "int b(void); int a(void) { return b(); }", b, flags=flags)

    assert (found(tmp_path, machine) == []) is is_met


@needs_gcc
def test_folders_of_ld_so_conf_and_its_includes_count(tmp_path: Path, machine: str) -> None:
    b = library(tmp_path / "opt/libb.so.1", "int b(void) { return 1; }")
    library(tmp_path / "app/liba.so", "int b(void); int a(void) { return b(); }", b)
    parts = tmp_path / "etc/ld.so.conf.d"
    parts.mkdir(parents=True)
    (parts / "own.conf").write_text("# ours\n/opt\n")
    (tmp_path / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")

    assert found(tmp_path, machine) == []


@needs_gcc
def test_links_are_followed_within_the_image(tmp_path: Path, machine: str) -> None:
    b = library(tmp_path / "usr/lib/libb.so.1.2", "int b(void) { return 1; }", flags=("-Wl,-soname,libb.so.1",))
    library(tmp_path / "app/liba.so", "int b(void); int a(void) { return b(); }", b)
    (tmp_path / "lib").symlink_to("/usr/lib")
    (tmp_path / "usr/lib/libb.so.1").symlink_to("/lib/libb.so.1.2")

    assert found(tmp_path, machine) == []


@needs_gcc
def test_a_version_that_the_image_lacks_is_named_with_the_one_it_has(tmp_path: Path, machine: str) -> None:
    old, new = "GLIBC_2.9 { global: old; };", "GLIBC_2.38 { global: b; } GLIBC_2.9;"
    source = "int old(void) { return 0; } int b(void) { return 1; }"
    b = library(tmp_path / "usr/lib/libb.so.1", source, versions=f"{old} {new}")
    library(tmp_path / "app/liba.so", "int b(void); int a(void) { return b(); }", b)
    assert found(tmp_path, machine) == []

    library(b, "int old(void) { return 0; }", versions=old)

    assert found(tmp_path, machine) == [
        "/app/liba.so: needs GLIBC_2.38 of libb.so.1: libb.so.1 of the image has GLIBC_2.9"
    ]


@needs_gcc
def test_a_file_for_another_machine_is_named(tmp_path: Path, machine: str) -> None:
    path = library(tmp_path / "usr/lib/libb.so.1", "int b(void) { return 1; }")

    raw = bytearray(path.read_bytes())
    raw[18:20] = (183).to_bytes(2, "little") if machine != "aarch64" else (62).to_bytes(2, "little")
    path.write_bytes(raw)

    other = "aarch64" if machine != "aarch64" else "x86_64"
    assert found(tmp_path, machine) == [f"/usr/lib/libb.so.1: is for {other}, and the image for {machine}"]


def test_a_loader_that_is_missing_is_named(tmp_path: Path, machine: str) -> None:
    program = tmp_path / "usr/bin/program"
    program.parent.mkdir(parents=True)
    shutil.copy("/bin/true", program)

    assert any("its loader is not in the image" in each for each in found(tmp_path, machine))


def test_a_file_that_is_cut_off_is_a_finding(tmp_path: Path, machine: str) -> None:
    (tmp_path / "half.so").write_bytes(Path("/bin/true").read_bytes()[:100])

    (only,) = found(tmp_path, machine)
    assert only.startswith("/half.so: begins as an ELF file, and is cut off or damaged")
    with pytest.raises(Malformed):
        read(tmp_path / "half.so")


def test_what_is_no_elf_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")

    assert read(tmp_path / "text") is None


def test_the_reader_agrees_with_readelf(tmp_path: Path) -> None:
    if not shutil.which("readelf"):
        pytest.skip("no readelf to compare with")
    import numpy.linalg._umath_linalg as extension

    path = Path(extension.__file__)
    told = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    elf = read(path)

    assert elf
    assert elf.needed == tuple(line.split("[")[1][:-1] for line in told.splitlines() if "(NEEDED)" in line)
    versions = subprocess.run(["readelf", "-V", str(path)], capture_output=True, text=True, check=True).stdout
    for library_name, wanted in elf.wanted.items():
        assert f"File: {library_name}" in versions
        assert all(f"Name: {version}" in versions for version in wanted)
