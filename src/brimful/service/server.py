"""`brimful serve`: the database, the service and its REST API in one process."""

import contextlib
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..core.base.errors import BrimfulError, ConfigError
from ..core.base.formatting import parse_bytes
from ..core.memory.host import share_heap, trim_heap
from . import address, logs
from .api.app import create_app
from .dashboard.mount import mount
from .errors import Conflict
from .options import ServeOptions
from .security.policy import SecurityPolicy, is_loopback
from .service import Service

_LOG = logging.getLogger("brimful.service")
_MINUTE, _HOUR = 60.0, 3600.0
_AT_ONCE = 4  # questions that a page asks the database at once
_CONNECTIONS = 5  # seconds for requests under way, when the server stops


def serve(options: ServeOptions) -> None:
    """Runs until it is interrupted or terminated; running jobs checkpoint, and go on after the next start. A second
    signal ends it at once: jobs then go on from their last checkpoints.

    Raises:
        Conflict: another server uses the database.
        ConfigError: it cannot listen on that address.
    """
    logs.configure("json" if options.log_json else "auto")
    share_heap()
    with _listening(options) as listener, _quiet_signals():
        stopping = _Stopping()
        service = Service(options, lost=stopping.lost)
        try:
            service.start()
            app = _application(service, options)
            server = stopping.server = _Server(app)
            url = _url(options.host, listener)
            address.publish(service.state, url)
            _LOG.info("listening on %s; state in %s, database %s", url, service.state, service.database)
            _Retention(service, options.retain_days).start()
            _Preparation(service).start()
            _Trimming().start()
            server.run(sockets=[listener])
        finally:
            _LOG.info("stopping: running jobs write what they have")
            address.withdraw(service.state)
            service.stop()
            _LOG.info("stopped")
    if stopping.message:
        raise BrimfulError(stopping.message)


def _application(service: Service, options: ServeOptions) -> FastAPI:
    needed = options.require_token or not is_loopback(options.host)
    upload = parse_bytes(options.upload_limit) or 0
    policy = SecurityPolicy.for_host(options.host, require_token=needed, upload_bytes=upload)
    if options.new_token or (needed and not service.store.tokens.any()):
        token = service.create_token(["read", "write"], "made when the server started")
        print(f"token to read and write, shown this once: {token}", file=sys.stderr, flush=True)
    app = create_app(service, policy)
    mount(app, service, policy)
    return app


class _Stopping:
    """Why the server stops, where nobody asked it to."""

    def __init__(self) -> None:
        self.server: _Server | None = None
        self.message = ""

    def lost(self, message: str) -> None:
        self.message = message
        _LOG.critical("%s; this server stops", message)
        if self.server is not None:
            self.server.should_exit = True


class _Server(uvicorn.Server):
    """Ends the streams of events as soon as it is to stop: they would keep their connections open."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_CONNECTIONS,
                timeout_keep_alive=30,
            )
        )

    async def on_tick(self, counter: int) -> bool:
        ends = await super().on_tick(counter)
        if ends:
            self._app.state.feed.close()
        return ends


class _Preparation(threading.Thread):
    """Does once what the first page that someone opens would otherwise wait for."""

    def __init__(self, service: Service) -> None:
        super().__init__(name="brimful-preparation", daemon=True)
        self._service = service

    def run(self) -> None:
        try:
            self._service.store.pool.fill(_AT_ONCE)
            self._service.workloads()
        except Exception as error:  # it is then done when it is needed
            _LOG.debug("the first page was not prepared: %s", error)


class _Trimming(threading.Thread):
    """Hands freed memory back to the system every minute: what one request needed is then not kept for ever."""

    def __init__(self) -> None:
        super().__init__(name="brimful-trimming", daemon=True)

    def run(self) -> None:
        while True:
            time.sleep(_MINUTE)
            trim_heap()


class _Retention(threading.Thread):
    """Removes ended jobs after some days, and what is left of those that are gone, every hour."""

    def __init__(self, service: Service, days: float | None) -> None:
        super().__init__(name="brimful-retention", daemon=True)
        self._service, self._days = service, days

    def run(self) -> None:
        while True:
            try:
                if removed := self._service.prune(self._days):
                    _LOG.info("removed %d jobs that ended more than %g days ago", len(removed), self._days)
            except Conflict:  # it stops
                return
            except Exception as error:
                _LOG.warning("old jobs could not be removed: %s", error)
            time.sleep(_HOUR)


@contextlib.contextmanager
def _listening(options: ServeOptions) -> Iterator[socket.socket]:
    """The socket, taken before anything is started: two servers on one port are noticed at once."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((options.host.strip("[]"), options.port))
        listener.listen(2048)
        listener.set_inheritable(False)
        yield listener
    except OSError as error:
        raise ConfigError(
            f"it cannot listen on {options.host} port {options.port}: {error.strerror or error}. Choose another with "
            "--host and --port, or stop what listens there"
        ) from error
    finally:
        listener.close()


def _url(host: str, listener: socket.socket) -> str:
    name = host.strip("[]")
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


@contextlib.contextmanager
def _quiet_signals() -> Iterator[None]:
    """The web server sends itself the signal that ended it once more: here that does nothing, so that jobs can end. A
    further one from outside ends the process."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
