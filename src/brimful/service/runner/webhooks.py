"""Webhooks, sent: a message for every end of a job that has one, until it was accepted or given up.

What is to be sent is in the database. So a message is sent after a restart that would have been sent before it; where a
server was killed between sending one and recording that, it is sent again with the same id.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...core.base.errors import ConfigError
from ..errors import FieldProblem, Invalid, Unavailable
from ..jobs.job import Webhook
from ..store.pool import Pool
from ..store.webhooks import Message, Webhooks
from ..webhooks.address import check_url
from ..webhooks.schedule import Outcome, next_pause
from ..webhooks.sender import send
from ..webhooks.signature import SecretError, check_secret, new_secret, sign

_LOG = logging.getLogger("brimful.service.webhooks")

SECRET = "webhook-secret"
"""The file with the server's own secret, in the folder of its state."""

INTERVAL = 5.0
"""Seconds between two looks, where nobody says that a job has ended."""

_SENDERS = 4
_FORGET = 30 * 86_400.0


def server_secret(state: Path) -> str:
    """The server's own secret, made when it is first asked for; only its user can read it."""
    path = state / SECRET
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as file:
        secret = new_secret()
        file.write(secret + "\n")
    return secret


def check_webhook(webhook: Webhook | None, allow_private: bool) -> None:
    """Refuses a webhook that would never be sent.

    Raises:
        Invalid: its url is wrong, or names a host of the private network.
    """
    if webhook is None:
        return
    try:
        check_url(webhook.url, allow_private)
        check_secret(webhook.secret)
    except ConfigError as error:
        field = "webhook.secret" if isinstance(error, SecretError) else "webhook.url"
        raise Invalid(FieldProblem(field, str(error))) from error


class WebhookDelivery:
    """Sends messages from threads of its own.

    Args:
        webhooks: the table of them.
        secret: signs messages of jobs that have no secret of their own.
        allow_private: send to hosts of the private network too.
        send: one attempt; the arguments are url, headers and body.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        webhooks: Webhooks,
        secret: str,
        allow_private: bool = False,
        send: Callable[..., Outcome] = send,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._webhooks, self._secret, self._allow_private = webhooks, secret, allow_private
        self._send, self._clock = send, clock
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._senders = ThreadPoolExecutor(_SENDERS, thread_name_prefix="webhook")
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    @classmethod
    def of(cls, pool: Pool, state: Path, allow_private: bool) -> "WebhookDelivery":
        """That of a server: its database, and the folder of its state."""
        return cls(Webhooks(pool), server_secret(state), allow_private)

    def start(self) -> None:
        self._thread.start()

    def job_ended(self, id: str) -> None:
        """A job has ended: its message is sent soon."""
        self._changed.set()

    def stop(self) -> None:
        """Ends after the attempts under way; what is left is sent after the next start."""
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._senders.shutdown(wait=True, cancel_futures=True)

    def _run(self) -> None:
        forget_at = 0.0
        while not self._stopping.is_set():
            self._changed.clear()
            pause = INTERVAL
            try:
                if self.send_due():
                    continue
                if self._clock() >= forget_at:
                    self._webhooks.forget(self._clock() - _FORGET)
                    forget_at = self._clock() + 3600.0
                if (due := self._webhooks.next_due()) is not None:
                    pause = min(INTERVAL, max(0.05, due - self._clock()))
            except Unavailable:
                pass  # the database is away; nothing is lost by waiting
            except Exception:
                _LOG.exception("webhooks cannot be sent for now")
            self._changed.wait(pause)

    def send_due(self) -> int:
        """Makes the messages that are missing, and sends those that are due; how many."""
        self._webhooks.add_ended(self._clock())
        messages = self._webhooks.take(self._clock())
        for attempt in [self._senders.submit(self._attempt, message) for message in messages]:
            attempt.result()
        return len(messages)

    def _attempt(self, message: Message) -> None:
        try:
            headers = sign(message.secret or self._secret, message.id, int(self._clock()), message.body)
            outcome = self._send(message.url, headers, message.body, allow_private=self._allow_private)
        except ConfigError as error:
            outcome = Outcome(None, str(error), final=True)
        pause = next_pause(outcome, message.attempts, random.random())
        now = self._clock()
        self._webhooks.record(message, outcome, None if pause is None else now + pause, now)
        said = {"job": message.job, "webhook": message.id, "attempts": message.attempts, "status": outcome.status}
        if outcome.accepted:
            _LOG.info("webhook of job %s sent", message.job, extra=said)
        elif pause is None:
            _LOG.error("webhook of job %s given up: %s", message.job, outcome.error, extra=said)
        else:
            _LOG.warning("webhook of job %s failed, next in %.0f s: %s", message.job, pause, outcome.error, extra=said)
