"""Small node kinds for tests: what the worker is told to build."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Mapping  # noqa: UP035 - Python 3.8

from mobuild.node import Built, user_code


@dataclass(frozen=True)
class Call:
    """Calls the user's function with the artifact's path, then writes its answer as text.

    `mode` is `write` for that, or `nothing`, `empty` for a node that forgets its artifact.
    """

    code: str = user_code()
    mode: str = "write"
    kind: ClassVar[str] = "call"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = True
    suffix: ClassVar[str] = ".txt"
    tools: ClassVar[tuple] = ()  # type: ignore[type-arg]

    def build(self, inputs: Mapping[str, Path], out: Path) -> Any:
        from mobuild import usercode

        answer = usercode.resolve(self.code)()
        if self.mode == "write":
            out.write_text(str(answer))
        elif self.mode == "empty":
            out.mkdir()
        return Built({"answer": answer}, warnings=("toy warning",))


@dataclass(frozen=True)
class Plain:
    """Needs no user code: copies its inputs; `mode` makes it fail in various ways."""

    mode: str = "copy"
    kind: ClassVar[str] = "plain"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False
    suffix: ClassVar[str] = ".txt"
    tools: ClassVar[tuple] = ()  # type: ignore[type-arg]

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        if self.mode == "die":
            os.kill(os.getpid(), 9)
        if self.mode == "sleep":
            print("sleeping", flush=True)
            time.sleep(60)
        print("copying")
        out.write_text("".join(path.read_text() for path in inputs.values()))
        return Built({"pid": os.getpid()})
