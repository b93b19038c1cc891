"""A folder as an image has it, and servers on loopback around it, in processes of their own."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy
from onnx import TensorProto, helper, save_model

from mobuild.runtime import model, selftest
from mobuild.runtime.model import Model
from mobuild.runtime.runner import Tensor

NAME = "toy"
INFER = f"/v2/models/{NAME}/infer"
GET = "GET /v2/health/live HTTP/1.1\r\nHost: a\r\n"
POST = f"POST {INFER} HTTP/1.1\r\nHost: a\r\n"
TOY = Model(
    name=NAME,
    version="3",
    runtime="onnxruntime",
    engine="engine.onnx",
    inputs=(Tensor("x", "float32", ("batch", 3)), Tensor("turns", "int64", ())),
    outputs=(Tensor("y", "float32", ("batch", 3)), Tensor("is_large", "bool", ("batch", 3))),
    options={"threads": 1},
    profiles=({"x": ((1, 3), (2, 3), (8, 3))},),
    key="0123",
    verdict="passed",
)


def model_folder(folder: Path, described: Model = TOY) -> Path:
    """y = 2 x, is_large = 2 x > 10, after `turns` turns of a loop: a run lasts as long as its request says."""
    folder.mkdir(parents=True, exist_ok=True)
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Identity", ["held"], ["kept"])],
        "turn",
        [
            value("turn", TensorProto.INT64, []),
            value("go", TensorProto.BOOL, []),
            value("held", TensorProto.FLOAT, None),
        ],
        [value("go_on", TensorProto.BOOL, []), value("kept", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Add", ["x", "x"], ["doubled"]),
        helper.make_node("Loop", ["turns", "", "doubled"], ["y"], body=body),
        helper.make_node("Constant", [], ["ten"], value_float=10.0),
        helper.make_node("Greater", ["y", "ten"], ["is_large"]),
    ]
    inputs = [value("x", TensorProto.FLOAT, ["batch", 3]), value("turns", TensorProto.INT64, [])]
    outputs = [value("y", TensorProto.FLOAT, ["batch", 3]), value("is_large", TensorProto.BOOL, ["batch", 3])]
    graph = helper.make_graph(nodes, "toy", inputs, outputs)
    save_model(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "engine.onnx"
    )
    digest = hashlib.sha256((folder / "engine.onnx").read_bytes()).hexdigest()
    model.write(folder, replace(described, sha256={"engine.onnx": digest}))
    x = numpy.float32([[1, 2, 30]])
    feeds = {"x": x, "turns": numpy.array(1, numpy.int64)}
    selftest.record(folder, [(feeds, {"y": 2 * x, "is_large": 2 * x > 10})])
    return folder


def command(verb: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What `python -m mobuild.runtime verb` says about a folder."""
    environment = {**os.environ, "MOBUILD_MODEL": str(folder), **variables}
    words = [sys.executable, "-m", "mobuild.runtime", verb]
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False, timeout=120)


@dataclass
class Running:
    """A server that is ready. `lines` are those of its log that nobody took yet."""

    process: subprocess.Popen[bytes]
    lines: queue.Queue[dict[str, Any] | None] = field(default_factory=queue.Queue)
    port: int = 0

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def send(self, raw: bytes) -> bytes:
        """Everything that comes back for these bytes until the server closes, after nothing more is sent."""
        with self.socket() as client:
            with suppress(OSError):  # it may be refused before all of it is sent
                client.sendall(raw)
                client.shutdown(socket.SHUT_WR)
            return received(client)

    def get(self, path: str) -> tuple[int, Any]:
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = {}) -> tuple[int, Any]:
        """(status, the JSON of the answer, or its text)."""
        lines = [f"{method} {path} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        status, _, answer = parsed(self.send("\r\n".join([*lines, "\r\n"]).encode() + body))
        return status, answer

    def infer(self, x: Any, turns: int = 1, **more: Any) -> tuple[int, Any]:
        return self.ask("POST", INFER, request(x, turns, **more))

    def gauge(self, name: str) -> float:
        _, text = self.get("/metrics")
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))

    def wait_for(self, name: str, value: float) -> None:
        while self.gauge(name) != value:
            assert self.process.poll() is None

    def event(self) -> dict[str, Any]:
        """The next line of the log."""
        line = self.lines.get(timeout=120)
        assert line is not None, "the server has ended"
        return line


def received(client: socket.socket) -> bytes:
    """What comes until the server closes; a server that closes with unread bytes resets the connection."""
    chunks = []
    with suppress(ConnectionError):
        chunks.extend(iter(lambda: client.recv(65536), b""))
    return b"".join(chunks)


def request(x: Any, turns: int = 1, **more: Any) -> bytes:
    """The JSON of an inference request for the toy."""
    inputs = [
        {"name": "x", "datatype": "FP32", "shape": list(numpy.shape(x)), "data": x},
        {"name": "turns", "datatype": "INT64", "shape": [], "data": [turns]},
    ]
    return json.dumps({"inputs": inputs, **more}).encode()


def parsed(answer: bytes) -> tuple[int, dict[str, str], Any]:
    """(status, headers, body) of the first answer in what a server sent."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    is_json = headers["content-type"] == "application/json" and body
    return int(first.split()[1]), headers, json.loads(body) if is_json else body.decode(errors="replace")


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[Running]:
    """A server that is ready, on a port that the kernel chose; killed at the end unless it has ended."""
    environment = {**os.environ, "MOBUILD_MODEL": str(folder), "MOBUILD_HOST": "127.0.0.1", "MOBUILD_PORT": "0"}
    words = [sys.executable, "-m", "mobuild.runtime", "serve"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**environment, **variables}) as process:
        running = Running(process)

        def read() -> None:
            assert process.stdout
            for line in process.stdout:
                running.lines.put(json.loads(line))
            running.lines.put(None)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            ready = running.event()
            assert ready["event"] == "ready"
            running.port = ready["port"]
            yield running
        finally:
            process.kill()
            reader.join()
