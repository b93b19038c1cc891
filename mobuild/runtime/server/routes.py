"""What is answered to a request: the paths of the Open Inference Protocol, and /metrics.

GET  /v2  /v2/health/live  /v2/health/ready  /v2/models/M  /v2/models/M/ready  /metrics
POST /v2/models/M/infer                                       each M also as M/versions/V
POST /app                                                     where an application rides along
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Any, Callable, Mapping
from urllib.parse import unquote

from ..cuda import DeviceError
from ..errors import EngineError
from ..model import Model
from ..tensors import DATATYPES, Malformed
from . import application, metrics, protocol, sizes
from .admission import Admission, Full
from .application import Application
from .http import Refused, Request, Response

VERSION = "1"  # of the server, as its metadata tells
UNLIMITED = ("live", "ready", "model_ready", "metrics")  # answered beyond the limit of connections, too
_RETRY = {"Retry-After": "1"}

Answer = Callable[[Request, Any], Response]


class State(Enum):
    """What the server can do now; a value is what it says when asked for more."""

    OPENING = "the engine is being opened"
    READY = ""
    ENDING = "the server is shutting down"
    BROKEN = "the GPU fails: the server has to be started again"


class Routes:
    """Answers requests for one model; `open` makes it ready."""

    def __init__(self, model: Model, counts: metrics.Metrics, connections: Callable[[], int]) -> None:
        self.state = State.OPENING
        self._model, self._counts, self._connections = model, counts, connections
        self._admission: Admission | None = None
        self._application: Application | None = None
        self._table: Mapping[str, tuple[str, Answer]] = {
            "live": ("GET", self._live),
            "ready": ("GET", self._ready),
            "server": ("GET", self._server),
            "model": ("GET", self._metadata),
            "model_ready": ("GET", self._model_ready),
            "metrics": ("GET", self._metrics),
            "infer": ("POST", self._infer),
            "app": ("POST", self._app),
        }

    def open(self, admission: Admission, application: Application | None = None) -> None:
        self._admission, self._application = admission, application
        if self.state is State.OPENING:
            self.state = State.READY

    def name(self, path: str) -> str:
        """The route of a path; one word of few, so that metrics stay few."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["v2", "models"] and len(parts) > 2:
            return self._of_model(parts[2:])
        if path.strip("/") == "app" and self._application:
            return "app"
        return {"v2": "server", "v2/health/live": "live", "v2/health/ready": "ready", "metrics": "metrics"}.get(
            path.strip("/"), "other"
        )

    def answer(self, request: Request, body: Any) -> Response:
        """Never raises but Refused."""
        name = self.name(request.path)
        if name == "other":
            raise Refused(404, self._unknown(request.path))
        method, answer = self._table[name]
        if request.method != method and (request.method, method) != ("HEAD", "GET"):
            allowed = {"Allow": "GET, HEAD" if method == "GET" else method}
            raise Refused(405, f"{request.path[:200]}: expected {method}, found {request.method[:20]}", allowed)
        return answer(request, body)

    def _of_model(self, parts: list[str]) -> str:
        if parts[0] != self._model.name:
            return "other"
        rest = parts[1:]
        if rest[:1] == ["versions"]:
            if rest[1:2] != [self._model.version]:
                return "other"
            rest = rest[2:]
        return {"": "model", "ready": "model_ready", "infer": "infer"}.get("/".join(rest), "other")

    def _unknown(self, path: str) -> str:
        model = f"/v2/models/{self._model.name}"
        return (
            f"there is nothing at {path[:200]!r}: this server has {model} (version {self._model.version}), "
            f"{model}/infer, {model}/ready, /v2, /v2/health/live, /v2/health/ready and /metrics"
            + (", and /app" if self._application else "")
        )

    def _live(self, request: Request, body: Any) -> Response:
        if self.state is State.BROKEN:
            raise Refused(503, self.state.value)
        return Response.of({"live": True})

    def _ready(self, request: Request, body: Any) -> Response:
        self._refuse_unless_ready()
        return Response.of({"ready": True})

    def _model_ready(self, request: Request, body: Any) -> Response:
        self._refuse_unless_ready()
        return Response.of({"name": self._model.name, "ready": True})

    def _server(self, request: Request, body: Any) -> Response:
        return Response.of({"name": "mobuild", "version": VERSION, "extensions": ["binary_tensor_data"]})

    def _metadata(self, request: Request, body: Any) -> Response:
        model = self._model
        document: dict[str, Any] = {"name": model.name, "versions": [model.version], "platform": model.runtime}
        for role, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
            document[role] = [
                {
                    "name": tensor.name,
                    "datatype": DATATYPES[tensor.dtype],
                    "shape": [axis if isinstance(axis, int) else -1 for axis in tensor.shape],
                }
                for tensor in tensors
            ]
        return Response.of(document)

    def _metrics(self, request: Request, body: Any) -> Response:
        admission = self._admission
        gauges = {
            "mobuild_in_flight": admission.running if admission else 0,
            "mobuild_queue_depth": admission.waiting if admission else 0,
            "mobuild_connections": self._connections(),
            "mobuild_ready": int(self.state is State.READY),
        }
        return Response(200, (self._counts.text(gauges).encode(),), metrics.CONTENT_TYPE)

    def _infer(self, request: Request, body: Any) -> Response:
        admission = self._refuse_unless_ready()
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refused(415, "compressed bodies are not taken: leave out the header Content-Encoding")
        try:
            inference = protocol.parse(self._model, body, request.headers.get(protocol.HEADER_LENGTH.lower()))
            parts, headers = protocol.respond(self._model, inference, self._run(admission, inference.feeds))
        except Malformed as error:
            raise Refused(400, str(error)) from error
        content_type = "application/octet-stream" if headers else "application/json"
        return Response(200, parts, content_type, headers)

    def _app(self, request: Request, body: Any) -> Response:
        admission = self._refuse_unless_ready()
        assert self._application
        content_type = request.headers.get("content-type", "")

        def run(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
            sizes.check_arrays(self._model, feeds)
            return self._run(admission, feeds)

        return application.respond(self._application, run, body, content_type)

    def _run(self, admission: Admission, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            with admission.engine() as engine:
                begun = time.perf_counter()
                outputs = engine.run(feeds)
                self._counts.ran(time.perf_counter() - begun)
                return outputs
        except Full as error:
            raise Refused(429, "all engines are busy and the queue is full: try again later", _RETRY) from error
        except DeviceError as error:
            self.state = State.BROKEN  # a context of CUDA does not outlive a fault
            raise Refused(500, str(error)) from error
        except EngineError as error:
            raise Refused(500, str(error)) from error

    def _refuse_unless_ready(self) -> Admission:
        if self.state is not State.READY or self._admission is None:
            raise Refused(503, self.state.value or State.OPENING.value, _RETRY)
        return self._admission
