"""Makes the texts of `minilm` from the doc strings of a Python's standard library: a first line, and the rest.

    python3.11 recipes/make_minilm_pairs.py

writes `minilm_pairs.jsonl` (400 pairs, evaluation) and `minilm_calibration.jsonl` (80 other pairs) beside itself:
first lines of 21 to 199 characters, rests of more than 120, no line or rest twice. Chosen by digest, so that
another release of Python changes few of them; the files are frozen because CPython's texts (PSF licence) change.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

EVALUATION, CALIBRATION, BLOCK = 400, 80, 40  # pairs
LONGEST = 800  # characters of a rest that are kept; the network sees 128 tokens
FOREIGN = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}

Pair = tuple[str, str]


def pairs(library: Path) -> Iterator[Pair]:
    """First line and rest of every doc string below `library` that has both, in the order of the files."""
    for file in sorted(library.rglob("*.py")):
        if FOREIGN.isdisjoint(file.relative_to(library).parts):
            for text in doc_strings(file):
                first, _, rest = text.partition("\n")
                first, rest = " ".join(first.split()), " ".join(rest.split())
                if 20 < len(first) < 200 and len(rest) > 120:
                    yield first, rest[:LONGEST]


def doc_strings(file: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the library's own escapes
        tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (ast.get_docstring(node) or "").strip()


def distinct(found: Iterator[Pair]) -> list[Pair]:
    """Pairs with a first line and a rest that no pair before had, by the digest of the first line."""
    seen: set[str] = set()
    kept = [pair for pair in found if seen.isdisjoint(pair) and not seen.update(pair)]
    return sorted(kept, key=lambda pair: hashlib.sha256(pair[0].encode()).digest())


def write(file: Path, chosen: list[Pair]) -> None:
    """One text a line: of each block of pairs the queries, then the documents, by length.

    So neighbours have equal shapes and run as one batch, and the first blocks alone are a set too.
    """
    texts = [(number // BLOCK, side, len(pair[side]), number) for number, pair in enumerate(chosen) for side in (0, 1)]
    with open(file, "w", encoding="utf-8", newline="\n") as out:
        for _, side, _, number in sorted(texts):
            label = {"pair": number, "side": ("query", "document")[side]}
            out.write(json.dumps({"text": chosen[number][side], "label": label}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    here = Path(__file__).parent
    every = distinct(pairs(Path(sysconfig.get_path("stdlib"))))
    write(here / "minilm_pairs.jsonl", every[:EVALUATION])
    write(here / "minilm_calibration.jsonl", every[EVALUATION : EVALUATION + CALIBRATION])
