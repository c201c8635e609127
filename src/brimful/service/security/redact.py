"""Secrets taken out of text that is logged or shown: tokens, passwords in URLs, and Authorization headers."""

import re
from typing import Any

_SECRETS = (
    (re.compile(r"(brimful_[0-9a-f]{12}_)[A-Za-z0-9_-]+"), r"\1***"),
    (re.compile(r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"), r"\1***"),
    (re.compile(r"(?i)([a-z][a-z0-9+.-]*://[^\s:/@?#]*:)[^\s/@]*(?=@)"), r"\1***"),
    (re.compile(r"\bwhsec_[A-Za-z0-9+/=]+"), "***"),
    (re.compile(r"(?i)(\b(?:password|passwd|token|secret)\"?\s*[:=]\s*\"?)[^\s&\",;}]+"), r"\1***"),
    (re.compile(r"(?i)([?&](?:password|passwd|token|secret|api_?key|access_token)=)[^\s&#]+"), r"\1***"),
)


def redact(text: str) -> str:
    """The text without its secrets.

    Example:
        >>> redact("cannot reach postgresql://ann:swordfish@db/jobs")
        'cannot reach postgresql://ann:***@db/jobs'
    """
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def redact_values(value: Any) -> Any:
    """JSON values with the secrets taken out of every text among them."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: redact_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact_values(inner) for inner in value]
    return value
