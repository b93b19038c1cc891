"""`mobuild graph`: the plan as Mermaid and as DOT."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.projects import recipe_project, toy_project

SHARED = """\
  text: {kind: command, cmd: "sh -c 'echo one > {out}'", out: .txt}
  both: {kind: command, cmd: "sh -c 'cat {in.text} {in.other} > {out}'", in: {text: text, other: text}, out: .txt}
"""
# A name may hold all that a file's name may hold.
STRANGE = r"""
  "größe \"N\" #1 <b> `x` & [y]": {kind: command, cmd: "true {out}", out: .txt}
  enc:
    folder: {kind: command, cmd: "true {out}"}
    last:
      kind: command
      cmd: "true {in.a} {in.folder} {out}"
      in: {a: 'größe "N" #1 <b> `x` & [y]', folder: folder/f.txt}
"""


def test_a_drawing_has_the_states_of_the_plan(tmp_path: Path) -> None:
    project = toy_project(tmp_path)

    drawn = project.mobuild("graph", "target=engine").out

    assert drawn == (
        "flowchart TD\n"
        '  n0["toy/cpu weights<br/>fresh"]:::fresh\n'
        '  n1["toy/cpu onnx<br/>stale"]:::stale\n'
        '  n2["toy/cpu sanitized<br/>waiting"]:::waiting\n'
        '  n3["toy/cpu engine<br/>waiting"]:::waiting\n'
        "  n0 --> n1\n"
        "  n1 --> n2\n"
        "  n2 --> n3\n"
        "  classDef fresh fill:#d3f0d3,stroke:#1a1a1a,color:#1a1a1a\n"
        "  classDef stale fill:#ffe2b0,stroke:#1a1a1a,color:#1a1a1a\n"
        "  classDef waiting fill:#e2e6f5,stroke:#1a1a1a,color:#1a1a1a\n"
    )
    assert not (project.root / "build").exists()


def test_jobs_share_a_box_and_roles_stand_where_they_are_not_plain(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, SHARED)

    drawn = project.mobuild("-m", "graph", "target=both", "hardware=cpu,l20").out

    assert '  n0["small/cpu text (and 1 more)<br/>stale"]:::stale\n' in drawn
    assert drawn.count(":::") == 2
    assert "  n0 --> n1\n" in drawn
    assert '  n0 -->|"other"| n1\n' in drawn


def test_a_missing_source_is_drawn_as_blocked(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  data: {kind: source, uri: gone.bin}\n")

    assert '["small/cpu data<br/>blocked"]:::blocked' in project.mobuild("graph", "target=data").out


def test_strange_names_stay_whole_in_mermaid(tmp_path: Path) -> None:
    drawn = recipe_project(tmp_path, STRANGE).mobuild("graph", "target=last").out

    assert '["small/cpu größe #34;N#34; #35;1 #60;b#62; #96;x#96; #38; [y]<br/>stale"]' in drawn
    assert '["small/cpu enc.last<br/>waiting"]' in drawn
    assert '-->|"a"|' in drawn
    assert '-->|"f.txt"|' in drawn


def test_strange_names_stay_whole_in_dot(tmp_path: Path) -> None:
    text = recipe_project(tmp_path, STRANGE).mobuild("graph", "target=last", "format=dot").out

    boxes, arrows = parse_dot(text)

    assert set(boxes.values()) == {
        'small/cpu größe "N" #1 <b> `x` & [y]\nstale',
        "small/cpu enc.folder\nstale",
        "small/cpu enc.last\nwaiting",
    }
    assert sorted(label for _, _, label in arrows) == ["a", "f.txt"]
    assert {start for start, _, _ in arrows} | {end for _, end, _ in arrows} == boxes.keys()


@pytest.mark.skipif(not shutil.which("dot"), reason="no Graphviz")
def test_graphviz_draws_it(tmp_path: Path) -> None:
    text = recipe_project(tmp_path, STRANGE).mobuild("graph", "target=last", "format=dot").out

    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert "größe" in done.stdout


STRING = r'"((?:[^"\\]|\\["\\n])*)"'


def parse_dot(text: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Boxes (identifier → label) and arrows (start, end, label); nothing else may stand there."""
    first, _, *lines, last = text.splitlines()
    assert (first, last) == ("digraph mobuild {", "}")
    boxes: dict[str, str] = {}
    arrows = []
    for line in lines:
        if box := re.fullmatch(rf"  (n\d+) \[label={STRING}, fillcolor={STRING}\];", line):
            boxes[box[1]] = unquoted(box[2])
        else:
            arrow = re.fullmatch(rf"  (n\d+) -> (n\d+)(?: \[label={STRING}\])?;", line)
            assert arrow, line
            arrows.append((arrow[1], arrow[2], unquoted(arrow[3] or "")))
    return boxes, arrows


def unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)
