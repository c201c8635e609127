"""Secrets in text that is logged or shown."""

import pytest

from brimful.service.security import tokens
from brimful.service.security.redact import redact, redact_values


@pytest.mark.parametrize(
    ("text", "secret", "stays"),
    [
        ("postgresql://ann:swordfish@db:5432/jobs", "swordfish", "ann"),
        ("postgresql://ann:sword:fish@db/jobs", "fish", "/jobs"),
        ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678", "Authorization"),
        ("GET /x?token=abc123&limit=3", "abc123", "limit=3"),
        ("connect host=db&password=swordfish", "swordfish", "host=db"),
    ],
)
def test_secrets_are_taken_out_and_the_rest_stays(text: str, secret: str, stays: str):
    assert secret not in redact(text)
    assert stays in redact(text)


def test_a_token_keeps_its_id_alone():
    token = tokens.generate()
    shown = redact(f"sent {token.text}.")
    assert token.text not in shown
    assert token.id in shown


def test_plain_text_stays():
    text = "job 3: 8:30 to 9:45, see https://example.org/a?b=c, mail ann@example.org"
    assert redact(text) == text


def test_values_are_redacted_wherever_they_are():
    values = {"url": "postgresql://a:secret@h/d", "more": [{"deep": "postgresql://a:secret@h/d"}], "n": 3, "none": None}
    assert "secret" not in str(redact_values(values))
    assert redact_values(values)["n"] == 3
