"""The table of rules in conf/README.md, from the code; `python -m tests.check_codes` writes it anew."""

from __future__ import annotations

from pathlib import Path

from mobuild.contract.codes import FAMILIES, SAYS

README = Path(__file__).parents[1] / "conf" / "README.md"
BEGIN, END = "<!-- codes: python -m tests.check_codes -->\n", "<!-- end of codes -->\n"


def table() -> str:
    rows = [f"| {family} | `{code}` | {SAYS[code]} |\n" for family, codes in FAMILIES.items() for code in codes]
    return "".join(["| family | code | about |\n|---|---|---|\n", *rows])


def written() -> str:
    """The table as it stands in the README."""
    return README.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}")
