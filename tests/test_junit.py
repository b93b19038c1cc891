"""`report.junit=FILE`: each node and each gate as a test case."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from mobuild.report.junit import Case, document
from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  good: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  bad: {kind: command, cmd: "sh fail.sh {in.good} {out}", in: {good: good}, out: .txt}
  below: {kind: command, cmd: "cp {in.bad} {out}", in: {bad: bad}, out: .txt}
"""
FAIL = 'printf "first\\n\\033[31mred \\000 <&> \\"last\\"\\n"; exit 3\n'


def junit(project: Project, name: str = "junit.xml") -> ElementTree.Element:
    return ElementTree.parse(project.root / name).getroot()


def outcomes(root: ElementTree.Element) -> dict[str, str]:
    return {case.get("name", ""): case[0].tag if len(case) else "passed" for case in root.iter("testcase")}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"text.txt": "one\n", "fail.sh": FAIL})


def test_nodes_are_cases_with_failures_and_the_end_of_their_log(project: Project) -> None:
    done = project.mobuild("target=below", "report.junit=junit.xml", check=False)

    root = junit(project)
    failure = root.find(".//failure")
    assert done.status == 1
    assert outcomes(root) == {"text": "passed", "good": "passed", "bad": "failure", "below": "skipped"}
    assert root.attrib == {**root.attrib, "tests": "4", "failures": "1", "errors": "0", "skipped": "1"}
    assert [suite.get("name") for suite in root] == ["small/cpu"]
    assert failure is not None and failure.get("message", "").startswith("node 'bad'")
    log = failure.text.split("look into it: ")[1] if failure.text else ""
    assert "\nfirst\n" in log and 'red \ufffd <&> "last"' in log


def test_what_was_skipped_says_why(project: Project) -> None:
    project.mobuild("target=below", "report.junit=junit.xml", check=False)

    assert [one.get("message") for one in junit(project).iter("skipped")] == ["blocked: 'bad' cannot be built"]


def test_every_run_writes_it_anew(project: Project) -> None:
    """Also where there was nothing to do, whose answer is otherwise repeated."""
    for _ in range(4):
        project.mobuild("target=good", "report.junit=out/junit.xml")
        assert outcomes(junit(project, "out/junit.xml")) == {"text": "passed", "good": "passed"}
        (project.root / "out/junit.xml").unlink()


def test_a_place_in_the_home_folder_is_there(project: Project, tmp_path: Path) -> None:
    project.mobuild("target=good", "report.junit='~/junit.xml'", env={"HOME": str(tmp_path)})

    assert (tmp_path / "junit.xml").exists() and not (project.root / "~").exists()


def test_a_frozen_run_that_would_build_is_an_error(project: Project) -> None:
    project.mobuild("target=good", "frozen=true", "report.junit=junit.xml", check=False)

    assert outcomes(junit(project)) == {"request 1": "error", "text": "passed", "good": "skipped"}


def test_a_missed_gate_is_a_failure(tmp_path: Path) -> None:
    from tests.projects import toy_project

    project = toy_project(tmp_path)

    project.mobuild("target=engine", "++constraints.engine_mb=0.000001", "report.junit=junit.xml", check=False)
    missed = junit(project)
    project.mobuild("target=engine", "++constraints.engine_mb=1", "report.junit=junit.xml")

    assert (outcomes(missed)["engine"], outcomes(missed)["engine gate"]) == ("passed", "failure")
    assert outcomes(junit(project))["engine gate"] == "passed"


def test_a_place_that_cannot_be_written_is_named(project: Project) -> None:
    done = project.mobuild("target=good", "report.junit=text.txt/junit.xml", check=False)

    assert done.status == 1
    assert done.errors[0].startswith(f"report.junit: '{project.root}/text.txt/junit.xml' cannot be written: ")


@pytest.mark.parametrize("text", ["<&>\"'", "\x00\x1b\x08", "\ud800", "\ufffe\uffff", "é 😀", "a\nb\tc", "]]>"])
def test_any_text_gives_valid_xml(text: str) -> None:
    cases = [Case(text, text, 1.0, outcome, text, text) for outcome in ("failure", "error", "skipped", "passed")]

    root = ElementTree.fromstring(document(cases))

    assert len(list(root.iter("testcase"))) == 4
    if text.isprintable():
        assert root[0].get("name") == text and root[0][0][0].text == text
