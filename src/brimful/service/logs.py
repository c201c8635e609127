"""The server's log: one JSON object per line, with the time in UTC, and without secrets."""

import datetime
import json
import logging
import sys
import traceback
from typing import Any, TextIO

from .security.redact import redact, redact_values

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}
_LOGGERS = ("brimful", "uvicorn", "dbos")


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, what was given as `extra`, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line |= redact_values(extra)
        if record.exc_info:
            line["traceback"] = redact("".join(traceback.format_exception(*record.exc_info)))
        return json.dumps(line, default=lambda value: redact(str(value)))


class TextFormatter(logging.Formatter):
    """A record as a line for people on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created)
        text = f"{moment:%H:%M:%S} {record.levelname.lower():<7} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return redact(text)


def configure(form: str = "auto", level: str = "info", stream: TextIO | None = None) -> logging.Handler:
    """Sends what the server logs to standard error, and nowhere else. The handler, for who wants to remove it.

    Args:
        form: json, text, or auto: text on a terminal, JSON elsewhere.
    """
    where = stream or sys.stderr
    handler = logging.StreamHandler(where)
    as_text = form == "text" or (form == "auto" and where.isatty())
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False
    return handler
