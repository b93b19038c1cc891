"""Reports of mobuild's own faults: in the project, only a few, and never a reason to fail once more."""

from __future__ import annotations

from pathlib import Path

from mobuild.faults import unforeseen
from tests.projects import recipe_project

KIND = """\
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Odd:
    kind: ClassVar[str] = "odd"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False
    tools = ()

    @property
    def suffix(self):
        return 1 / 0
"""


def test_a_fault_of_a_node_is_reported_beside_the_logs_of_its_run(tmp_path: Path) -> None:
    files = {"odd.py": KIND, "conf/node/odd.yaml": "_target_: odd.Odd\n"}
    project = recipe_project(tmp_path, "  odd: {kind: odd}\n", files)

    done = project.mobuild("target=odd", check=False, env={"PYTHONPATH": str(project.root)})

    assert done.status == 1
    assert "fault in mobuild: ZeroDivisionError: division by zero" in done.err
    report = Path(done.err.partition("log: ")[2].partition("\n")[0])
    assert report.read_text().startswith("Traceback")
    assert project.cache in report.parents


def test_a_fault_of_a_verb_is_reported_below_build(tmp_path: Path) -> None:
    files = {"odd.py": KIND, "conf/node/odd.yaml": "_target_: odd.Odd\n"}
    project = recipe_project(tmp_path, "  odd: {kind: odd}\n", files)

    done = project.mobuild("path", "odd", check=False, env={"PYTHONPATH": str(project.root)})

    report = Path(done.err.partition("log: ")[2].strip())
    assert done.status == 1
    assert report.read_text().startswith("Traceback")
    assert report.parent == project.root / "build/.faults"


def test_only_a_few_reports_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "faults"

    reports = [unforeseen(ValueError(str(number)), "here", folder).log for number in range(8)]

    assert [str(path) for path in sorted(folder.iterdir())] == reports[-5:]


def test_a_folder_that_cannot_be_written_does_not_hide_the_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    error = unforeseen(ValueError("odd"), "here", tmp_path / "file" / "faults")

    assert error.message == "here: fault in mobuild: ValueError: odd"
    assert error.log and Path(error.log).read_text() == "ValueError: odd\n"
    Path(error.log).unlink()
