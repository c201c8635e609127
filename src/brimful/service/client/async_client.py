"""`brimful.AsyncClient`: the methods of `Client`, to be awaited."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import httpx

from ...core.runs.events import Sink
from ..errors import ServiceError
from ..jobs.job import LARGEST_PAGE, PAGE_SIZE, Artifact, Job, JobPage, StoredEvent, Upload
from . import requests
from .connection import (
    TIMEOUT,
    arguments,
    checked,
    destination,
    pause_before_retry,
    server_url,
    settings,
    unreachable,
    whole_file,
)
from .event_stream import PATIENCE, EventStream
from .retention import ENDED, removable
from .values import Series, upload
from .watching import STATE, Display, recent, settled

T = TypeVar("T")


class AsyncClient:
    """A server, over its REST API: as `Client`, with the same methods, of one event loop.

    Example:
        >>> async def fit() -> None:
        ...     async with AsyncClient("http://127.0.0.1:8000") as client:
        ...         job = await client.submit("gp", "fit", {"synthetic": 1000})
        ...         async for event in client.events(job.id):
        ...             print(event.kind)
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, timeout: float = TIMEOUT) -> None:
        self.url = server_url(url)
        self._http = httpx.AsyncClient(**settings(self.url, token, timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def submit(
        self,
        workload: str | None = None,
        command: str | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        job_name: str | None = None,
        priority: int | None = None,
        budget: str | None = None,
        webhook: str | Mapping[str, Any] | None = None,
        cores: int | None = None,
    ) -> Job:
        body = requests.submission(workload, command, config, job_name, priority, budget, webhook, cores)
        return await self._send(requests.submit(body))

    async def plan(
        self,
        workload: str | None = None,
        command: str | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        budget: str | None = None,
    ) -> dict[str, Any]:
        return await self._send(requests.plan(requests.submission(workload, command, config, None, None, budget, None)))

    async def job(self, id: str) -> Job:
        return await self._send(requests.job(id))

    async def jobs(
        self,
        *,
        state: Sequence[str] = (),
        workload: str | None = None,
        text: str | None = None,
        sort: str = "-created",
        limit: int = PAGE_SIZE,
        cursor: str | None = None,
    ) -> JobPage:
        return await self._send(requests.jobs(state, workload, text, sort, limit, cursor))

    async def all_jobs(self, **filter: Any) -> AsyncIterator[Job]:
        cursor = None
        while True:
            page = await self.jobs(**{"limit": LARGEST_PAGE, **filter, "cursor": cursor})
            for job in page.jobs:
                yield job
            if (cursor := page.next) is None:
                return

    async def cancel(self, id: str) -> Job:
        return await self._send(requests.change(id, "cancel"))

    async def pause(self, id: str) -> Job:
        return await self._send(requests.change(id, "pause"))

    async def resume(self, id: str) -> Job:
        return await self._send(requests.change(id, "resume"))

    async def retry(self, id: str) -> Job:
        return await self._send(requests.change(id, "retry"))

    async def delete(self, id: str) -> None:
        await self._send(requests.delete(id))

    async def prune(self, days: float, state: Sequence[str] = ENDED, dry_run: bool = False) -> list[Job]:
        old = removable([job async for job in self.all_jobs(state=state)], days, time.time())
        if not dry_run:
            for job in old:
                await self.delete(job.id)
        return old

    async def metrics(
        self,
        id: str,
        names: Sequence[str] | None = None,
        points: int = 1000,
        first: int | None = None,
        last: int | None = None,
    ) -> Series:
        return await self._send(requests.metrics(id, names, points, first, last))

    async def events(
        self, id: str, after: int = 0, *, follow: bool = True, patience: float | None = PATIENCE
    ) -> AsyncIterator[StoredEvent]:
        stream = EventStream(id, after, patience)
        while not stream.ended:
            try:
                async with self._http.stream(**stream.request(follow)) as response:
                    if not response.is_success:
                        await response.aread()
                    async for portion in checked(response).aiter_bytes():
                        for event in stream.feed(portion):
                            yield event
                pause = 0.0 if stream.ended else stream.lost(EOFError("the connection was closed"))
            except (httpx.TransportError, ServiceError) as error:
                pause = stream.lost(error)
            await asyncio.sleep(pause)

    async def watch(self, id: str, progress: bool | Sink | None = None, *, patience: float | None = PATIENCE) -> Job:
        with contextlib.closing(Display.open(progress)) as display:
            after = 0
            for event in recent([event async for event in self.events(id, follow=False, patience=patience)]):
                display.show(event)
                after = event.id
            follow = not settled(await self.job(id))
            async for event in self.events(id, after, follow=follow, patience=patience):
                display.show(event)
                if follow and event.kind == STATE and settled(job := await self.job(id)):
                    return job
            return await self.job(id)

    async def log(self, id: str, after: int = 0, limit: int = 65_536) -> tuple[bytes, int]:
        return await self._send(requests.log(id, after, limit))

    async def artifacts(self, id: str) -> list[Artifact]:
        return await self._send(requests.artifacts(id))

    async def download(self, id: str, name: str, target: str | Path | None = None) -> Path:
        path = destination(name, target)
        try:
            async with self._http.stream("GET", requests.artifact_path(id, name)) as response:
                if not response.is_success:
                    await response.aread()
                with whole_file(checked(response), path) as file:
                    async for portion in response.aiter_bytes():
                        file.write(portion)
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        return path

    async def report(self, id: str) -> dict[str, Any]:
        return await self._send(requests.report(id))

    async def job_plan(self, id: str) -> dict[str, Any] | None:
        return await self._send(requests.job_plan(id))

    async def datasets(self) -> list[dict[str, Any]]:
        return await self._send(requests.datasets())

    async def dataset(self, name: str) -> dict[str, Any]:
        return await self._send(requests.dataset(name))

    async def import_dataset(self, name: str, upload: str, columns: Sequence[str] | None = None) -> Job:
        return await self._send(requests.import_dataset(name, upload, columns))

    async def verify_dataset(self, name: str) -> Job:
        return await self._send(requests.verify_dataset(name))

    async def delete_dataset(self, name: str) -> None:
        await self._send(requests.delete_dataset(name))

    async def upload(self, path: str | Path, name: str | None = None) -> Upload:
        source = Path(path)
        try:
            with source.open("rb") as file:
                response = await self._http.post(
                    requests.UPLOADS, params={"name": name or source.name}, content=_portions(file), timeout=None
                )
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        return upload(checked(response).json())

    async def uploads(self) -> list[Upload]:
        return await self._send(requests.uploads())

    async def delete_upload(self, id: str) -> None:
        await self._send(requests.delete_upload(id))

    async def devices(self) -> list[dict[str, Any]]:
        return await self._send(requests.devices())

    async def set_budget(self, budget: str | None) -> list[dict[str, Any]]:
        return await self._send(requests.set_budget(budget))

    async def workloads(self) -> list[dict[str, Any]]:
        return await self._send(requests.workloads())

    async def ready(self) -> dict[str, Any]:
        return await self._send(requests.ready())

    async def _send(self, request: requests.Request[T]) -> T:
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._http.request(**arguments(request))
            except httpx.TransportError as error:
                if (pause := pause_before_retry(request, attempt, error)) is None:
                    raise unreachable(self.url, error) from error
            else:
                if response.is_success or (pause := pause_before_retry(request, attempt, response)) is None:
                    return request.parse(checked(response))
            await asyncio.sleep(pause)


async def _portions(file: BinaryIO) -> AsyncIterator[bytes]:
    while portion := await asyncio.to_thread(file.read, 2**18):
        yield portion
