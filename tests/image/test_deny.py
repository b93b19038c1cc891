"""What must not be in a runtime image."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobuild.image.deny import denied


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)
    return root


def found(root: Path) -> list[tuple[str, str]]:
    return [(each.path, each.rule) for each in denied(root)]


def test_what_serves_is_allowed(tmp_path: Path) -> None:
    packages = "usr/lib/python3/dist-packages"
    tree(
        tmp_path,
        "usr/bin/python3.11",
        "app/mobuild_runtime/__init__.py",
        "app/mobuild_runtime/torch.py",
        f"{packages}/onnxruntime/__init__.py",
        f"{packages}/onnxruntime/onnx/__init__.py",
        f"{packages}/onnxruntime-1.32.0.dist-info/METADATA",
        "model/engine.onnx",
        "model/onnx/weights.bin",
    )
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)

    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "path", "rule"),
    [
        ("site-packages/torch/__init__.py", "/site-packages/torch", "package"),
        ("site-packages/onnx/__init__.py", "/site-packages/onnx", "package"),
        ("site-packages/hydra_core-1.3.2.dist-info/METADATA", "/site-packages/hydra_core-1.3.2.dist-info", "package"),
        ("app/mobuild/__init__.py", "/app/mobuild", "package"),
        ("usr/bin/pip3", "/usr/bin/pip3", "package"),
        ("bin/sh", "/bin/sh", "shell"),
        ("usr/bin/bash", "/usr/bin/bash", "shell"),
        ("usr/bin/x86_64-linux-gnu-gcc-12", "/usr/bin/x86_64-linux-gnu-gcc-12", "compiler"),
        ("usr/local/cuda/bin/nvcc", "/usr/local/cuda/bin/nvcc", "compiler"),
        ("usr/lib/gcc/x86_64/12/cc1plus", "/usr/lib/gcc/x86_64/12/cc1plus", "compiler"),
        ("usr/include/stdio.h", "/usr/include/stdio.h", "header"),
        ("usr/lib/libc.a", "/usr/lib/libc.a", "static library"),
    ],
)
def test_what_builds_or_opens_a_door_is_denied(tmp_path: Path, name: str, path: str, rule: str) -> None:
    tree(tmp_path, name)

    assert found(tmp_path) == [(path, rule)]


def test_a_setuid_file_is_denied_with_its_mode(tmp_path: Path) -> None:
    tree(tmp_path, "usr/bin/su")
    (tmp_path / "usr/bin/su").chmod(0o4755)

    assert [str(each) for each in denied(tmp_path)] == ["/usr/bin/su: setuid: runs with its owner's rights: mode 4755"]


def test_what_anyone_may_write_is_denied(tmp_path: Path) -> None:
    tree(tmp_path, "etc/passwd")
    (tmp_path / "etc/passwd").chmod(0o666)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o777)  # no sticky bit: anyone may take another's file away

    assert found(tmp_path) == [("/etc/passwd", "world-writable"), ("/tmp", "world-writable")]


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("nothing", "broken link"),
        ("../../../etc/passwd", "link leaves"),
        ("/no/such/file", "link leaves"),
        ("link", "broken link"),
    ],
)
def test_a_link_that_ends_outside_or_nowhere_is_denied(tmp_path: Path, target: str, rule: str) -> None:
    tree(tmp_path, "etc/passwd", "usr/lib/file")
    (tmp_path / "usr/lib/link").symlink_to(target)

    assert found(tmp_path) == [("/usr/lib/link", rule)]


@pytest.mark.parametrize("target", ["file", "../../etc/passwd", "/etc/passwd", "/proc/mounts", "/lib/file"])
def test_a_link_that_stays_is_allowed(tmp_path: Path, target: str) -> None:
    tree(tmp_path, "etc/passwd", "usr/lib/file")
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/link").symlink_to(target)

    assert found(tmp_path) == []


def test_a_path_may_be_allowed_by_name(tmp_path: Path) -> None:
    tree(tmp_path, "opt/kernels/attention.h")

    assert denied(tmp_path, allowed=["/opt/kernels/*"]) == ()
