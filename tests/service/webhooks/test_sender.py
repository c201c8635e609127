"""One attempt to send a webhook, to servers on this machine."""

import http.server
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from brimful.service.webhooks.schedule import PAUSES, Outcome, next_pause
from brimful.service.webhooks.sender import send


class Receiver(http.server.ThreadingHTTPServer):
    """Answers with the status that its path says, and keeps what it received."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
        self.send_response(int(self.path.strip("/")))
        self.send_header("location", f"{self.server.url}/200")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_body_and_its_headers_arrive(receiver: Receiver):
    outcome = send(f"{receiver.url}/204", {"webhook-id": "7"}, b'{"a": 1}', allow_private=True)
    assert outcome == Outcome(204)
    assert outcome.accepted
    [(path, headers, body)] = receiver.received
    assert (path, body) == ("/204", b'{"a": 1}')
    assert headers["webhook-id"] == "7"
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(("status", "final"), [(500, False), (404, False), (429, False), (410, True)])
def test_a_refusal_says_its_status(receiver: Receiver, status: int, final: bool):
    outcome = send(f"{receiver.url}/{status}", {}, b"{}", allow_private=True)
    assert outcome == Outcome(status, f"the receiver answered {status}", final)
    assert not outcome.accepted


def test_a_redirect_is_not_followed(receiver: Receiver):
    outcome = send(f"{receiver.url}/302", {}, b"{}", allow_private=True)
    assert outcome.status == 302
    assert "redirects are not followed" in outcome.error
    assert len(receiver.received) == 1


def test_a_private_address_is_never_connected_to(receiver: Receiver):
    outcome = send(f"{receiver.url}/200", {}, b"{}")
    assert outcome.status is None
    assert "--webhook-private" in outcome.error
    by_name = send("http://example.org/200", {}, b"{}", resolver=lambda host, port: ["127.0.0.1"])
    assert "example.org (127.0.0.1)" in by_name.error
    assert receiver.received == []


def test_the_address_that_was_checked_is_the_one_connected_to(receiver: Receiver):
    answers = [["127.0.0.1"], AssertionError("resolved again")]
    url = f"http://example.org:{receiver.server_port}/200"

    def resolver(host: str, port: int) -> list[str]:
        answer = answers.pop(0)
        assert isinstance(answer, list), answer
        return answer

    assert send(url, {}, b"{}", allow_private=True, resolver=resolver).accepted
    assert receiver.received[0][1]["host"] == f"example.org:{receiver.server_port}"


def test_nobody_there_is_an_outcome():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        outcome = send(url, {}, b"{}", allow_private=True)
    assert outcome.status is None
    assert "ConnectError" in outcome.error
    assert not outcome.final

    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror("no such name")

    assert "no such name" in send("http://example.org/", {}, b"{}", resolver=unknown).error
    assert send("nowhere", {}, b"{}").final


def test_a_receiver_that_drips_is_left_at_the_limit():
    """Each byte comes in time, and the whole would not."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                while not over.wait(0.02):
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        started = time.monotonic()
        outcome = send(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"{}", allow_private=True, timeout=0.3)
        ended = time.monotonic()
        over.set()
        thread.join()
    assert outcome.status is None
    assert ended - started >= 0.29  # not that the test is quick: that the limit was what ended it


def test_attempts_come_ever_later_and_end():
    failed = Outcome(500, "the receiver answered 500")
    pauses = [next_pause(failed, attempts, jitter=0.0) for attempts in range(1, 20)]
    assert pauses == [*PAUSES, *[None] * (19 - len(PAUSES))]
    assert next_pause(failed, 1, jitter=1.0) == pytest.approx(PAUSES[0] * 1.2)
    assert next_pause(Outcome(200), 1, 0.0) is None
    assert next_pause(Outcome(410, "", final=True), 1, 0.0) is None
