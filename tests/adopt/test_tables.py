"""The tables of flags hold what the tools have: the installed ones, and trtexec as the facts have it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mobuild.adopt import onnxsim, polygraphy_tables, quantization, trtexec_flags, trtexec_tables
from mobuild.facts.builder_flags import CHOICES, NUMBERS, SWITCHES
from mobuild.facts.features import flags

POLYGRAPHY = [str(Path(sys.executable).parent / "polygraphy")]
TOOLS = {
    "polygraphy convert": ([*POLYGRAPHY, "convert"], polygraphy_tables.KNOWN),
    "polygraphy run": ([*POLYGRAPHY, "run"], polygraphy_tables.KNOWN),
    "onnxsim": ([sys.executable, "-m", "onnxsim"], onnxsim.KNOWN),
    "preprocess": ([sys.executable, "-m", "onnxruntime.quantization.preprocess"], quantization.PREPROCESS),
    "static": ([sys.executable, "-m", "onnxruntime.quantization.static_quantize_runner"], quantization.STATIC),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_option_of_the_installed_tool_is_known(tool: str) -> None:
    command, known = TOOLS[tool]

    assert options_of(command) - names(known) == {"-h", "--help"}


def test_no_flag_of_trtexec_is_handled_that_the_facts_lack() -> None:
    handled = {
        *trtexec_flags.HANDLERS,
        *trtexec_tables.MEASURING,
        *trtexec_tables.IGNORED,
        *trtexec_tables.LOST,
        *trtexec_tables.HERE,
        *trtexec_tables.NO_MODEL,
        *NUMBERS.values(),
        *(flag for flag, _ in CHOICES.values()),
        *(flag.partition("=")[0] for _, flag in SWITCHES.values()),
    }

    assert handled - set(flags()) == set()


def names(known: Mapping[str, int | str]) -> set[str]:
    return {name for each in known for name in each.split(", ")}


def options_of(command: list[str]) -> set[str]:
    """The names that the help of a tool gives to its options."""
    environment = {**os.environ, "COLUMNS": "400"}
    text = subprocess.run([*command, "--help"], env=environment, capture_output=True, text=True, check=True).stdout
    found: set[str] = set()
    for line in text.splitlines():
        if shown := re.match(r"  (-\S.*)", line):
            # A name stands before the values and the text: `-o OUT, --output OUT   Where …`
            found.update(re.findall(r"(?:^|, )(--?[\w-]+)", re.split(r" {2,}", shown[1])[0]))
    return found
