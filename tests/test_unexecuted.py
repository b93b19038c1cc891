"""The table of what no test of TensorRT-RTX executes is about the functions that there are."""

from __future__ import annotations

import re

from tests.unexecuted import FILES, ROOT, functions, of, written


def test_the_table_is_of_the_functions_that_there_are() -> None:
    assert of() in written(), "functions came or went: python -m tests.unexecuted"


def test_every_function_of_the_table_is_there() -> None:
    for line in written().splitlines():
        if name := next((each for each in FILES if f"`{each.removeprefix('mobuild/')}`" in line), ""):
            _, _, never, partly, _ = re.split(r"(?<!\\) ?\| ?", line)
            named = re.findall(r"`([^`]+)`", never) + re.findall(r"(?:^|; )`([^`]+)`: ", partly)
            assert set(named) <= functions(name).keys(), name


def test_every_line_of_the_table_is_there() -> None:
    for line in written().splitlines():
        if name := next((each for each in FILES if f"`{each.removeprefix('mobuild/')}`" in line), ""):
            source = {each.strip() for each in (ROOT / name).read_text(encoding="utf-8").splitlines()}
            partly = re.split(r"(?<!\\) ?\| ?", line)[3].replace("\\|", "|")
            quoted = set(re.findall(r"`([^`]+)`", partly)) - functions(name).keys()
            assert quoted <= source, f"{name}: lines came or went: python -m tests.unexecuted"
