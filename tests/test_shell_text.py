"""Variables that a shell reads for a command: nothing watches it, so its text tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mobuild import shell_text
from tests.projects import recipe_project


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('echo $A ${B} "$C" "it\'s $D"', "A B C D"),
        ("echo ${A:-16} ${#B} ${C%.txt} $(cat $D)", "A B C D"),
        ("A=${A:-16}; B=$B:more; echo $A $B", "A B"),
        (": ${A:=1}\necho $A", "A"),
        ("echo '$A' \\$B # $C\n# $D\necho $E", "E"),
        ("awk '{print $NF}' x > $1; echo $? $# $@ $$ $0", ""),
        (
            'A=1; echo $A; B="x y" sh -c true; for C in a b; do echo $C; done; while read -r D E; do echo $D $E; done',
            "",
        ),
        ("f() { local A; echo $A $B; }\nB=1\nf", ""),
        ("A=1\necho ${A:-2} $PWD $BASH_SOURCE $RANDOM", ""),
        ("cat > x <<'END'\n$A it's\nEND\ncat <<END\n$B\nEND\necho $C", "B C"),
        (". .venv/bin/activate; . /etc/profile; . ./none.sh; echo $A", "A"),
        ("while getopts ab: A; do echo $A $OPTARG; done", ""),
        ('echo "a" \'b "$A" c\' "$B"', "B"),
    ],
)
def test_what_a_script_expands_and_does_not_set_is_read(tmp_path: Path, text: str, names: str) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/pyvenv.cfg").touch()
    (tmp_path / ".venv/bin/activate").write_text("echo ${_OLD_PATH:-}")

    assert shell_text.variables(text, tmp_path) == set(names.split())


@pytest.mark.parametrize(
    ("name", "text", "is_script"),
    [("go.sh", "echo $A", True), ("go", "#!/usr/bin/env bash\necho $A", True), ("go", "#!/bin/sh -e\n$A", True),
     ("go", "echo $A", False), ("go.pl", "#!/usr/bin/perl\n$A", False), ("empty", "", False),
     ("go", "#!/usr/bin/env python3\nimport os\nprint(os.environ['A'])", True)],
)  # fmt: skip
def test_a_script_is_known_by_its_name_or_its_first_line(tmp_path: Path, name: str, text: str, is_script: bool) -> None:
    (tmp_path / name).write_text(text)

    assert shell_text.of_file(tmp_path / name, tmp_path) == ({"A"} if is_script else set())


CMDS = {
    "shell: true": '"echo $SHOP > {out}", shell: true',
    "sh -c": "\"sh -c 'echo $SHOP > $0' {out}\"",
    "bash -euc behind another program": "\"env bash -e -uc 'echo $SHOP > $0' {out}\"",
    "python -c": "\"python -c \\\"import os, sys; open(sys.argv[1], 'w').write(os.environ['SHOP'])\\\" {out}\"",
    "a file that is taken in": "\"sh -c '. ./taken.sh; echo $WORD > $0' {out}\"",
    "a script": '"sh go.sh {out}"',
}


@pytest.mark.parametrize("cmd", CMDS.values(), ids=CMDS)
def test_a_variable_that_a_shell_reads_counts_and_no_other(tmp_path: Path, cmd: str) -> None:
    nodes = f"  made: {{kind: command, cmd: {cmd}, out: .txt}}\n"
    project = recipe_project(tmp_path, nodes, {"go.sh": "echo ${SHOP:-16} > $1\n", "taken.sh": "WORD=$SHOP\n"})

    first = project.mobuild("target=made", env={"SHOP": "1"})
    same = project.mobuild("plan", "target=made", env={"SHOP": "1", "SHOPS": "2"}).out
    other = project.mobuild("plan", "target=made", env={"SHOP": "2"}).out

    assert re.search("the code read environment SHOP(, file taken.sh)?, which is declared nowhere", first.err)
    assert same.startswith("fresh ")
    assert other.startswith("stale ") and "environment SHOP: " in other


def test_what_no_shell_reads_is_text(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, '  made: {kind: command, cmd: "sh go.sh $SHOP {out}", out: .txt}\n')
    project.write("go.sh", "echo $1 > $2\n")

    done = project.mobuild("target=made", env={"SHOP": "1"})

    assert "declared nowhere" not in done.err
    assert Path(done.out.strip()).read_text() == "$SHOP\n"
