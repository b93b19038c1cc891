"""What an image runs: `python -m mobuild_runtime serve|selftest|healthcheck|info`.

serve        answers inference over HTTP until SIGTERM
selftest     runs the recorded feeds and compares the outputs; status 1 when they differ
healthcheck  asks the server of this machine whether it is ready; status 1 when it is not
info         tells the model, the runtime's versions and the GPU as JSON

Variables: MOBUILD_MODEL (/model), MOBUILD_HOST (0.0.0.0), MOBUILD_PORT (8000), MOBUILD_CONCURRENCY (1), MOBUILD_QUEUE
(64), MOBUILD_CONNECTIONS (256), MOBUILD_MAX_REQUEST_MB (64), MOBUILD_READ_SECONDS (30), MOBUILD_GRACE_SECONDS (9),
MOBUILD_APP (none; the module:function that answers POST /app).
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from typing import Any, Callable, Mapping, Sequence

from . import cuda, model, selftest
from .errors import EngineError
from .opening import open_model
from .plans import package
from .server import application
from .server.admission import Admission
from .server.serving import Server
from .server.settings import Settings, SettingsError

_QUIET = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime reports home otherwise, and reads this when it is imported
    "OPENBLAS_NUM_THREADS": "1",  # nothing here multiplies matrices in NumPy; each of its threads costs memory
}


def serve(settings: Settings) -> int:
    described = model.read(settings.model)

    def opened() -> tuple[Admission, application.Application | None]:
        app = application.load(settings.app) if settings.app else None
        engines = open_model(settings.model, described, settings.concurrency)
        for engine in engines[: len(set(map(id, engines)))]:
            for feeds, _ in selftest.cases(settings.model):
                engine.run(feeds)  # the first run of an engine allocates and compiles: not at a client's cost
        return Admission(engines, settings.queue), app

    return Server(settings, described, opened).run()


def examine(settings: Settings) -> int:
    described = model.read(settings.model)
    told: dict[str, Any] = {"model": described.name, "version": described.version, "key": described.key}
    if settings.app:
        application.load(settings.app)
        told["app"] = settings.app
    damage = list(selftest.damaged(settings.model, described))
    if damage:
        told.update(passed=False, damage=damage)
    else:
        told.update(selftest.examine(settings.model, described, open_model(settings.model, described)[0]))
    print(json.dumps(told))
    return 0 if told["passed"] else 1


def healthcheck(settings: Settings) -> int:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    try:
        with socket.create_connection((host, settings.port), timeout=settings.read_seconds) as server:
            server.sendall(b"GET /v2/health/ready HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: server.recv(4096), b"")).decode(errors="replace")
    except OSError as error:
        raise EngineError(f"no server answers at {host}, port {settings.port}: {error}") from error
    status, _, body = answer.partition("\r\n\r\n")
    print(body)
    return 0 if status.startswith("HTTP/1.1 200 ") else 1


def info(settings: Settings) -> int:
    described = model.read(settings.model)
    card, missing = cuda.card()
    told = {
        "model": described.name,
        "version": described.version,
        "runtime": described.runtime,
        "engine": described.engine,
        "key": described.key,
        "sha256": described.sha256,
        "verdict": described.verdict,
        "target": str(described.target) or "any machine",
        "built_with": described.tools,
        "here": {
            "python": sys.version.split()[0],
            **{name: _version(name) for name in ("numpy", described.runtime)},
            "gpu": f"{card.name} (compute capability {card.compute_capability}, CUDA {card.cuda})" if card else missing,
        },
    }
    print(json.dumps(told, indent=1))
    return 0


def _version(name: str) -> str:
    """The version that a package itself tells: images leave the metadata of installers out."""
    try:
        return str(importlib.import_module(package(name)).__version__)
    except (ImportError, AttributeError) as error:
        return f"not here: {error}"


COMMANDS: Mapping[str, Callable[[Settings], int]] = {
    "serve": serve,
    "selftest": examine,
    "healthcheck": healthcheck,
    "info": info,
}


def main(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """An exit status: 2 when the request is not understood, 1 when it cannot be done."""
    if len(words) != 1 or words[0] not in COMMANDS:
        found = " ".join(words) or "nothing"
        print(f"mobuild_runtime: expected one of {', '.join(COMMANDS)}, found {found}", file=sys.stderr)
        return 2
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return COMMANDS[words[0]](Settings.of(variables))
    except SettingsError as error:
        print(f"mobuild_runtime: {error}", file=sys.stderr)
        return 2
    except EngineError as error:
        print(f"mobuild_runtime: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
