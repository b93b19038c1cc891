"""Code of the user's that rides along with a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.servers import Running, command, model_folder, serving

SERVING = """\
import numpy


def answer(run, body, content_type):
    if content_type == "odd/one":
        return {"bytes": 1}["text"]
    if content_type == "odd/file":
        open("/nowhere")
    if content_type == "odd/end":
        raise SystemExit("usage")
    if content_type == "odd/number":
        return {"score": numpy.float32("nan")}
    if not body:
        raise ValueError("send numbers, one line a sample")
    x = numpy.float32([[float(word) for word in line.split()] for line in body.decode().splitlines()])
    outputs = run({"x": x, "turns": numpy.array(1, numpy.int64)})
    if content_type == "as/bytes":
        return outputs["y"].tobytes()
    if content_type == "as/text":
        return "large" if outputs["is_large"].any() else "small"
    return {"sums": outputs["y"].sum(axis=1), "first": outputs["y"][0, 0]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("application")
    (root / "serving.py").write_text(SERVING)
    return model_folder(root / "model")


def variables(folder: Path, app: str = "serving:answer") -> dict[str, str]:
    path = os.pathsep.join([str(folder.parent), os.environ.get("PYTHONPATH", "")])
    return {"MOBUILD_APP": app, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with serving(folder, **variables(folder)) as running:
        yield running


@pytest.mark.parametrize(
    ("content_type", "answer"),
    [
        ("text/plain", {"sums": [12.0, 30.0], "first": 2.0}),
        ("as/text", "large"),
    ],
)
def test_it_takes_a_body_runs_the_engine_and_answers(server: Running, content_type: str, answer: Any) -> None:
    assert server.ask("POST", "/app", b"1 2 3\n4 5 6", {"Content-Type": content_type}) == (200, answer)


def test_bytes_are_given_as_they_are(server: Running) -> None:
    request = b"POST /app HTTP/1.1\r\nHost: here\r\nContent-Type: as/bytes\r\nContent-Length: 5\r\n\r\n1 2 3"

    assert server.send(request).endswith(b"\r\n\r\n\0\0\0\x40\0\0\x80\x40\0\0\xc0\x40")


def test_what_it_does_not_take_is_the_clients_fault_and_what_it_cannot_is_not(server: Running) -> None:
    assert server.ask("POST", "/app") == (400, {"error": "send numbers, one line a sample"})
    for odd in ("one", "file", "end"):
        status, told = server.ask("POST", "/app", b"1 2 3", {"Content-Type": f"odd/{odd}"})
        assert (status, told) == (500, {"error": "a fault here: see the standard error of the server"})
    status, told = server.ask("POST", "/app", b"1 2 3", {"Content-Type": "odd/number"})
    assert status == 500 and "the application answers with what JSON does not have: " in told["error"]
    assert server.get("/app")[0] == 405
    assert server.infer([[1, 2, 3]])[0] == 200


def test_sizes_that_the_engine_was_not_built_for_are_refused_as_inference_is(server: Running) -> None:
    status, told = server.ask("POST", "/app", b"1 2 3\n" * 9)

    assert (status, told) == server.infer([[1, 2, 3]] * 9)
    assert (status, told["error"]) == (400, "input 'x', axis 0 ('batch'): expected 1 to 8, found 9")


def test_its_answers_are_in_the_times_of_inference(server: Running) -> None:
    before = server.gauge("mobuild_inference_seconds_count")

    server.ask("POST", "/app", b"1 2 3")

    assert server.gauge("mobuild_inference_seconds_count") == before + 1


def test_without_one_there_is_no_such_path(folder: Path) -> None:
    with serving(folder) as running:
        assert running.ask("POST", "/app", b"1")[0] == 404


@pytest.mark.parametrize(
    ("app", "why"),
    [
        ("nowhere:answer", "ModuleNotFoundError: No module named 'nowhere'"),
        ("serving:absent", "AttributeError: module 'serving' has no attribute 'absent'"),
        ("serving:numpy", "is no function"),
    ],
)
def test_the_self_test_fails_where_it_cannot_be_loaded(folder: Path, app: str, why: str) -> None:
    assert command("selftest", folder, **variables(folder)).returncode == 0

    done = command("selftest", folder, **variables(folder, app))

    assert done.returncode == 1
    assert f"the application {app!r}" in done.stderr
    assert why in done.stderr
