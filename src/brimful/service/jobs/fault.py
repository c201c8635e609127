"""Which option a refusal is about, where it does not say so itself."""

import re
from collections.abc import Mapping
from typing import Any

_SUBJECT = re.compile(r"(?:--)?([a-z][a-z0-9_-]*) is ")


def option_at_fault(message: str, config: Mapping[str, Any]) -> str | None:
    """The option that a message begins with, as in "lr is 0; ...", or else the one whose value it names: as its
    first word, a path, or a text in quotes. None where there is none, or where there are several.

    Args:
        config: options with references as paths.
    """
    subject = _SUBJECT.match(message)
    if subject and (name := subject[1].replace("-", "_")) in config:
        return name
    named = [name for name, value in config.items() if isinstance(value, str) and _names(message, value)]
    return named[0] if len(named) == 1 else None


def _names(message: str, value: str) -> bool:
    parts = [part.strip() for part in (value, *value.split(",")) if part.strip()]
    begins = any(message.startswith(f"{part} ") for part in parts)
    return begins or any(part in message if part.startswith("/") else repr(part) in message for part in parts)
