"""Observed inputs as conditions of a record."""

from __future__ import annotations

from pathlib import Path

from mobuild.closure import module_digest
from mobuild.conditions import Surroundings, broken, conditions, reads
from mobuild.executors.job import Observed
from mobuild.fingerprint import sha256_file
from mobuild.store import Condition, StatCache
from mobuild.toolchain import host


def test_module_that_was_edited_after_its_import_holds_for_no_content(tmp_path: Path) -> None:
    late = tmp_path / "late.py"
    late.write_text("value = 1")
    observed = Observed(modules={"late": str(late)}, sources={str(late): sha256_file(late)})
    before = conditions(observed, here(tmp_path), {})

    late.write_text("value = 2")

    found = Condition("import", "late", "late.py")
    assert before == (found, Condition("module", "late.py", module_digest_of("value = 1", tmp_path)))
    assert conditions(observed, here(tmp_path), {}) == (found, Condition("module", "late.py", "changing"))


def test_module_for_a_newer_python_counts_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("def f[: ...")

    found = conditions(Observed(modules={"late": str(tmp_path / "late.py")}), here(tmp_path), {})

    assert [(one.kind, one.name) for one in found] == [("import", "late"), ("module", "late.py")]


def test_module_that_an_import_did_not_find_counts_and_is_not_told_of(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    probed = {str(tools / name): "-" for name in ("_json.so", "_json.py", "_json.pyc", "words.txt")}

    found = conditions(Observed(files=probed), here(tmp_path), {})

    assert len(found) == 4
    assert reads(found) == "the code read file tools/words.txt, which is declared nowhere"


def module_digest_of(text: str, folder: Path) -> str:
    (folder / "same.py").write_text(text)
    return module_digest(folder / "same.py")


def here(folder: Path) -> Surroundings:
    return Surroundings(folder, folder / "recipes", host())


def test_module_that_comes_before_the_one_that_ran_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "plugin.py").write_text("value = 1")
    observed = Observed(modules={"plugin": str(tmp_path / "plugin.py")}, missing=("extra",))
    found = conditions(observed, here(tmp_path), {})
    files = StatCache(None)
    before = broken(found, here(tmp_path), files)

    (tmp_path / "recipes" / "plugin.py").write_text("value = 1")
    (tmp_path / "extra.py").write_text("")

    assert before == ()
    assert [str(one) for one in broken(found, here(tmp_path), files)] == [
        "import extra: - → extra.py",
        "import plugin: plugin.py → recipes/plugin.py",
    ]


def test_module_that_the_search_path_does_not_lead_to_goes_by_its_path_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "plugin.py").write_text("")

    observed = Observed(modules={"plugin": str(tmp_path / "elsewhere/plugin.py")})

    assert [one.kind for one in conditions(observed, here(tmp_path), {})] == ["module"]
