"""The events of a job over connections that break: each next one goes on after the last event that was received.

What is decided is here, without a connection; the two clients only read bytes and wait.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import httpx

from ..errors import NotFound, ServiceError, Unavailable
from ..jobs.job import StoredEvent
from . import values
from .connection import TIMEOUT
from .requests import events_path
from .server_sent_events import MessageReader

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before connecting again, after the first failure in a row, the second, and so on."""

PATIENCE = 300.0
"""Seconds that a server may be away before a client gives up."""

SILENCE = 60.0
"""Seconds without a byte after which a connection is taken for dead: the server says something every 15."""


class EventStream:
    """What was received so far of one job's events.

    Attributes:
        after: the id of the last event.
        ended: nothing more will come: the job has ended, or all that there was has been read.
        job: the job at the end, as JSON values; None where the connection is still open.
    """

    def __init__(
        self,
        id: str,
        after: int = 0,
        patience: float | None = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._id, self._patience, self._clock = id, patience, clock
        self.after, self.ended = after, False
        self.job: dict[str, Any] | None = None
        self._reader, self._failures = MessageReader(), 0
        self._heard = clock()

    def request(self, follow: bool) -> dict[str, Any]:
        """A new connection: the arguments of httpx's `stream`."""
        self._reader = MessageReader()
        return {
            "method": "GET",
            "url": events_path(self._id),
            "params": {"follow": "true" if follow else "false"},
            "headers": {"accept": "text/event-stream", "last-event-id": str(self.after)},
            "timeout": httpx.Timeout(TIMEOUT, read=SILENCE),
        }

    def feed(self, portion: bytes) -> list[StoredEvent]:
        """The events that are complete with these bytes; none of them twice, whatever the connections were."""
        self._heard, events = self._clock(), []
        for message in self._reader.feed(portion):
            data = json.loads(message.data)
            if message.event == "end":
                self.ended, self.job = True, data
                if data["state"] == "deleted":
                    raise NotFound(f"the job {self._id} was deleted while its events were read")
            elif (event := values.event(data)).id > self.after:
                self.after, self._failures = event.id, 0
                events.append(event)
        return events

    def lost(self, error: Exception) -> float:
        """The connection broke, or was refused for now: how many seconds to wait before the next one.

        Raises:
            Unavailable: the server has been away for too long.
        """
        if isinstance(error, ServiceError) and not isinstance(error, Unavailable):
            raise error
        away = self._clock() - self._heard
        if self._patience is not None and away > self._patience:
            raise Unavailable(
                f"the server has not answered for {away:.0f} s: {error}. The job {self._id} goes on by itself wherever "
                "the server runs again; watch it then"
            ) from error
        self._failures += 1
        return PAUSES[min(self._failures, len(PAUSES)) - 1]
