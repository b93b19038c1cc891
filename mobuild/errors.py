"""Every exception that mobuild raises on purpose; each says what, where and how to fix.

`status` is the exit status of a run that ended with the error: 2 when the request cannot be
understood or composed, 1 for everything else. Only `cli` turns an error into text and a status.
Keeps Python 3.8 syntax: the worker raises these under foreign interpreters.
"""

from __future__ import annotations

from typing import Any, Iterable, Sequence


class MobuildError(Exception):
    """A failure with a message for people: what and where, then how to fix it (`hint`)."""

    status = 1

    def __init__(self, message: str, hint: str = "", log: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.log = log
        self.look = ""  # the command that opens what the failed build left
        self.unmade: Any = None  # the job that is none because of it (`job.Unmade`), which `check` tells of

    def __str__(self) -> str:
        lines = [self.message]
        if self.hint:
            lines += ["  " + line for line in self.hint.splitlines()]
        if self.log:
            lines.append(f"  log: {self.log}")
        if self.look:
            lines.append(f"  look into it: {self.look}")
        return "\n".join(lines)


class ConfigError(MobuildError):
    """The user's input is wrong: a parameter, a recipe, a hardware file."""

    status = 2


class GraphError(ConfigError):
    """The nodes do not make a graph: an unknown node or role, a cycle, two nodes of one name."""


class ToolchainError(MobuildError):
    """A library, driver, interpreter or card is missing or of the wrong version."""


class SourceError(MobuildError):
    """A file from outside is missing, unpinned, or not the one that was pinned."""


class Unreachable(SourceError):
    """The server of a source does not answer, so it need not be asked for another one."""


class Refused(MobuildError):
    """A contract rule says that this cannot work; the message holds its code and the numbers."""


class NoBackend(Refused):
    """No backend of the hardware may build; `findings` are what rules say of that."""

    def __init__(self, message: str, hint: str, findings: Sequence[Any]) -> None:
        super().__init__(message, hint)
        self.findings = findings


class Frozen(MobuildError):
    """Something would be built, and `frozen=true` forbids it; the hint lists the nodes and why."""


class NodeFailed(MobuildError):
    """A node's build failed: the message names the node and the cause."""


class NothingMade(NodeFailed):
    """A node ended well and left no artifact."""


class GateFailed(MobuildError):
    """A measurement misses its constraint: measured, allowed, and what that blocks."""


class PushFailed(MobuildError):
    """An image could not be pushed: where to, what the registry said, what to do."""


class StoreError(MobuildError):
    """The cache cannot be written or locked. Damaged objects are reasons to build, not errors."""


_BY_NAME = {
    cls.__name__: cls
    for cls in (
        MobuildError,
        ConfigError,
        GraphError,
        ToolchainError,
        SourceError,
        Unreachable,
        Refused,
        Frozen,
        NodeFailed,
        GateFailed,
        PushFailed,
        StoreError,
    )
}


def by_name(name: str) -> type[MobuildError]:
    """The class called `name`; `NodeFailed` for any other exception (a worker sends names)."""
    return _BY_NAME.get(name, NodeFailed)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'sanitized'?` for the nearest of `known`, or an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(word, sorted(set(known) - {word}), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""
