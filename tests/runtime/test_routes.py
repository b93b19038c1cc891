"""What the server answers when its engine fails, and who comes first when many wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import pytest

from mobuild.runtime.cuda import DeviceError
from mobuild.runtime.errors import EngineError
from mobuild.runtime.server.admission import Admission, Full
from mobuild.runtime.server.http import Refused, Request
from mobuild.runtime.server.metrics import Metrics
from mobuild.runtime.server.routes import Routes
from tests.runtime.servers import INFER, TOY, request


@dataclass
class Acting:
    """An engine whose runs do what is asked of them."""

    act: Callable[[], None]
    inputs = TOY.inputs
    outputs = TOY.outputs

    def run(self, feeds: Mapping[str, Any], profile: int | None = None) -> dict[str, Any]:
        self.act()
        return {"y": feeds["x"], "is_large": numpy.zeros((1, 3), bool)}


def failing(error: Exception) -> Routes:
    def act() -> None:
        raise error

    routes = Routes(TOY, Metrics(), lambda: 0)
    routes.open(Admission([Acting(act)], 1))
    return routes


def status(routes: Routes, method: str, path: str, body: bytes = b"") -> int:
    try:
        return routes.answer(Request(method, path, "1.1", {}, len(body)), bytearray(body)).status
    except Refused as refused:
        return refused.status


def test_a_run_that_fails_is_said_and_the_server_stays_ready() -> None:
    routes = failing(EngineError("index out of range"))

    with pytest.raises(Refused, match="index out of range") as caught:
        routes.answer(Request("POST", INFER, "1.1", {}, 1), bytearray(request([[1, 2, 3]])))

    assert caught.value.status == 500
    assert status(routes, "GET", "/v2/health/ready") == 200


def test_a_gpu_that_fails_asks_to_be_started_again() -> None:
    routes = failing(DeviceError("CUDA driver: cuCtxSynchronize returns 700 (an illegal memory access)"))

    statuses = [status(routes, "POST", INFER, request([[1, 2, 3]])) for _ in range(2)]

    assert statuses == [500, 503]
    assert [status(routes, "GET", f"/v2/health/{which}") for which in ("live", "ready")] == [503, 503]


def test_before_the_engine_is_open_the_server_lives_and_is_not_ready() -> None:
    routes = Routes(TOY, Metrics(), lambda: 0)

    paths = ["/v2/health/live", "/v2/models/toy", "/v2/health/ready", "/v2/models/toy/ready"]
    assert [status(routes, "GET", path) for path in paths] == [200, 200, 503, 503]
    assert status(routes, "POST", INFER, request([[1, 2, 3]])) == 503


def test_those_who_wait_come_in_their_order() -> None:
    admission, order, threads = Admission([Acting(lambda: None)], 3), [], []

    def come(number: int) -> None:
        with admission.engine():
            order.append(number)

    with admission.engine():
        for number in range(3):
            threads.append(threading.Thread(target=come, args=(number,)))
            threads[-1].start()
            while admission.waiting <= number:
                pass
        with pytest.raises(Full), admission.engine():
            pass
        assert (admission.running, admission.waiting) == (1, 3)
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2]
    assert (admission.running, admission.waiting) == (0, 0)


def test_an_engine_whose_run_fails_is_lent_again() -> None:
    admission = Admission([Acting(lambda: None)], 0)

    for _ in range(2):
        with pytest.raises(EngineError), admission.engine():
            raise EngineError("it fails")

    assert admission.running == 0
