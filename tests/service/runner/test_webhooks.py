"""Webhooks: a message for every end of a job, sent once, whatever happens to server and receiver."""

import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from brimful.data.database.connection import Database
from brimful.service.errors import Invalid
from brimful.service.jobs.job import Job, JobRequest, Webhook
from brimful.service.jobs.state import JobState
from brimful.service.runner.webhooks import WebhookDelivery, check_webhook, server_secret
from brimful.service.store import Store
from brimful.service.store.webhooks import Webhooks
from brimful.service.webhooks.schedule import PAUSES, Outcome
from brimful.service.webhooks.signature import new_secret, verify

from ...helpers.stopping import wait_for

URL = "https://example.org/ended"


class Receiver:
    """Takes what is sent, answers as it is told to, and verifies every signature."""

    def __init__(self, secret: str) -> None:
        self.secret, self.answers = secret, list[Outcome]()
        self.received: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, url: str, headers: dict[str, str], body: bytes, allow_private: bool) -> Outcome:
        assert (url, allow_private) == (URL, False)
        verify(self.secret, headers, body, now=float(headers["webhook-timestamp"]))
        self.received.append((headers["webhook-id"], json.loads(body)))
        return self.answers.pop(0) if self.answers else Outcome(204)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A database of its own on the server of the tests."""
    with psycopg.connect(Database.at().uri(), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS webhooks")
        connection.execute("CREATE DATABASE webhooks")
    yield Database.at(Database.at().uri().replace("/postgres?", "/webhooks?"))


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    store = Store(database)
    store.migrate()
    yield store
    store.pool.call(lambda connection: connection.execute("TRUNCATE job, webhook CASCADE"))
    store.close()


@pytest.fixture
def secret() -> str:
    return new_secret()


@pytest.fixture
def receiver(secret: str) -> Receiver:
    return Receiver(secret)


def delivery(store: Store, secret: str, receiver: Receiver, now: list[float] | None = None) -> WebhookDelivery:
    clock = time.time if now is None else lambda: now[0]
    return WebhookDelivery(Webhooks(store.pool), secret, send=receiver, clock=clock)


def ended_job(store: Store, webhook: Webhook | None = Webhook(url=URL)) -> Job:
    """A job that was cancelled before it began."""
    job = store.jobs.add(JobRequest(name="one", workload="nets", webhook=webhook), None)
    return store.jobs.request(job.id, "cancel")[0]


def test_one_message_for_the_end_of_a_job(store: Store, receiver: Receiver, secret: str):
    job = ended_job(store)
    ended_job(store, webhook=None)
    store.jobs.add(JobRequest(name="waits", webhook=Webhook(url=URL)), None)
    sender = delivery(store, secret, receiver)
    assert [sender.send_due(), sender.send_due()] == [1, 0]
    [(_, body)] = receiver.received
    assert (body["type"], body["data"]["id"], body["data"]["job_name"]) == ("job.cancelled", job.id, "one")
    assert body["timestamp"].endswith("Z")
    sender.stop()


def test_another_end_is_another_message(store: Store, receiver: Receiver, secret: str):
    job = ended_job(store)
    sender = delivery(store, secret, receiver)
    sender.send_due()
    store.jobs.request(job.id, "retry")
    assert sender.send_due() == 0
    store.jobs.request(job.id, "cancel")
    assert sender.send_due() == 1
    assert len({id for id, _ in receiver.received}) == 2
    sender.stop()


def test_the_secret_of_a_job_is_its_own_and_is_forgotten(store: Store, receiver: Receiver, secret: str):
    ended_job(store, Webhook(url=URL, secret=secret))
    sender = delivery(store, new_secret(), receiver)
    assert sender.send_due() == 1
    row = store.pool.call(lambda connection: connection.execute("SELECT secret, body FROM webhook").fetchone())
    assert row is not None and row[0] is None and secret not in row[1]
    assert secret not in json.dumps(receiver.received)
    sender.stop()


def test_a_refused_message_comes_again_with_its_id_and_is_given_up_at_last(
    store: Store, receiver: Receiver, secret: str
):
    ended_job(store)
    now = [1000.0]
    sender = delivery(store, secret, receiver, now)
    receiver.answers = [Outcome(500, "the receiver answered 500")] * 20
    for pause in PAUSES:
        assert sender.send_due() == 1
        now[0] += pause * 0.99
        assert sender.send_due() == 0
        now[0] += pause * 0.3
    assert [sender.send_due(), sender.send_due()] == [1, 0]
    assert Webhooks(store.pool).next_due() is None
    assert len(receiver.received) == len(PAUSES) + 1
    assert len({id for id, _ in receiver.received}) == 1
    sender.stop()


def test_accepted_after_a_failure(store: Store, receiver: Receiver, secret: str):
    ended_job(store)
    now = [1000.0]
    sender = delivery(store, secret, receiver, now)
    receiver.answers = [Outcome(None, "ConnectError")]
    assert sender.send_due() == 1
    now[0] += PAUSES[0] * 1.3
    assert [sender.send_due(), sender.send_due()] == [1, 0]
    query = "SELECT attempts, due, status, error FROM webhook"
    assert store.pool.call(lambda connection: connection.execute(query).fetchone()) == (2, None, 204, "")
    sender.stop()


def test_a_server_that_is_killed_while_it_sends_sends_it_again(store: Store, receiver: Receiver, secret: str):
    ended_job(store)
    table = Webhooks(store.pool)
    table.add_ended(1000.0)
    [taken] = table.take(1000.0)  # and then it is killed
    assert table.take(1000.0) == []
    now = [1059.0]
    after = delivery(store, secret, receiver, now)
    assert after.send_due() == 0
    now[0] = 1060.0
    assert [after.send_due(), after.send_due()] == [1, 0]
    assert [id for id, _ in receiver.received] == [taken.id]
    after.stop()


def test_two_senders_never_have_the_same_message(store: Store):
    for _ in range(10):
        ended_job(store)
    table = Webhooks(store.pool)
    assert [table.add_ended(1000.0), table.add_ended(1000.0)] == [10, 0]
    with store.pool.session() as connection, connection.transaction():
        locked = connection.execute("SELECT id FROM webhook ORDER BY due LIMIT 4 FOR UPDATE").fetchall()
        taken = table.take(1000.0, most=10)
    assert {row[0] for row in locked}.isdisjoint(message.id for message in taken)
    assert len(taken) == 6


def test_what_was_accepted_stays_accepted(store: Store):
    ended_job(store)
    table = Webhooks(store.pool)
    table.add_ended(1000.0)
    [message] = table.take(1000.0)
    table.record(message, Outcome(200), None, 1001.0)
    table.record(message, Outcome(500, "late"), 1002.0, 1001.0)  # by a sender that was thought dead
    assert table.next_due() is None


def test_messages_of_deleted_jobs_are_still_sent_and_forgotten_later(store: Store, receiver: Receiver, secret: str):
    job = ended_job(store)
    table = Webhooks(store.pool)
    table.add_ended(time.time())
    store.jobs.delete(job.id)
    table.forget(9e9)
    sender = delivery(store, secret, receiver)
    assert sender.send_due() == 1
    table.forget(9e9)
    query = "SELECT count(*) FROM webhook"
    assert store.pool.call(lambda connection: connection.execute(query).fetchone()) == (0,)
    sender.stop()


def test_the_thread_sends_when_a_job_has_ended(store: Store, receiver: Receiver, secret: str):
    sender = delivery(store, secret, receiver)
    sender.start()
    job = ended_job(store)
    sender.job_ended(job.id)
    wait_for(lambda: receiver.received)
    sender.stop()
    assert [body["data"]["state"] for _, body in receiver.received] == [JobState.CANCELLED.value]


def test_a_secret_that_cannot_sign_is_no_reason_to_try_again(store: Store, receiver: Receiver, secret: str):
    ended_job(store)
    sender = delivery(store, "whsec_!", receiver)
    assert [sender.send_due(), sender.send_due()] == [1, 0]
    assert Webhooks(store.pool).next_due() is None and receiver.received == []
    sender.stop()


@pytest.mark.parametrize(
    ("webhook", "field"),
    [
        (Webhook(url="http://127.0.0.1/"), "webhook.url"),
        (Webhook(url="ftp://example.org"), "webhook.url"),
        (Webhook(url=URL, secret="whsec_!"), "webhook.secret"),
    ],
)
def test_a_webhook_that_would_never_be_sent_is_refused(webhook: Webhook, field: str):
    with pytest.raises(Invalid) as refused:
        check_webhook(webhook, allow_private=False)
    assert [problem.path for problem in refused.value.problems] == [field]


def test_others_are_not():
    check_webhook(None, allow_private=False)
    check_webhook(Webhook(url=URL, secret=new_secret()), allow_private=False)
    check_webhook(Webhook(url="http://127.0.0.1:1/", secret="any text"), allow_private=True)


def test_the_secret_of_a_server_is_made_once_and_private(tmp_path: Path):
    secret = server_secret(tmp_path)
    assert server_secret(tmp_path) == secret
    [path] = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
