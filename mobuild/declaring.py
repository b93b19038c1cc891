"""How to declare what the user's code was seen to read, in words that can be pasted into the recipe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from mobuild.observers.environment import ABSENT, WHOLE
from mobuild.store import Condition

SHORT = "declare files by `needs` and variables by `env`"


def how(node: str, found: Sequence[Condition]) -> str:
    """One line for the first file of `found` and one for the first variable."""
    return "\n".join([*_file(node, found), *_variable(node, found), "or set cache.strict=false"])


def _file(node: str, found: Sequence[Condition]) -> Iterator[str]:
    there = [one for one in found if one.kind in ("file", "folder") and one.value != ABSENT]
    for one in there[:1]:
        role = re.sub(r"\W", "_", PurePath(one.name).stem) or "files"
        source = f"{{kind: source, uri: {one.name}}}"
        yield f"declare the {one.kind}: nodes: {{{role}: {source}}}, and in {node!r} needs: {{{role}: {role}}}"


def _variable(node: str, found: Sequence[Condition]) -> Iterator[str]:
    names = [one.name for one in found if one.kind == "environment"]
    if WHOLE in names:
        yield "read single variables: a look at the whole environment (*) cannot be declared"
    for name in [name for name in names if name != WHOLE][:1]:
        yield f'declare the variable: in {node!r} env: {{{name}: "${{oc.env:{name},null}}"}}'
