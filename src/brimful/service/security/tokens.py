"""Tokens: random, shown once, stored as a hash, compared in constant time.

A token is `brimful_<id>_<secret>`. The id finds its row in the store and may be shown; the secret has 256 random bits,
so that one round of SHA-256 is enough to store it: there is nothing to guess that a slow hash would protect.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

_FORM = re.compile(r"brimful_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class Scope(StrEnum):
    """What a token allows: `read` is GET and HEAD, `write` is everything. A token to write can read too."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made.

    Attributes:
        text: what its owner sends; it is shown once and stored nowhere.
        id, digest: what is stored.
    """

    text: str = field(repr=False)
    id: str
    digest: bytes = field(repr=False)


def generate() -> NewToken:
    """A new token.

    Example:
        >>> token = generate()
        >>> matches(token.text, token.digest), matches(generate().text, token.digest)
        (True, False)
    """
    id = secrets.token_hex(6)
    text = f"brimful_{id}_{secrets.token_urlsafe(32)}"
    return NewToken(text, id, digest(text))


def digest(text: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(text.encode()).digest()


def id_of(text: str) -> str | None:
    """The id in a token; None where the text has not the form of one."""
    match = _FORM.fullmatch(text)
    return match[1] if match else None


def matches(text: str, stored: bytes | None) -> bool:
    """Whether a token is the one whose digest was stored; it takes as long where none was."""
    equal = hmac.compare_digest(digest(text), stored or bytes(32))
    return equal and stored is not None


def scopes_of(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes from their names; `write` brings `read`.

    Raises:
        ValueError: there is no such scope.
    """
    scopes = frozenset(Scope(name) for name in names)
    return scopes | {Scope.READ} if Scope.WRITE in scopes else scopes
