"""Clients of the dashboard's websocket that behave as a page in a browser does, without the browser."""

import json
import re
import threading
import uuid
from urllib.parse import urlencode

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

_CLIENT = re.compile(r"'client_id': '([0-9a-f-]+)'")
_ACK_EVERY = 20  # messages


class PageClient:
    """Reads a page, joins its websocket, answers every ping, and says which messages it has, until it is closed.

    Attributes:
        pings, messages: how many came.
        ended: why the connection ended; None while it is open.
    """

    def __init__(self, url: str, path: str = "/") -> None:
        found = _CLIENT.search(httpx.get(url + path, timeout=100).text)
        assert found, "the page names no client"
        self.pings = self.messages = 0
        self.ended: str | None = None
        self._client, self._closing, self._joined = found[1], False, threading.Event()
        query = {"client_id": self._client, "document_id": uuid.uuid4(), "tab_id": uuid.uuid4(), "next_message_id": 0}
        query |= {"implicit_handshake": "true", "EIO": 4, "transport": "websocket"}
        address = f"{url.replace('http', 'ws', 1)}/_nicegui_ws/socket.io/?{urlencode(query)}"
        self._socket = connect(address, origin=url, ping_interval=None, max_size=None, open_timeout=100)  # pyright: ignore
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self._joined.wait(100), "the server did not take the client in"

    def _read(self) -> None:
        try:
            for message in self._socket:
                self._answer(str(message))
        except ConnectionClosed as error:
            self.ended = str(error)
        else:
            self.ended = "closed"

    def _answer(self, message: str) -> None:
        if message.startswith("0"):  # the transport is open: join the namespace of pages
            self._socket.send("40")
        elif message.startswith("40"):
            self._joined.set()
        elif message == "2":
            self.pings += 1
            self._socket.send("3")
        elif message.startswith("42"):
            self.messages += 1
            if self.messages % _ACK_EVERY == 0:
                last = json.loads(message[2:])[1].get("_id", 0)
                self._socket.send("42" + json.dumps(["ack", {"client_id": self._client, "next_message_id": last + 1}]))

    @property
    def open(self) -> bool:
        return self.ended is None

    def close(self) -> None:
        self._socket.close()
        self._thread.join(10)
