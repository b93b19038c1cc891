"""Listens, gives each client a thread, and ends in good order.

The port is open before the engine is, so that a probe sees a live server that is not ready yet. After SIGTERM nothing
new is run, what runs or waits is finished, and the process ends with status 0; with 1 when the grace was too short.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import closing
from typing import Callable

from ..errors import EngineError
from ..model import Model
from .admission import Admission
from .application import Application
from .http import Connection, Refused, Request, Response
from .log import Log
from .metrics import Metrics
from .routes import UNLIMITED, Routes, State
from .settings import Settings

_OPENED = 0  # what the opening thread writes where signals write their numbers
_RESERVE = 16  # clients beyond the limit of connections that may ask for health and metrics
_RESERVE_SECONDS = 1.0  # in which one of those has to ask
_PAUSE_SECONDS = 0.05  # when the process has no file descriptors left


class Server:
    """One model behind one port. `open_engines` is called in a thread of its own, while the port is already open; it
    gives the application as well, where one rides along."""

    def __init__(
        self, settings: Settings, model: Model, open_engines: Callable[[], tuple[Admission, Application | None]]
    ) -> None:
        self._settings, self._open_engines, self._log = settings, open_engines, Log()
        self._metrics, self._busy = Metrics(), 0
        self._idle = threading.Condition()
        self._places = threading.BoundedSemaphore(settings.connections)
        self._reserve = threading.BoundedSemaphore(_RESERVE)
        self._clients = 0
        self._routes = Routes(model, self._metrics, lambda: self._clients)
        self._fault: EngineError | None = None

    def run(self) -> int:
        """Serve until a signal comes; an exit status.

        Raises:
            EngineError: the port cannot be had, or the engine cannot be opened.
        """
        begun = time.perf_counter()
        events, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # process 1 of a container has no handlers of its own
        signal.set_wakeup_fd(wakeup)
        listener = _listen(self._settings)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        threading.Thread(target=self._open, args=(wakeup,), daemon=True).start()
        event = os.read(events, 1)[0]
        if event == _OPENED:
            if self._fault:
                raise self._fault
            seconds = round(time.perf_counter() - begun, 3)
            self._log.event("ready", host=self._settings.host, port=listener.getsockname()[1], seconds=seconds)
            event = os.read(events, 1)[0]
        return self._end(event)

    def _open(self, wakeup: int) -> None:
        try:
            self._routes.open(*self._open_engines())
        except EngineError as error:
            self._fault = error
        except Exception as error:  # noqa: BLE001 - said by the main thread
            self._fault = EngineError(f"the engine cannot be opened: {type(error).__name__}: {error}")
        os.write(wakeup, bytes([_OPENED]))

    def _end(self, number: int) -> int:
        """Wait for what runs; where a thread may still be in native code, leave without tidying up."""
        was_ready = self._routes.state is State.READY
        self._routes.state = State.ENDING
        self._log.event("ending", signal=signal.Signals(number).name)
        with self._idle:
            is_done = self._idle.wait_for(lambda: not self._busy, self._settings.grace_seconds)
        self._log.event("ended", unfinished=self._busy)
        if not (is_done and was_ready):
            os._exit(0 if is_done else 1)
        return 0

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                time.sleep(_PAUSE_SECONDS)
                continue
            if self._places.acquire(blocking=False):
                self._start(self._attend, client, self._places)
            elif self._reserve.acquire(blocking=False):
                self._start(self._attend_beyond, client, self._reserve)
            else:
                self._turn_away(client)

    def _start(
        self, attend: Callable[[socket.socket], None], client: socket.socket, places: threading.BoundedSemaphore
    ) -> None:
        """Give the client a thread; its place is free again when that ends."""

        def run() -> None:
            try:
                with closing(client):
                    attend(client)
            except OSError:
                return  # the client has gone
            finally:
                places.release()

        try:
            threading.Thread(target=run, daemon=True).start()
        except RuntimeError:  # the system has no threads left
            places.release()
            client.close()

    def _attend_beyond(self, client: socket.socket) -> None:
        """One request of a client beyond the limit: probes see what is so, all others that there is no place."""
        begun = time.perf_counter()
        connection = Connection(client, 0, _RESERVE_SECONDS, _RESERVE_SECONDS)
        try:
            request = connection.head()
        except Refused:
            request = None
        if request and self._routes.name(request.path) in UNLIMITED:
            response, is_read = self._respond(connection, request)
        else:
            response, is_read = self._beyond(), False
        self._finish(connection, request, response, False, begun)
        if not is_read:
            connection.linger()

    def _turn_away(self, client: socket.socket) -> None:
        """Not even the reserve has a place: say so without waiting for what this one wants."""
        with closing(client):
            try:
                self._finish(Connection(client, 0, 0.1), None, self._beyond(), False, time.perf_counter())
            except OSError:
                return

    def _beyond(self) -> Response:
        self._metrics.turned_away()
        message = f"{self._settings.connections} clients are connected, more are not served: MOBUILD_CONNECTIONS"
        return Response.refusing(Refused(503, message, {"Retry-After": "1"}))

    def _attend(self, client: socket.socket) -> None:
        """All requests of one client, in their order."""
        settings = self._settings
        self._count(1)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(client, int(settings.max_request_mb * 1e6), settings.read_seconds)
            while self._exchange(connection):
                pass
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._idle:
            self._clients += change

    def _exchange(self, connection: Connection) -> bool:
        """One request and its answer; whether the connection stays."""
        try:
            request = connection.head()
        except Refused as refused:
            self._finish(connection, None, Response.refusing(refused), False, time.perf_counter())
            connection.linger()
            return False
        if request is None:
            return False
        begun = time.perf_counter()
        with self._idle:
            self._busy += 1
        try:
            response, is_read = self._respond(connection, request)
            stays = is_read and request.keeps_alive and self._routes.state is not State.ENDING
            self._finish(connection, request, response, stays, begun)
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()
        if not is_read:
            connection.linger()
        return stays

    def _respond(self, connection: Connection, request: Request) -> tuple[Response, bool]:
        """(the answer, whether the body was read, so that another request can follow)."""
        is_read = False
        try:
            body = connection.body(request)
            is_read = True
            return self._routes.answer(request, body), True
        except Refused as refused:
            return Response.refusing(refused), is_read
        except (Exception, SystemExit) as fault:  # whatever one request does, the others are served
            if isinstance(fault, OSError) and not is_read:
                raise  # the client has gone
            traceback.print_exc(file=sys.stderr)
            words = "there is not enough memory for this request" if isinstance(fault, MemoryError) else "a fault here"
            return Response.refusing(Refused(500, f"{words}: see the standard error of the server")), is_read

    def _finish(
        self, connection: Connection, request: Request | None, response: Response, stays: bool, begun: float
    ) -> None:
        """Send the answer, then note it; also where the client has gone."""
        try:
            connection.answer(response, request, stays)
        finally:
            seconds = time.perf_counter() - begun
            method, path = (request.method, request.path) if request else ("-", "-")
            length = request.length if request else 0
            self._metrics.answered(self._routes.name(path), response.status, seconds)
            self._log.request(method, path, response.status, seconds, length, response.size_bytes)


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    is_any = settings.host == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=128, dualstack_ipv6=is_any)
    except OSError as error:
        raise EngineError(
            f"cannot listen at {settings.host}, port {settings.port}: {error.strerror or error}",
            "MOBUILD_HOST and MOBUILD_PORT choose another place",
        ) from error
