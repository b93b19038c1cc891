"""The server of an image beside the bare engine: start, memory, latency for one client, and many clients at once.

    python tests/benchmarks/serving.py [SECONDS]

One image of 3×224×224 in float32 a request, as raw bytes, against ONNX Runtime on one thread. SECONDS is how long 32
clients ask; status 1 when they got other answers than 200 and 429.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy
from measures import Row, show
from onnx import TensorProto, helper, numpy_helper, save_model

from mobuild.runtime import model
from mobuild.runtime.model import Model
from mobuild.runtime.opening import open_model
from mobuild.runtime.runner import Tensor
from mobuild.runtime.server.protocol import HEADER_LENGTH
from tests.runtime.servers import Running, serving

CLIENTS, ROUNDS, STARTS = 32, 300, 7
X = numpy.random.default_rng(0).random((1, 3, 224, 224), numpy.float32)
DESCRIBED = Model(
    name="pool",
    version="1",
    runtime="onnxruntime",
    engine="engine.onnx",
    inputs=(Tensor("x", "float32", ("batch", 3, 224, 224)),),
    outputs=(Tensor("y", "float32", ("batch", 8, 1, 1)),),
    options={"threads": 1},
)


def main(seconds: float) -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = model_folder(Path(place))
        bare = _bare(folder)
        starts = [_start(folder) for _ in range(STARTS)]
        floors = [_import() for _ in range(STARTS)]
        with serving(folder) as server:
            _silence(server)
            with Client(server) as client:
                one = statistics.median(_timed(client.ask) for _ in range(ROUNDS))
            first = server.gauge("process_resident_memory_bytes")
            _crowd(server, 0.2 * seconds)
            warm = server.gauge("process_resident_memory_bytes")
            statuses = _crowd(server, seconds)
            last = server.gauge("process_resident_memory_bytes")
    show(
        [
            Row("start to ready, beside importing numpy and onnxruntime", min(starts), "s", min(floors), "0.4"),
            Row("the same, medians", statistics.median(starts), "s", statistics.median(floors)),
            Row("p50 of one client, beside the bare engine", one * 1e3, "ms", bare * 1e3),
            Row("of that, added", (one - bare) * 1e3, "ms", None, "2 ms"),
            Row("resident memory after that", first / 1e6, "MB", None, "70 MB"),
            Row(f"{CLIENTS} clients: answers", statuses[200] / seconds, "1/s"),
            Row(f"{CLIENTS} clients: refused with 429", statuses[429], ""),
            Row(
                f"{CLIENTS} clients: other answers",
                sum(statuses.values()) - statuses[200] - statuses[429],
                "",
                None,
                "0",
            ),
            Row("resident memory after them, beside a fifth of the time", last / 1e6, "MB", warm / 1e6, "1.0"),
        ]
    )
    return 0 if set(statuses) <= {200, 429} else 1


def model_folder(folder: Path) -> Path:
    """A convolution and a mean over the image."""
    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(numpy.ones((8, 3, 4, 4), numpy.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[4, 4]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    inputs = [value("x", TensorProto.FLOAT, ["batch", 3, 224, 224])]
    graph = helper.make_graph(nodes, "pool", inputs, [value("y", TensorProto.FLOAT, ["batch", 8, 1, 1])], [weights])
    save_model(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "engine.onnx"
    )
    model.write(folder, DESCRIBED)
    return folder


class Client:
    """A connection that stays open and asks the same again and again."""

    def __init__(self, server: Running) -> None:
        told = {"name": "x", "datatype": "FP32", "shape": list(X.shape), "parameters": {"binary_data_size": X.nbytes}}
        head = json.dumps({"inputs": [told], "parameters": {"binary_data_output": True}}).encode()
        lines = f"POST /v2/models/pool/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(head) + X.nbytes}\r\n"
        self._request = lines.encode() + f"{HEADER_LENGTH}: {len(head)}\r\n\r\n".encode() + head + X.tobytes()
        self._socket = server.socket()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self) -> int:
        """The status of one answer, which is read to its end."""
        self._socket.sendall(self._request)
        answer = self._socket.recv(65536)
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._socket.recv(65536)
        length = int(answer.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        while len(answer) < end + 4 + length:
            answer += self._socket.recv(65536)
        return int(answer[9:12])


def _bare(folder: Path) -> float:
    """Median seconds of the engine alone, in this process."""
    engine = open_model(folder, DESCRIBED)[0]
    engine.run({"x": X})
    return statistics.median(_timed(lambda: engine.run({"x": X})) for _ in range(ROUNDS))


def _start(folder: Path) -> float:
    """Seconds from starting the process to its first answer that it is ready."""
    begun = time.perf_counter()
    with serving(folder) as server:
        assert server.get("/v2/health/ready")[0] == 200
        return time.perf_counter() - begun


def _import() -> float:
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    words = [sys.executable, "-c", "import numpy, onnxruntime"]
    return _timed(lambda: subprocess.run(words, check=True, env=environment))


def _crowd(server: Running, seconds: float) -> Counter[int]:
    """The statuses that many clients got in that time."""
    statuses: Counter[int] = Counter()
    end = time.perf_counter() + seconds

    def ask() -> None:
        own: Counter[int] = Counter()
        with Client(server) as client:
            while time.perf_counter() < end:
                try:
                    own[client.ask()] += 1
                except (OSError, ValueError):
                    own[0] += 1  # no answer at all
                    break
        statuses.update(own)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def _silence(server: Running) -> None:
    """Throw the server's log away as it comes."""

    def take() -> None:
        while server.lines.get() is not None:
            pass

    threading.Thread(target=take, daemon=True).start()


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 5))
