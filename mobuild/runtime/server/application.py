"""Code of the user's that rides along: what comes before the engine and after it, behind POST /app.

    def answer(run, body, content_type): ...

`run(feeds)` gives the engine's outputs by name, waiting for its turn; arrays have their batch axis. Sizes that it was
not built for raise a ValueError. What is returned is the answer: bytes as they are, text as text, anything else as
JSON. A ValueError is the client's fault (400, with its message), any other exception the server's.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, Callable, Mapping

from ..errors import EngineError
from .http import Refused, Response

Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Application = Callable[[Run, bytes, str], Any]


def load(reference: str) -> Application:
    """The function that `module:function` names.

    Raises:
        EngineError: its module cannot be imported, or has no such function.
    """
    module, _, name = reference.partition(":")
    try:
        found: Application = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever the user's module raises is about the user's module
        raise EngineError(
            f"the application {reference!r} cannot be loaded: {type(error).__name__}: {error}",
            "what it imports has to be in the image as well: image.requirements=[…]",
        ) from error
    if not callable(found):
        raise EngineError(f"the application {reference!r} is no function")
    return found


def respond(application: Application, run: Run, body: Any, content_type: str) -> Response:
    """The application's answer to one request.

    Raises:
        Refused: it does not take the body, or the engine does not run.
    """
    try:
        said = application(run, bytes(body), content_type)
        if isinstance(said, (bytes, bytearray, memoryview)):
            return Response(200, (bytes(said),), "application/octet-stream")
        if isinstance(said, str):
            return Response(200, (said.encode(),), "text/plain; charset=utf-8")
    except ValueError as error:
        raise Refused(400, str(error) or "the application does not take this body") from error
    try:
        return Response(200, (json.dumps(said, default=_plain, allow_nan=False).encode(),))
    except ValueError as error:
        raise Refused(500, f"the application answers with what JSON does not have: {error}") from error


def _plain(value: Any) -> Any:
    """Arrays and numbers of NumPy as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"the application answers with {type(value).__name__}, which JSON does not have")
