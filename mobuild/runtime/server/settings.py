"""The variables `MOBUILD_…` that say how to serve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping


class SettingsError(Exception):
    """A variable holds what it must not."""


@dataclass(frozen=True)
class Settings:
    """How to serve; the variable of a field is its name in capitals behind `MOBUILD_`."""

    model: Path = Path("/model")
    host: str = "0.0.0.0"
    port: int = 8000  # 0: the kernel chooses, and the first line of the log tells
    concurrency: int = 1  # runs at once; a runtime whose engine threads cannot share opens it as often
    queue: int = 64  # inference that may wait for a run
    connections: int = 256
    max_request_mb: float = 64
    read_seconds: float = 30  # for a request as a whole; a large one gets more
    grace_seconds: float = 9  # after SIGTERM; `docker stop` waits 10
    app: str = ""  # module:function that answers POST /app

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Settings:
        """The settings in an environment.

        Raises:
            SettingsError: names the variable, what it holds, and what it may.
        """
        return cls(
            model=Path(variables.get("MOBUILD_MODEL") or cls.model),
            host=variables.get("MOBUILD_HOST") or cls.host,
            port=int(_number(variables, "MOBUILD_PORT", cls.port, 0, 65535, whole=True)),
            concurrency=int(_number(variables, "MOBUILD_CONCURRENCY", cls.concurrency, 1, 1024, whole=True)),
            queue=int(_number(variables, "MOBUILD_QUEUE", cls.queue, 0, 1e6, whole=True)),
            connections=int(_number(variables, "MOBUILD_CONNECTIONS", cls.connections, 1, 1e5, whole=True)),
            max_request_mb=_number(variables, "MOBUILD_MAX_REQUEST_MB", cls.max_request_mb, 1e-6, 1e6),
            read_seconds=_number(variables, "MOBUILD_READ_SECONDS", cls.read_seconds, 0.01, 86400),
            grace_seconds=_number(variables, "MOBUILD_GRACE_SECONDS", cls.grace_seconds, 0, 86400),
            app=variables.get("MOBUILD_APP") or cls.app,
        )


def _number(
    variables: Mapping[str, str], name: str, default: float, least: float, most: float, whole: bool = False
) -> float:
    text = variables.get(name) or str(default)
    try:
        value = float(int(text)) if whole else float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise SettingsError(f"{name}: expected {kind} from {least:g} to {most:g}, found {text!r}")
    return value
