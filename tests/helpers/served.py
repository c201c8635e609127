"""An application behind a real server, in a thread of the tests."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from .stopping import wait_for


class Served:
    """A server that can be stopped and started again at the same address.

    Attributes:
        app: the application.
        url: of the server.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        config = uvicorn.Config(
            self.app, port=self._port, log_config=None, lifespan="off", timeout_graceful_shutdown=0, ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        wait_for(lambda: self._server and self._server.started)

    def stop(self) -> None:
        """Every connection breaks."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join()
        self._server = self._thread = None


@contextlib.contextmanager
def serving(app: Any) -> Iterator[Served]:
    served = Served(app)
    served.start()
    try:
        yield served
    finally:
        served.stop()
