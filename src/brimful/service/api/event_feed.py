"""When a job has new events: one look at the database for all who wait, however many there are."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio.to_thread

from ...core.base.errors import BrimfulError
from ..errors import NotFound
from ..service import Service

INTERVAL = 0.25
"""Seconds between two looks."""


@dataclass(slots=True)
class _Watched:
    latest: int | None = None
    readers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class EventFeed:
    """Wakes readers of a job's events when there are new ones. It belongs to one event loop.

    Attributes:
        closing: whether the server stops: every reader ends.
    """

    def __init__(self, service: Service, interval: float = INTERVAL) -> None:
        self._service, self._interval = service, interval
        self._watched: dict[str, _Watched] = {}
        self._task: asyncio.Task[None] | None = None
        self.closing = False

    @property
    def readers(self) -> int:
        return sum(watched.readers for watched in self._watched.values())

    @contextlib.contextmanager
    def reading(self, id: str) -> Iterator[None]:
        """While a reader waits for events of a job, now and then."""
        watched = self._watched.setdefault(id, _Watched())
        watched.readers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())
        try:
            yield
        finally:
            watched.readers -= 1
            if not watched.readers:
                del self._watched[id]

    async def wait(self, id: str, after: int, seconds: float) -> bool:
        """Waits until there is an event later than `after`, or the job is gone: True; or for so many seconds: False."""
        watched = self._watched[id]
        ends = asyncio.get_running_loop().time() + seconds
        while not self.closing and (watched.latest is None or watched.latest <= after):
            changed = watched.changed
            try:
                async with asyncio.timeout_at(ends):
                    await changed.wait()
            except TimeoutError:
                return False
        return True

    def close(self) -> None:
        """Ends every reader."""
        self.closing = True
        for watched in self._watched.values():
            watched.changed.set()

    async def _look(self) -> None:
        while self._watched and not self.closing:
            ids = list(self._watched)
            latest = await anyio.to_thread.run_sync(self._latest, ids)
            for id, number in latest.items():
                watched = self._watched.get(id)
                if watched is not None and watched.latest != number:
                    watched.latest = number
                    watched.changed.set()
                    watched.changed = asyncio.Event()
            await asyncio.sleep(self._interval)

    def _latest(self, ids: list[str]) -> dict[str, int]:
        latest = {}
        for id in ids:
            try:
                latest[id] = self._service.latest_event(id)
            except NotFound:
                latest[id] = 2**62  # its readers look, and see that it is gone
            except BrimfulError:
                break  # the database is away; the next look may find it again
        return latest
