"""Tokens: no two alike, and nothing stored from which one could be made again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.service.security import tokens
from brimful.service.security.tokens import Scope


def test_a_token_matches_its_own_digest_and_no_other():
    first, second = tokens.generate(), tokens.generate()
    assert first.text != second.text
    assert tokens.matches(first.text, first.digest)
    assert not tokens.matches(first.text, second.digest)
    assert not tokens.matches(first.text[:-1], first.digest)


def test_nothing_matches_a_token_that_was_not_stored():
    text = tokens.generate().text
    assert not tokens.matches(text, None)
    assert not tokens.matches(text, b"")


def test_what_is_shown_of_a_new_token_has_no_secret():
    token = tokens.generate()
    secret = token.text.rpartition("_")[2]
    assert secret not in repr(token)
    assert secret.encode() not in token.digest


def test_the_id_is_read_from_a_token():
    token = tokens.generate()
    assert tokens.id_of(token.text) == token.id


@given(st.text("brimful_0123456789-é\n", max_size=80))
def test_other_texts_have_no_id(text: str):
    assert tokens.id_of(text) is None


def test_a_line_break_after_a_token_is_not_part_of_one():
    assert tokens.id_of(tokens.generate().text + "\n") is None


def test_write_brings_read():
    assert tokens.scopes_of(["write"]) == {Scope.READ, Scope.WRITE}
    assert tokens.scopes_of(["read"]) == {Scope.READ}
    with pytest.raises(ValueError, match="admin"):
        tokens.scopes_of(["admin"])
