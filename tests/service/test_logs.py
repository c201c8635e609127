"""The server's log: JSON lines without secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from brimful.service import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    names = ("brimful", "uvicorn", "dbos")
    before = [(logging.getLogger(name), list(logging.getLogger(name).handlers)) for name in names]
    yield io.StringIO()
    for logger, handlers in before:
        logger.handlers[:] = handlers
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_an_object_with_time_level_and_what_was_added(stream: io.StringIO):
    logs.configure("json", stream=stream)
    logging.getLogger("brimful.service").info("job %s started", "7", extra={"job": "7", "budget": 8})
    logging.getLogger("brimful.service").debug("not shown")
    [line] = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "logger": "brimful.service", "message": "job 7 started", "job": "7", "budget": 8}


def test_a_traceback_stays_in_its_line(stream: io.StringIO):
    logs.configure("json", stream=stream)
    try:
        raise ValueError("token=abc")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("failed")
    [line] = lines(stream)
    assert "ValueError: token=***" in line["traceback"]


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRETSECRET",
        "GET /api?token=SECRETSECRET&x=1",
        '{"password": "SECRETSECRET"}',
        "postgresql://me:SECRETSECRET@host/db",
        "secret=SECRETSECRET",
        "whsec_SECRETSECRET",
    ],
)
@pytest.mark.parametrize("form", ["json", "text"])
def test_secrets_are_masked(stream: io.StringIO, text: str, form: str):
    logs.configure(form, stream=stream)
    logging.getLogger("brimful").warning("%s", text, extra={"more": text})
    assert "SECRETSECRET" not in stream.getvalue()
    assert "***" in stream.getvalue()


def test_text_for_a_terminal_and_json_for_a_pipe(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch):
    logs.configure(stream=stream)
    logging.getLogger("brimful").info("one")
    monkeypatch.setattr(stream, "isatty", lambda: True)
    logs.configure(stream=stream)
    logging.getLogger("brimful").info("two")
    first, second = stream.getvalue().splitlines()
    assert json.loads(first)["message"] == "one"
    assert second.endswith("info    two")


def test_what_is_no_json_is_written_as_text(stream: io.StringIO):
    logs.configure("json", stream=stream)
    logging.getLogger("brimful").info("x", extra={"path": object})
    assert lines(stream)[0]["path"] == "<class 'object'>"
