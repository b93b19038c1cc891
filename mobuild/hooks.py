"""Calls of hooks: functions of the user's that change what mobuild is about to hand to a library.

A recipe names them as it names all of its code, so their closure is in the key. They stand where a library's own
options do not reach: before the export, in the graph, before a session opens, before an engine is built.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any, Callable, Mapping

from mobuild import usercode
from mobuild.errors import MobuildError, NodeFailed
from mobuild.firstparty import is_first_party


def call(reference: str, form: str, *arguments: Any, inputs: Mapping[str, Path] = {}) -> Any:
    """What the hook returns for `arguments`; it gets those `inputs` that it names, too.

    `form` is how it is written, for messages: `hook(options)`.

    Raises:
        NodeFailed: it raises; names the hook and the user's line.
    """
    return callback("hook", reference, form, len(arguments), inputs)(*arguments)


def callback(word: str, reference: str, form: str, positional: int, inputs: Mapping[str, Path]) -> Callable[..., Any]:
    """The function, with its first `positional` parameters left to the caller; `word` is what messages call it."""
    function = usercode.bound(usercode.resolve(reference), inputs, positional=positional)

    def called(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (MobuildError, ImportError):  # a missing package is explained by the worker, which knows the interpreter
            raise
        except Exception as error:
            raise NodeFailed(
                f"{word} {reference!r} raises{_place(error)}: {type(error).__name__}: {error}",
                f"it is called as {form}",
            ) from error

    return called


def unexpected(reference: str, wanted: str, found: Any, form: str) -> NodeFailed:
    """The error for a hook that returned something else."""
    return NodeFailed(
        f"hook {reference!r}: expected {wanted} or nothing, found {type(found).__name__}", f"it is called as {form}"
    )


def _place(error: Exception) -> str:
    """` at recipes/det.py:12 in prepare`, the user's frame that is nearest to the error; empty without one."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_first_party(frame.filename)]
    return f" at {os.path.relpath(own[-1].filename)}:{own[-1].lineno} in {own[-1].name}" if own else ""
