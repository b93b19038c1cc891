"""What vendors support, as data: YAML files with a source and a confidence in every row.

Confidence: S read in source code, D vendor documentation, M measured, K general knowledge, ? uncertain; a row's
`uncertain` names fields that its confidence does not cover. Rules may refuse on S, D and M, and only warn on the
others. Versions are quoted. Tables end where our knowledge ends: a newer version is unverified, never wrong. The
modules beside the files answer questions from them; a file is read when the first question needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mobuild.versions import version_key

CERTAIN = "SDM"
Row = TypeVar("Row")


class Sourced(Protocol):
    """A row says where it comes from and how sure that is."""

    @property
    def source(self) -> str: ...

    @property
    def confidence(self) -> str: ...


@dataclass(frozen=True)
class Support:
    """The answer of a table.

    `word` is `yes`; `limited`, which works as far as `why` says; `no`, sure enough to refuse; or `unverified`,
    which is a reason to warn.
    """

    word: str
    why: str = ""
    source: str = ""

    @staticmethod
    def granted(row: Sourced, unknown: str = "") -> Support:
        """`yes` from any row but a doubtful one; `unknown` says why the row itself may not hold."""
        is_doubtful = bool(unknown) or row.confidence == "?"
        return Support("unverified" if is_doubtful else "yes", unknown or "uncertain" * is_doubtful, row.source)

    @staticmethod
    def denied(why: str, row: Sourced, unknown: str = "") -> Support:
        """`no` from a row that is certain, `unverified` from any other."""
        is_sure = row.confidence in CERTAIN and not unknown
        return Support("no" if is_sure else "unverified", why, row.source)


class Versioned(Protocol):
    """A row that holds from a version on."""

    @property
    def version(self) -> str: ...


Dated = TypeVar("Dated", bound=Versioned)


@cache
def order(version: str) -> tuple[int, ...]:
    """The numbers of a version, for comparison, in which 11 and 11.0 are one."""
    numbers = list(version_key(version))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def minor(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, as `order` gives them."""
    return order(".".join(version.split(".")[:2]))


def newest(rows: Sequence[Dated], version: str) -> Dated | None:
    """The newest of `rows` (oldest first) that is not newer than `version`."""
    older = [row for row in rows if order(row.version) <= order(version)]
    return older[-1] if older else None


def rows(cls: type[Row], name: str, table: str) -> tuple[Row, ...]:
    """The rows of one table of `facts/<name>.yaml` as objects of `cls`."""
    key: Any = cls  # a class is hashable, which its type does not say
    made: tuple[Row, ...] = _rows(key, name, table)
    return made


@cache
def load(name: str) -> Any:
    """The content of `facts/<name>.yaml`; not to be changed by callers."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster where libyaml is there
    return yaml.load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"), loader)


@cache
def _rows(cls: Any, name: str, table: str) -> Any:
    return tuple(cls(**{key: _frozen(value) for key, value in row.items()}) for row in load(name)[table])


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
