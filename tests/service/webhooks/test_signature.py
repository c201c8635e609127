"""Signatures of webhooks: a receiver sees what is ours, whole and new."""

import pytest

from brimful import ConfigError, InputError
from brimful.service.webhooks.signature import new_secret, sign, verify

BODY = b'{"job": 1}'


def test_a_known_signature():
    """As computed by other libraries of Standard Webhooks."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    verify(secret, headers, body, now=1614265330)


def test_what_was_signed_is_accepted():
    secret = new_secret()
    headers = sign(secret, "a", 1000, BODY)
    verify(secret, headers, BODY, now=1010)
    verify(secret, {**headers, "webhook-signature": f"v1,old {headers['webhook-signature']}"}, BODY, now=1010)


@pytest.mark.parametrize(
    ("change", "body", "now", "message"),
    [
        ({"webhook-id": "b"}, BODY, 1000, "check the secret"),
        ({"webhook-timestamp": "1001"}, BODY, 1000, "check the secret"),
        ({}, BODY + b" ", 1000, "check the secret"),
        ({}, BODY, 2000, "check both clocks"),
        ({}, BODY, 500, "check both clocks"),
        ({"webhook-timestamp": "soon"}, BODY, 1000, "no readable signature"),
        ({"webhook-signature": "ä"}, BODY, 1000, "check the secret"),
    ],
)
def test_anything_else_is_refused(change: dict[str, str], body: bytes, now: float, message: str):
    secret = new_secret()
    with pytest.raises(InputError, match=message):
        verify(secret, sign(secret, "a", 1000, BODY) | change, body, now)


def test_another_secret_or_none_is_refused():
    headers = sign(new_secret(), "a", 1000, BODY)
    with pytest.raises(InputError, match="check the secret"):
        verify(new_secret(), headers, BODY, now=1000)
    with pytest.raises(InputError, match="no readable signature"):
        verify(new_secret(), {}, BODY)
    with pytest.raises(ConfigError, match="base64"):
        sign("whsec_!", "a", 1000, BODY)


def test_any_other_text_is_the_key_itself():
    headers = sign("a plain text", "a", 1000, BODY)
    verify("a plain text", headers, BODY, now=1000)
    with pytest.raises(InputError):
        verify("another text", headers, BODY, now=1000)
