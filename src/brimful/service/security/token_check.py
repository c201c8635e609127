"""Tokens made, and checked against those that are stored."""

from collections.abc import Sequence
from typing import Protocol

from ..errors import FieldProblem, Invalid
from . import tokens


class StoredTokens(Protocol):
    """Where tokens are kept, hashed."""

    def add(self, id: str, name: str, scopes: list[str], digest: bytes) -> None: ...

    def get(self, id: str) -> tuple[list[str], bytes] | None: ...


def create(stored: StoredTokens, scopes: Sequence[str], name: str) -> str:
    """A new token, as a text that is shown this once."""
    try:
        allowed = tokens.scopes_of(scopes)
    except ValueError as error:
        raise Invalid(FieldProblem("scopes", f"{error}; scopes are read and write")) from error
    made = tokens.generate()
    stored.add(made.id, name, sorted(allowed), made.digest)
    return made.text


def check(stored: StoredTokens, text: str) -> frozenset[str] | None:
    """The scopes of a token; None for one that is not known. Compared in constant time."""
    id = tokens.id_of(text)
    known = None if id is None else stored.get(id)
    matching = tokens.matches(text, None if known is None else known[1])
    return frozenset(known[0]) if known is not None and matching else None
