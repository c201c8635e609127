"""Server-sent events: replayed from where a client was, then as they come, until the job has ended."""

import asyncio
import json
import threading
from typing import Any

import pytest

from brimful.service.api import events as route
from brimful.service.api.event_feed import EventFeed
from brimful.service.client.server_sent_events import Message, MessageReader
from brimful.service.errors import Unavailable
from brimful.service.jobs.state import JobState

from ...helpers.fake_service import FakeService
from ...helpers.web import TestClient
from .test_jobs import JOBS, problem


def read(client: TestClient, path: str, **headers: str) -> list[Message]:
    answer = client.get(path, headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    return MessageReader().feed(answer.content)


def ids(messages: list[Message]) -> list[int]:
    return [int(message.id) for message in messages if message.event == "message"]


def test_all_events_are_replayed_and_the_end_says_how_it_ended(client: TestClient, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    for step in range(1200):  # several pages
        service.emit(job.id, step=step)
    service.move(job.id, JobState.FINISHED)
    messages = read(client, f"{JOBS}/{job.id}/events")
    assert ids(messages) == list(range(1, 1202))
    assert [json.loads(message.data)["data"]["step"] for message in messages[:1200]] == list(range(1200))
    assert messages[-1].event == "end"
    assert json.loads(messages[-1].data)["state"] == "finished"


def test_a_client_goes_on_where_it_was(client: TestClient, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    for step in range(10):
        service.emit(job.id, step=step)
    service.move(job.id, JobState.FAILED)
    path = f"{JOBS}/{job.id}/events"
    assert ids(read(client, path, **{"last-event-id": "7"})) == [8, 9, 10, 11]
    assert ids(read(client, f"{path}?after=7")) == [8, 9, 10, 11]
    assert ids(read(client, f"{path}?after=2", **{"last-event-id": "7"})) == [8, 9, 10, 11]
    assert ids(read(client, path, **{"last-event-id": "11"})) == []
    assert [message.event for message in read(client, path, **{"last-event-id": "11"})] == ["end"]


def test_without_following_it_ends_after_those_there_are(client: TestClient, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    service.emit(job.id)
    messages = read(client, f"{JOBS}/{job.id}/events?follow=false")
    assert ids(messages) == [1]
    assert json.loads(messages[-1].data)["state"] == "running"


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 30, "٣"])
def test_an_id_that_is_none_is_refused(client: TestClient, service: FakeService, given: str):
    path = f"{JOBS}/{service.add().id}/events"
    assert "Last-Event-ID" in problem(client.get(path, headers={"last-event-id": given.encode()}), 422)["detail"]


def test_events_come_as_they_are_emitted_and_a_lost_connection_loses_none(client: TestClient, service: FakeService):
    job = service.add(state=JobState.RUNNING)

    def work() -> None:
        for step in range(30):
            service.emit(job.id, step=step)
            threading.Event().wait(0.003)
        service.move(job.id, JobState.FINISHED)

    thread = threading.Thread(target=work)
    thread.start()
    received: list[int] = []
    while not received or received[-1] < 31:  # a new connection after every reading
        after = str(received[-1]) if received else "0"
        received += ids(read(client, f"{JOBS}/{job.id}/events?follow=false", **{"last-event-id": after}))
    thread.join()
    assert received == list(range(1, 32))
    assert ids(read(client, f"{JOBS}/{job.id}/events")) == received


async def collect(service: FakeService, feed: EventFeed, id: str) -> list[Message]:
    reader = MessageReader()
    return [message async for part in route._stream(service, feed, id, 0, True) for message in reader.feed(part)]


def follow(service: FakeService, id: str, then: Any, readers: int = 1) -> list[list[Message]]:
    """What readers that follow receive while `then(feed)` happens."""

    async def run() -> list[list[Message]]:
        feed = EventFeed(service, interval=0.001)
        tasks = [asyncio.create_task(collect(service, feed, id)) for _ in range(readers)]
        while feed.readers < readers:
            await asyncio.sleep(0.001)
        await then(feed)
        async with asyncio.timeout(10):
            return await asyncio.gather(*tasks)

    return asyncio.run(run())


def test_many_readers_follow_and_each_gets_everything_in_order(service: FakeService):
    job = service.add(state=JobState.RUNNING)

    async def then(feed: EventFeed) -> None:
        for step in range(20):
            service.emit(job.id, step=step)
            await asyncio.sleep(0.001)
        service.move(job.id, JobState.FINISHED)

    for messages in follow(service, job.id, then, readers=5):
        assert ids(messages) == list(range(1, 22))
        assert messages[-1].event == "end"


def test_a_stream_ends_when_its_job_is_deleted(service: FakeService):
    job = service.add(state=JobState.PAUSED)

    async def then(feed: EventFeed) -> None:
        service.delete(job.id)

    assert json.loads(follow(service, job.id, then)[0][-1].data)["state"] == "deleted"


def test_streams_end_when_the_server_stops(service: FakeService):
    job = service.add(state=JobState.RUNNING)

    async def then(feed: EventFeed) -> None:
        feed.close()

    assert follow(service, job.id, then) == [[]]


def test_a_stream_outlives_a_database_that_is_away(service: FakeService, monkeypatch: pytest.MonkeyPatch):
    job = service.add(state=JobState.RUNNING)
    service.emit(job.id)
    away = True
    whole = service.events

    def events(id: str, after: int = 0, limit: int = 1000) -> Any:
        if away:
            raise Unavailable("the database is away")
        return whole(id, after, limit)

    monkeypatch.setattr(service, "events", events)

    async def then(feed: EventFeed) -> None:
        nonlocal away
        await asyncio.sleep(0.01)
        away = False
        service.move(job.id, JobState.FINISHED)

    monkeypatch.setattr(route, "AWAY", 0.01)
    assert ids(follow(service, job.id, then)[0]) == [1, 2]


def test_a_quiet_stream_sends_a_comment(service: FakeService, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(route, "HEARTBEAT", 0.001)
    job = service.add(state=JobState.RUNNING)

    async def run() -> bytes:
        feed = EventFeed(service, interval=0.001)
        stream = route._stream(service, feed, job.id, 0, True)
        first, second = await anext(stream), await anext(stream)
        await stream.aclose()
        assert feed.readers == 0
        return first + second

    assert asyncio.run(run()) == b"retry: 2000\n\n:\n\n"


def test_only_so_many_read_at_once(client: TestClient, service: FakeService, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(route, "MOST_READERS", 0)
    problem(client.get(f"{JOBS}/{service.add().id}/events"), 503)
