"""The events of a job as server-sent events: those there were, then those that come, until the job has ended.

The id of a message is the number of its event, so that a client that lost its connection goes on where it was: a
browser sends `Last-Event-ID` by itself. The last message is an `end`, with the job as it is then.
"""

from collections.abc import AsyncGenerator
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from ..errors import FieldProblem, Invalid, NotFound, Unavailable
from ..jobs.job import StoredEvent
from ..security.redact import redact_values
from ..service import Service
from .event_feed import EventFeed
from .openapi import stream
from .parameters import JobId, ServiceOf
from .responses import job_values, to_json

router = APIRouter(tags=["events"])

HEARTBEAT = 15.0
"""Seconds after which a quiet connection gets a comment, so that nothing between the two ends closes it."""

AWAY = 1.0
"""Seconds between two looks at a database that is away."""

MOST_READERS = 1000
_PAGE = 500
_LARGEST = 2**62


@router.get("/{job_id}/events", responses=stream("EventMessage", "messages; `data` is an event as JSON"))
async def events(
    request: Request,
    service: ServiceOf,
    job_id: JobId,
    after: Annotated[int, Query(description="only events later than this one", ge=0, le=_LARGEST)] = 0,
    follow: Annotated[bool, Query(description="whether to wait for more; false ends after those there are")] = True,
    last_event_id: Annotated[str | None, Header(description="`after`, as a browser sends it")] = None,
) -> Response:
    """The job's events as server-sent events, from the first one on or after the last that was received."""
    feed: EventFeed = request.app.state.feed
    start = after if last_event_id is None else _number(last_event_id)
    await anyio.to_thread.run_sync(service.job, job_id)  # there is one
    if feed.readers >= MOST_READERS or feed.closing:
        raise Unavailable(f"{feed.readers} clients read events already, or the server stops; try again later")
    messages = _stream(service, feed, job_id, start, follow)
    return StreamingResponse(messages, headers={"x-accel-buffering": "no"}, media_type="text/event-stream")


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise Invalid(FieldProblem("Last-Event-ID", f"Last-Event-ID is {text[:50]!r}; it must be the id of an event"))


async def _stream(service: Service, feed: EventFeed, id: str, after: int, follow: bool) -> AsyncGenerator[bytes]:
    """Messages until the job has ended or is gone, or the server stops."""
    yield b"retry: 2000\n\n"
    with feed.reading(id):
        while not feed.closing:
            try:
                # The state is read before the events: what an ended job emitted is among them.
                job = await anyio.to_thread.run_sync(service.job, id)
                page = await anyio.to_thread.run_sync(service.events, id, after, _PAGE)
            except NotFound:
                yield _message({"id": id, "state": "deleted"}, event="end")
                return
            except Unavailable:
                yield b": the database is away\n\n"
                await feed.wait(id, _LARGEST, AWAY)
                continue
            if page:
                after = page[-1].id
                yield b"".join(_event(event) for event in page)
            elif job.state.ended or not follow:
                yield _message(job_values(job), event="end")
                return
            elif not await feed.wait(id, after, HEARTBEAT):
                yield b":\n\n"


def _event(event: StoredEvent) -> bytes:
    return _message(redact_values(event.to_dict()), id=event.id)


def _message(data: Any, id: int | None = None, event: str | None = None) -> bytes:
    head = (f"id: {id}\n" if id is not None else "") + (f"event: {event}\n" if event else "")
    return head.encode() + b"data: " + to_json(data) + b"\n\n"
