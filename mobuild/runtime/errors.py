"""The one exception of the runtime. It is not in `mobuild.errors`, which images do not have."""

from __future__ import annotations


class EngineError(Exception):
    """The engine cannot be opened or run here: what and why, then how to fix it (`hint`)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message + "".join("\n  " + line for line in self.hint.splitlines())


class RuntimeMissing(EngineError):
    """The library or the device that the engine needs is not here."""
