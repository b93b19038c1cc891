"""The server of an image under load and at its end: its queue, its limits, the requests that a signal finds."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from tests.runtime.servers import GET, INFER, POST, Running, command, model_folder, parsed, request, serving

LONG = 1_000_000  # turns of the toy's loop: a second or more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("image") / "model")


class Asking(threading.Thread):
    """An inference in the background, its answer in `status` once it is joined."""

    def __init__(self, server: Running, turns: int) -> None:
        super().__init__()
        self._server, self._turns, self.status = server, turns, 0
        self.start()

    def run(self) -> None:
        self.status, _ = self._server.infer([[1, 2, 3]], turns=self._turns)


def test_what_the_queue_has_no_place_for_is_refused(folder: Path) -> None:
    with serving(folder, MOBUILD_QUEUE="1") as server:
        runs = Asking(server, LONG)
        server.wait_for("mobuild_in_flight", 1)
        waits = Asking(server, 1)
        server.wait_for("mobuild_queue_depth", 1)

        body = request([[1, 2, 3]])
        status, headers, answer = parsed(server.send(f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body))

        assert (status, headers["retry-after"]) == (429, "1")
        assert answer == {"error": "all engines are busy and the queue is full: try again later"}
        for each in (runs, waits):
            each.join()
        assert (runs.status, waits.status) == (200, 200)
        assert server.infer([[1, 2, 3]])[0] == 200


def test_engines_run_at_once_up_to_the_limit(folder: Path) -> None:
    with serving(folder, MOBUILD_CONCURRENCY="2") as server:
        asked = [Asking(server, LONG) for _ in range(3)]
        server.wait_for("mobuild_in_flight", 2)
        server.wait_for("mobuild_queue_depth", 1)

        for each in asked:
            each.join()
        assert [each.status for each in asked] == [200, 200, 200]


def test_more_clients_than_there_are_places_are_turned_away(folder: Path) -> None:
    with serving(folder, MOBUILD_CONNECTIONS="1") as server:
        with server.socket() as first:
            first.sendall(GET.encode() + b"\r\n")
            assert first.recv(65536).startswith(b"HTTP/1.1 200 ")

            with server.socket() as second:
                assert b"1 clients are connected, more are not served" in second.recv(65536)
        while b"HTTP/1.1 200 " not in server.send(GET.encode() + b"\r\n"):  # its place is free a moment later
            pass


def test_probes_and_metrics_are_answered_when_all_places_are_taken(folder: Path) -> None:
    with serving(folder, MOBUILD_CONNECTIONS="1") as server, server.socket() as first:
        first.sendall(GET.encode() + b"\r\n")
        assert first.recv(65536).startswith(b"HTTP/1.1 200 ")

        assert server.infer([[1, 2, 3]])[0] == 503

        assert server.get("/v2/health/live")[0] == server.get("/v2/health/ready")[0] == 200
        assert server.gauge("mobuild_turned_away_total") == 1
        place = {"MOBUILD_HOST": "127.0.0.1", "MOBUILD_PORT": str(server.port)}
        assert command("healthcheck", folder, **place).returncode == 0
        assert next(line["status"] for line in iter(server.event, None) if line["path"] == INFER) == 503


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_and_waits_finish(folder: Path, number: signal.Signals) -> None:
    with serving(folder, MOBUILD_GRACE_SECONDS="100") as server:
        runs = Asking(server, LONG)
        server.wait_for("mobuild_in_flight", 1)
        waits = Asking(server, LONG)
        server.wait_for("mobuild_queue_depth", 1)

        server.process.send_signal(number)
        while (answer := server.get("/v2/health/ready"))[0] == 200:
            pass
        refused = server.infer([[1, 2, 3]])
        live = server.get("/v2/health/live")
        for each in (runs, waits):
            each.join()

        assert answer == (503, {"error": "the server is shutting down"}) == refused
        assert live == (200, {"live": True})
        assert (runs.status, waits.status) == (200, 200)
        assert server.process.wait(60) == 0


def test_what_outlasts_the_grace_is_cut_off(folder: Path) -> None:
    with serving(folder, MOBUILD_GRACE_SECONDS="0") as server, server.socket() as client:
        body = request([[1, 2, 3]], turns=1 << 40)
        client.sendall(f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        server.wait_for("mobuild_in_flight", 1)

        server.process.terminate()

        assert server.process.wait(60) == 1
        assert client.recv(1) == b""


def test_an_idle_client_does_not_keep_the_server(folder: Path) -> None:
    with serving(folder) as server, server.socket() as client:
        client.sendall(GET.encode() + b"\r\n")
        client.recv(65536)

        server.process.terminate()

        assert server.process.wait(60) == 0
