"""The server of an image, spoken to over loopback as clients, probes and orchestrators do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests.runtime.servers import GET, INFER, POST, Running, command, model_folder, parsed, received, request, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("image") / "model")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with serving(folder, MOBUILD_MAX_REQUEST_MB="1", MOBUILD_READ_SECONDS="2") as running:
        yield running


def test_the_protocols_paths_answer(server: Running) -> None:
    metadata = {
        "name": "toy",
        "versions": ["3"],
        "platform": "onnxruntime",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "turns", "datatype": "INT64", "shape": []},
        ],
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "is_large", "datatype": "BOOL", "shape": [-1, 3]},
        ],
    }

    assert server.get("/v2") == (200, {"name": "mobuild", "version": "1", "extensions": ["binary_tensor_data"]})
    assert server.get("/v2/health/live") == (200, {"live": True})
    assert server.get("/v2/health/ready?verbose") == (200, {"ready": True})
    assert server.get("/v2/models/toy") == (200, metadata) == server.get("/v2/models/toy/versions/3")
    assert server.get("/v2/models/toy/ready") == (200, {"name": "toy", "ready": True})
    assert server.get("/v2/models/toy/versions/3/ready") == (200, {"name": "toy", "ready": True})


def test_inference_in_json(server: Running) -> None:
    status, answer = server.infer([[1, 2, 30]], id="42")

    assert status == 200
    assert answer == {
        "model_name": "toy",
        "model_version": "3",
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [1, 3], "data": [2.0, 4.0, 60.0]},
            {"name": "is_large", "datatype": "BOOL", "shape": [1, 3], "data": [False, False, True]},
        ],
        "id": "42",
    }


def test_inference_with_raw_tensors_of_a_chosen_output(server: Running) -> None:
    x = numpy.float32([[1, 2, 30], [4, 5, 6]])
    inputs = [
        {"name": "turns", "datatype": "INT64", "shape": [], "data": [1]},
        {"name": "x", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": 24}},
    ]
    outputs = [{"name": "is_large", "parameters": {"binary_data": False}}, {"name": "y"}]
    document = {"inputs": inputs, "outputs": outputs, "parameters": {"binary_data_output": True}}
    head = json.dumps(document).encode()
    lines = f"POST {INFER} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(head) + 24}\r\n"
    lines += f"Inference-Header-Content-Length: {len(head)}\r\n\r\n"

    _, headers, _ = parsed(answer := server.send(lines.encode() + head + x.tobytes()))

    end = int(headers["inference-header-content-length"])
    body = answer.partition(b"\r\n\r\n")[2]
    told = {output["name"]: output for output in json.loads(body[:end])["outputs"]}
    assert headers["content-type"] == "application/octet-stream"
    assert told["is_large"]["data"] == [False, False, True, False, False, True]
    assert told["y"]["parameters"] == {"binary_data_size": 24} and "data" not in told["y"]
    assert body[end:] == (2 * x).tobytes()


def test_tritonclient_works_unchanged(server: Running) -> None:
    from tritonclient import http

    client = http.InferenceServerClient(f"127.0.0.1:{server.port}")
    x, turns = http.InferInput("x", [2, 3], "FP32"), http.InferInput("turns", [], "INT64")
    x.set_data_from_numpy(numpy.full((2, 3), 7, numpy.float32))
    turns.set_data_from_numpy(numpy.array(1), binary_data=False)
    wanted = [http.InferRequestedOutput("y"), http.InferRequestedOutput("is_large", binary_data=False)]

    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("toy", "3")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert client.get_model_metadata("toy")["inputs"][0]["shape"] == [-1, 3]
    answer = client.infer("toy", [x, turns], outputs=wanted, request_id="a")
    assert answer.get_response()["id"] == "a"
    assert (answer.as_numpy("y") == 14).all() and answer.as_numpy("is_large").all()
    assert (client.infer("toy", [x, turns]).as_numpy("y") == 14).all()
    with pytest.raises(http.InferenceServerException, match="expected 1 to 8, found 9"):
        large = http.InferInput("x", [9, 3], "FP32")
        large.set_data_from_numpy(numpy.zeros((9, 3), numpy.float32))
        client.infer("toy", [large, turns])
    client.close()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[0.0] * 3] * 9, "input 'x', axis 0 ('batch'): expected 1 to 8, found 9"),
        ([[0.0] * 4], "input 'x', axis 1: expected 3, found 4"),
        ([0.0] * 3, "input 'x': expected 2 axes (batch×3), found 1 (3)"),
    ],
)
def test_a_shape_that_the_engine_does_not_take_names_axis_and_range(server: Running, x: Any, message: str) -> None:
    assert server.infer(x) == (400, {"error": message})


@pytest.mark.parametrize("path", ["/", "/v1", "/v2/models", "/v2/models/other/infer", "/v2/models/toy/versions/4"])
def test_an_unknown_path_is_not_found(server: Running, path: str) -> None:
    status, answer = server.get(path)

    assert status == 404 and answer["error"].startswith(
        f"there is nothing at {path!r}: this server has /v2/models/toy "
    )


@pytest.mark.parametrize(("method", "path"), [("GET", INFER), ("POST", "/v2"), ("DELETE", "/metrics"), ("PUT", INFER)])
def test_a_wrong_method_says_which_is_right(server: Running, method: str, path: str) -> None:
    raw = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode()

    status, headers, answer = parsed(server.send(raw))

    right = "POST" if path == INFER else "GET"
    assert (status, answer["error"]) == (405, f"{path}: expected {right}, found {method}")
    assert headers["allow"].split(", ")[0] == right


@pytest.mark.parametrize(
    ("raw", "status", "words"),
    [
        ("nonsense\r\n\r\n", 400, "the request line is not 'METHOD /path HTTP/1.1'"),
        ("GET /v2\r\n\r\n", 400, "the request line is not"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2.0 is not spoken here"),
        ("\x16\x03\x01\x02\r\n\r\n", 400, "the request line is not"),
        ("GET /v2 HTTP/1.1\r\n\r\n", 400, "the header Host is missing"),
        (GET + "no colon\r\n\r\n", 400, "a header is not 'Name: value'"),
        (GET + "A: b\r\n folded\r\n\r\n", 400, "a header is not 'Name: value'"),
        ("GET /v2 HTTP/1.1\n\r\nHost: a\r\n\r\n", 400, "the request line is not"),
        (GET + "A: b\n\r\nContent-Length: 1\r\n\r\nx", 400, "a header is not 'Name: value'"),
        (GET + "Space : b\r\n\r\n", 400, "a header is not 'Name: value'"),
        (GET + "Expect: tea\r\n\r\n", 417, "the header Expect may be 100-continue"),
        (GET + "A: " + "b" * 20000 + "\r\n\r\n", 431, "longer than 16384 bytes"),
        (POST + "\r\n", 411, "the header Content-Length is missing"),
        (POST + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 411, "chunked bodies are not taken"),
        (POST + "Content-Length: -1\r\n\r\n", 400, "expected a number of bytes, found '-1'"),
        (POST + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "content-length is there twice"),
        (POST + "Content-Length: 1000000000\r\n\r\n", 413, "1000000000 bytes, this server takes 1000000 at most"),
        (POST + "Content-Length: 1000000000\r\n\r\n" + "x" * 3000000, 413, "this server takes 1000000 at most"),
        (POST + "Content-Length: 9\r\n\r\n{}", 400, "the body ends after 2 of 9 bytes"),
        (POST + "Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}", 415, "compressed bodies are not taken"),
    ],
)
def test_bad_http_is_answered_with_json_and_the_server_stays(
    server: Running, raw: str, status: int, words: str
) -> None:
    found, headers, answer = parsed(server.send(raw.encode("latin-1")))

    assert (found, headers["content-type"]) == (status, "application/json")
    assert words in answer["error"]
    assert server.get("/v2/health/ready")[0] == 200


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n\r\n", b"POST /v2/mo", b"POST / HTTP/1.1\r\nHost: a\r\n"])
def test_a_client_that_goes_leaves_nothing_behind(server: Running, sent: bytes) -> None:
    assert server.send(sent) == b""
    server.wait_for("mobuild_connections", 1)


def test_a_client_that_sends_empty_lines_alone_is_left(server: Running) -> None:
    with server.socket() as client:
        with suppress(ConnectionError):
            client.sendall(b"\r\n" * 50_000)

        assert received(client) == b""


@pytest.mark.parametrize("sent", ["GET /v2 HTTP", POST + "Content-Length: 100\r\n\r\n{"])
def test_a_slow_client_is_told_that_time_is_over(server: Running, sent: str) -> None:
    with server.socket() as client:
        client.sendall(sent.encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    assert parsed(answer)[0] == 408 and parsed(answer)[2] == {"error": "the request did not come in time"}


def test_requests_sent_at_once_are_answered_in_order(server: Running) -> None:
    body = request([[1, 2, 3]], id="1st")
    head = f"{POST}Content-Length: {len(body)}\r\n\r\n".encode()

    answer = server.send(b"\r\n" + head + body + head + body.replace(b"1st", b"2nd") + GET.encode() + b"\r\n")

    first, second, live = (part.rpartition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK")[1:])
    assert (json.loads(first)["id"], json.loads(second)["id"], json.loads(live)) == ("1st", "2nd", {"live": True})


def test_connections_stay_or_end_as_the_client_asks(server: Running) -> None:
    def ends(head: str) -> bool:
        with server.socket() as client:
            client.sendall(head.encode())
            _, headers, _ = parsed(client.recv(65536))
            has_ended = headers["connection"] == "close"
            assert not has_ended or client.recv(1) == b""
            return has_ended

    assert not ends(GET + "\r\n")
    assert ends(GET + "Connection: close\r\n\r\n")
    assert ends("GET /v2 HTTP/1.0\r\n\r\n")
    assert not ends("GET /v2 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")


def test_head_has_the_length_and_no_body(server: Running) -> None:
    answer = server.send(b"HEAD /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")

    assert b"Content-Length: 14\r\n" in answer and answer.endswith(b"\r\n\r\n")


def test_a_client_may_wait_for_the_word_to_send(server: Running) -> None:
    body = request([[1, 2, 3]])
    with server.socket() as client:
        client.sendall(f"{POST}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        word = client.recv(65536)
        client.sendall(body)
        answer = client.recv(65536)

    assert word == b"HTTP/1.1 100 Continue\r\n\r\n" and answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_large_body_is_refused_before_it_is_sent(server: Running) -> None:
    with server.socket() as client:
        client.sendall(f"{POST}Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n".encode())

        assert client.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_every_answer_is_a_line_of_the_log(folder: Path) -> None:
    with serving(folder) as server:
        server.infer([[1, 2, 3]])
        server.send(b"x\r\n\r\n")
        lines = [server.event(), server.event()]

    assert [(line["method"], line["path"], line["status"]) for line in lines] == [("POST", INFER, 200), ("-", "-", 400)]
    assert sorted(lines[0]) == ["bytes_in", "bytes_out", "method", "milliseconds", "path", "status", "time"]
    assert lines[0]["bytes_in"] == len(request([[1, 2, 3]])) and lines[0]["milliseconds"] > 0


def test_a_log_that_nobody_reads_does_not_stop_the_server(folder: Path) -> None:
    read, write = os.pipe()
    environment = {**os.environ, "MOBUILD_MODEL": str(folder), "MOBUILD_HOST": "127.0.0.1", "MOBUILD_PORT": "0"}
    words = [os.sys.executable, "-m", "mobuild.runtime", "serve"]  # type: ignore[attr-defined]
    with subprocess.Popen(words, stdout=write, env=environment) as process:
        os.close(write)
        ready = json.loads(os.read(read, 65536))
        os.close(read)
        server = Running(process, port=ready["port"])

        assert [server.infer([[1, 2, 3]])[0] for _ in range(2)] == [200, 200]
        process.terminate()
        assert process.wait(60) == 0


def test_metrics_count_answers_and_time(folder: Path) -> None:
    with serving(folder) as server:
        server.infer([[1, 2, 3]])
        server.infer([[1, 2]])
        server.get("/nothing")
        status, text = server.get("/metrics")

        lines = text.splitlines()
        assert status == 200
        assert 'mobuild_requests_total{route="infer",status="200"} 1' in lines
        assert 'mobuild_requests_total{route="infer",status="400"} 1' in lines
        assert 'mobuild_requests_total{route="other",status="404"} 1' in lines
        assert 'mobuild_inference_seconds_bucket{le="+Inf"} 1' in lines and "mobuild_engine_seconds_count 1" in lines
        assert "mobuild_queue_depth 0" in lines and "mobuild_in_flight 0" in lines and "mobuild_ready 1" in lines
        assert server.gauge("process_resident_memory_bytes") > 10e6


def test_the_health_check_tells_ready_from_not(folder: Path, server: Running) -> None:
    good = command("healthcheck", folder, MOBUILD_PORT=str(server.port))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    bad = command("healthcheck", folder, MOBUILD_PORT=str(port))

    assert (good.returncode, good.stdout) == (0, '{"ready": true}\n')
    assert (bad.returncode, bad.stdout) == (1, "")
    assert f"no server answers at 127.0.0.1, port {port}: " in bad.stderr


def test_a_taken_port_is_named(folder: Path, server: Running) -> None:
    done = command("serve", folder, MOBUILD_HOST="127.0.0.1", MOBUILD_PORT=str(server.port))

    assert done.returncode == 1
    assert f"cannot listen at 127.0.0.1, port {server.port}: Address already in use" in done.stderr
