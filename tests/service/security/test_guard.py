"""The middleware: what comes through, over HTTP and websockets, and what is refused before the application sees it."""

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from brimful.service.security import tokens
from brimful.service.security.guard import Guard
from brimful.service.security.policy import SecurityPolicy

LOCAL = SecurityPolicy.for_host("127.0.0.1", body_bytes=100, upload_bytes=1000)
REMOTE = SecurityPolicy.for_host("0.0.0.0", body_bytes=100)
HERE = {"host": "localhost:8000"}


class Application:
    """Reads the body and answers; counts what reaches it."""

    def __init__(self, swallow: bool = False) -> None:
        self.reached, self.swallow = 0, swallow

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached += 1
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        more = True
        while more:
            try:
                more = (await receive()).get("more_body", False)
            except Exception:
                if not self.swallow:
                    raise
                more = False
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"SAMEORIGIN")]})
        await send({"type": "http.response.body", "body": b"ok"})


def ask(
    guard: Guard,
    method: str = "GET",
    path: str = "/api/x",
    headers: Mapping[str, str] | list[tuple[str, str]] = HERE,
    body: list[bytes] = [],  # noqa: B006
    client: str = "127.0.0.1",
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body of the answer; of a websocket, whether it was accepted or the code it was closed by."""
    pairs = headers if isinstance(headers, list) else list(headers.items())
    scope = {
        "type": "websocket" if method == "WEBSOCKET" else "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in pairs],
        "client": (client, 1),
    }
    if method == "WEBSOCKET":
        incoming = [{"type": "websocket.connect"}]
    else:
        parts = body or [b""]
        incoming = [{"type": "http.request", "body": part, "more_body": part is not parts[-1]} for part in parts]
    sent: list[Any] = []

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guard(scope, receive, send))
    if method == "WEBSOCKET":
        return (sent[0].get("code", 0), {}, sent[0]["type"])
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    content = b"".join(message["body"] for message in sent[1:])
    return sent[0]["status"], answered, json.loads(content) if content != b"ok" else "ok"


def guarded(policy: SecurityPolicy = LOCAL, known: Mapping[str, frozenset[str]] = {}) -> tuple[Guard, Application]:
    application = Application()
    return Guard(application, policy, known.get), application


def test_a_program_on_this_machine_needs_nothing():
    guard, application = guarded()
    for method in ("GET", "POST", "DELETE", "WEBSOCKET"):
        assert ask(guard, method)[0] in (200, 0)
    assert application.reached == 4


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "",
        "10.0.0.1",
        "a@localhost",
        "[::1",
    ],
)
def test_a_name_that_is_not_this_machine_is_refused(host: str):
    guard, application = guarded()
    for method in ("GET", "POST"):
        status, headers, document = ask(guard, method, headers={"host": host})
        assert status == 403
        assert headers["content-type"] == "application/problem+json"
        assert document["type"].endswith("foreign-host")
    assert ask(guard, "WEBSOCKET", headers={"host": host})[0] == 1008
    assert application.reached == 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000", "localhost.:8000"])
def test_names_of_this_machine_are_answered(host: str):
    assert ask(guarded()[0], headers={"host": host})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://localhost:9000"},
        {"origin": "http://localhost"},
        {"origin": "http://localhost:8000.evil.example"},
        {"origin": "http://localhost:8000@evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost:8000"},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
    ],
)
def test_a_page_of_another_site_changes_nothing(headers: dict[str, str]):
    guard, application = guarded()
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        status, _, document = ask(guard, method, headers=HERE | headers)
        assert (status, document["type"].rpartition(":")[2]) == (403, "foreign-origin")
    assert ask(guard, "WEBSOCKET", headers=HERE | headers)[0] == 1008
    assert application.reached == 0


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost:8000"},
        {"origin": "http://localhost:8000", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"host": "example.org", "origin": "https://example.org"},
        {"host": "example.org:443", "origin": "https://example.org"},
        {"host": "example.org", "origin": "http://example.org:80"},
    ],
)
def test_the_own_page_and_programs_may(headers: dict[str, str]):
    guard, _ = guarded(replace(LOCAL, hosts=None))
    assert ask(guard, "POST", headers=HERE | headers)[0] == 200


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_elsewhere_a_token_is_needed_and_its_scope_counts():
    reader, writer = tokens.generate().text, tokens.generate().text
    guard, application = guarded(REMOTE, {reader: frozenset({"read"}), writer: frozenset({"write", "read"})})
    assert ask(guard, "GET", headers=bearer(reader))[0] == 200
    assert ask(guard, "POST", headers=bearer(writer))[0] == 200
    assert ask(guard, "GET", headers={"authorization": f"bearer  {writer} "})[0] == 200
    assert ask(guard, "WEBSOCKET", headers=bearer(writer))[2] == "websocket.accept"
    assert application.reached == 4
    status, headers, document = ask(guard, "POST", headers=bearer(reader))
    assert status == 403
    assert 'scope="write"' in headers["www-authenticate"]
    assert "write" in document["detail"]
    assert ask(guard, "WEBSOCKET", headers=bearer(reader))[0] == 1008
    assert application.reached == 4


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer x"},
        {"authorization": "Basic YTpi"},
        {"authorization": "Bearer " + "brimful_0123456789ab_" + "A" * 43},
        {"cookie": "token=x"},
    ],
)
def test_a_missing_or_wrong_token_is_refused(headers: dict[str, str]):
    guard, application = guarded(REMOTE)
    status, answered, document = ask(guard, headers=headers)
    assert status == 401
    assert answered["www-authenticate"].startswith("Bearer")
    assert "Authorization: Bearer" in document["detail"]
    assert ask(guard, "WEBSOCKET", headers=headers)[0] == 1008
    assert application.reached == 0


def test_health_needs_no_token_and_nothing_else_passes_as_health():
    guard, application = guarded(REMOTE)
    assert ask(guard, path="/healthz", headers={})[0] == 200
    for path in ("/healthz/", "/healthz/../api", "//healthz", "/api/healthz", "/readyzz", "/metrics"):
        assert ask(guard, path=path, headers={})[0] == 401
    assert application.reached == 1


def test_guessing_tokens_is_stopped_and_others_are_not():
    right = tokens.generate().text
    guard, _ = guarded(replace(REMOTE, failures_per_minute=3), {right: frozenset({"read"})})
    answers = [ask(guard, headers=bearer("brimful_0123456789ab_" + "A" * 43))[0] for _ in range(5)]
    assert answers == [401, 401, 401, 429, 429]
    assert ask(guard, headers=bearer(right))[0] == 429  # nothing is learned from a right guess
    assert ask(guard, headers=bearer(right), client="10.0.0.9")[0] == 200


def test_an_address_that_asks_too_often_waits():
    guard, application = guarded(replace(LOCAL, burst=2, requests_per_second=0.001))
    assert [ask(guard)[0] for _ in range(3)] == [200, 200, 429]
    assert int(ask(guard)[1]["retry-after"]) > 1
    assert ask(guard, client="10.0.0.9")[0] == 200
    assert ask(guard, path="/healthz")[0] == 200
    assert application.reached == 4


def test_a_body_that_is_announced_too_large_is_not_read():
    guard, application = guarded()
    assert ask(guard, "POST", headers=HERE | {"content-length": "101"})[0] == 413
    assert ask(guard, "POST", headers=HERE | {"content-length": "9" * 30})[0] == 413
    for length in ("-1", "x", "1e3", "٣", ""):
        assert ask(guard, "POST", headers=HERE | {"content-length": length})[0] == 400
    assert application.reached == 0
    assert ask(guard, "POST", headers=HERE | {"content-length": "100"})[0] == 200
    assert ask(guard, "POST", "/api/uploads", headers=HERE | {"content-length": "1000"})[0] == 200
    assert ask(guard, "POST", "/api/uploads", headers=HERE | {"content-length": "1001"})[0] == 413


@pytest.mark.parametrize("swallow", [False, True])
def test_a_body_that_grows_too_large_is_refused_whatever_the_application_does(swallow: bool):
    application = Application(swallow)
    guard = Guard(application, LOCAL, lambda token: None)
    assert ask(guard, "POST", body=[b"x" * 60, b"y" * 60])[0] == 413
    assert ask(guard, "POST", body=[b"x" * 60, b"y" * 40])[2] == "ok"


def test_headers_given_twice_are_refused():
    guard, application = guarded(REMOTE)
    for name in ("host", "authorization", "origin", "content-length"):
        status, _, document = ask(guard, headers=[(name, "1"), (name.title(), "2")])
        assert status == 400
        assert name in document["detail"]
    assert application.reached == 0


def test_answers_tell_browsers_to_trust_nothing():
    _, headers, _ = ask(guarded()[0])
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "SAMEORIGIN"  # what the application says stays
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in headers)
    assert "content-security-policy" not in ask(guarded()[0], path="/page")[1]


def test_what_is_logged_has_no_token_and_one_line(caplog: pytest.LogCaptureFixture):
    secret = tokens.generate().text
    with caplog.at_level(logging.DEBUG, "brimful.service"):
        ask(guarded(REMOTE)[0], path="/api/\r\nforged line", headers=bearer(secret))
    assert caplog.messages
    for message in caplog.messages:
        assert secret not in message
        assert "\n" not in message
