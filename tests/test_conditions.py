"""Observed inputs as conditions of a record."""

from __future__ import annotations

from pathlib import Path

from mobuild.closure import module_digest
from mobuild.conditions import conditions
from mobuild.executors.job import Observed
from mobuild.fingerprint import sha256_file
from mobuild.store import Condition


def test_module_that_was_edited_after_its_import_holds_for_no_content(tmp_path: Path) -> None:
    late = tmp_path / "late.py"
    late.write_text("value = 1")
    observed = Observed(modules={"late": str(late)}, sources={str(late): sha256_file(late)})
    before = conditions(observed, tmp_path, {})

    late.write_text("value = 2")

    assert before == (Condition("module", "late.py", module_digest_of("value = 1", tmp_path)),)
    assert conditions(observed, tmp_path, {}) == (Condition("module", "late.py", "changing"),)


def test_module_for_a_newer_python_counts_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("def f[: ...")

    found = conditions(Observed(modules={"late": str(tmp_path / "late.py")}), tmp_path, {})

    assert [(one.kind, one.name) for one in found] == [("module", "late.py")]


def module_digest_of(text: str, folder: Path) -> str:
    (folder / "same.py").write_text(text)
    return module_digest(folder / "same.py")
