"""The table of what no test of TensorRT-RTX executes is about the functions that there are."""

from __future__ import annotations

import re

from tests.unexecuted import FILES, functions, of, written


def test_the_table_is_of_the_functions_that_there_are() -> None:
    assert of() in written(), "functions came or went: python -m tests.unexecuted"


def test_every_function_of_the_table_is_there() -> None:
    for line in written().splitlines():
        if name := next((each for each in FILES if f"`{each.removeprefix('mobuild/')}`" in line), ""):
            _, _, never, partly, _ = re.split(r"(?<!\\) ?\| ?", line)
            named = re.findall(r"`([^`]+)`", never) + re.findall(r"(?:^|; )`([^`]+)`: ", partly)
            assert set(named) <= functions(name).keys(), name
