"""Signatures of webhooks, in the form of the Standard Webhooks specification, which has libraries in most languages.

The headers `webhook-id` and `webhook-timestamp` and the body are signed together with HMAC-SHA256; `webhook-signature`
has the result. `verify` refuses a request that was altered, or that is sent again much later.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping

from ...core.base.errors import ConfigError, InputError

_PREFIX = "whsec_"
TOLERANCE = 300.0
"""Seconds that a request may be old, or ahead of this clock."""


class SecretError(ConfigError):
    """A secret that nothing can be signed with."""


def new_secret() -> str:
    """A new secret, of 32 random bytes."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def sign(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that a request is sent with."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{_digest(secret, id, timestamp, body)}",
    }


def verify(secret: str, headers: Mapping[str, str], body: bytes, now: float | None = None) -> None:
    """For a receiver: returns where a request comes from the holder of the secret, is whole, and is not old.

    Args:
        headers: of the request; their names in lower case.
        now: seconds since 1970; by default this clock's.

    Raises:
        InputError: it is not.
    """
    try:
        id, timestamp = headers["webhook-id"], int(headers["webhook-timestamp"])
        signatures = headers["webhook-signature"].split()
    except (KeyError, ValueError) as error:
        raise InputError(f"the request has no readable signature: {error!r}") from error
    if abs((time.time() if now is None else now) - timestamp) > TOLERANCE:
        raise InputError(f"the request was signed more than {TOLERANCE:.0f} s ago or ahead; check both clocks")
    expected = f"v1,{_digest(secret, id, timestamp, body)}".encode()
    if not any(hmac.compare_digest(signature.encode(), expected) for signature in signatures):
        raise InputError("the signature is not that of this secret and body; check the secret")


def _digest(secret: str, id: str, timestamp: int, body: bytes) -> str:
    content = b".".join((id.encode(), str(timestamp).encode(), body))
    return base64.b64encode(hmac.new(_key(secret), content, hashlib.sha256).digest()).decode()


def check_secret(secret: str | None) -> None:
    """Refuses one that nothing can be signed with.

    Raises:
        SecretError: it is not what its prefix says.
    """
    _key(secret or "")


def _key(secret: str) -> bytes:
    """Base64 after the prefix, as the specification has it; any other text is the key itself."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise SecretError(
            f"the webhook's secret begins with {_PREFIX} and is not base64 after it; mend it, or give any other text"
        ) from error
