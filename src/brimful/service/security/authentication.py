"""Bearer tokens: who sends one, and what it allows."""

from collections.abc import Callable, Collection
from urllib.parse import urlencode

from ..problem import Problem
from .policy import COOKIE, LOGIN, LOGIN_STYLE, PAGES_CHANNEL, PUBLIC, SecurityPolicy
from .rate import RateLimit, too_many
from .request_head import RequestHead
from .tokens import Scope, id_of

TokenCheck = Callable[[str], Collection[str] | None]
"""The scopes of a token; None for one that is not known. It may block."""

SCOPES = "brimful_scopes"
"""Key of an ASGI scope: what the one who asks may do."""

EVERYTHING = frozenset({Scope.READ, Scope.WRITE})


class Authentication:
    """Lets in requests whose token allows them.

    An address that sends too many wrong tokens is refused for a while, also with a right one, so that guessing tells it
    nothing.
    """

    def __init__(self, policy: SecurityPolicy, check: TokenCheck) -> None:
        self._policy, self._check = policy, check
        self._failures = RateLimit(policy.failures_per_minute / 60, policy.failures_per_minute)

    def needed(self, head: RequestHead) -> bool:
        return self._policy.require_token and head.path not in (*PUBLIC, LOGIN, LOGIN_STYLE)

    def allowed(self, head: RequestHead) -> Collection[str] | Problem:
        """What the one who asks may do, or why the request is refused. It blocks while the token is looked up."""
        if (wait := self._failures.seconds_to_wait(head.client)) > 0:
            return too_many(wait, "wrong tokens")
        given = head.headers.get("authorization")
        if given is None and (kept := head.cookie(COOKIE)) is not None:
            given = f"Bearer {kept}"
        if given is None:
            return _unauthorized("this needs a token: send the header 'Authorization: Bearer TOKEN'")
        kind, _, text = given.partition(" ")
        text = text.strip()
        scopes = self._check(text) if kind.lower() == "bearer" and id_of(text) else None
        if scopes is None:
            self._failures.take(head.client)
            return _unauthorized(
                "the token is not one of this service's. Send the header 'Authorization: Bearer TOKEN' with a token "
                "that `brimful serve` showed",
                error="invalid_token",
            )
        scope = Scope.WRITE if head.changes and not head.path.startswith(PAGES_CHANNEL) else Scope.READ
        if scope not in scopes and Scope.WRITE not in scopes:
            challenge = f'Bearer realm="brimful", error="insufficient_scope", scope="{scope.value}"'
            return Problem(
                403,
                f"the token allows {', '.join(sorted(scopes)) or 'nothing'}, and {head.method} needs {scope.value}. "
                f"Use a token with the scope {scope.value}",
                "insufficient-scope",
                headers={"www-authenticate": challenge},
            )
        return scopes


def to_login(head: RequestHead) -> Problem:
    """Leads a browser that has no token, or a wrong one, to the page that asks for it."""
    wrong = {"wrong": "1"} if head.cookie(COOKIE) is not None else {}
    headers = {"location": f"{LOGIN}?{urlencode({'next': head.path, **wrong})}"}
    if wrong:
        headers["set-cookie"] = f'{COOKIE}=""; Max-Age=0; Path=/; HttpOnly; SameSite=Lax'
    return Problem(303, "log in first", headers=headers)


def _unauthorized(detail: str, error: str | None = None) -> Problem:
    challenge = 'Bearer realm="brimful"' + (f', error="{error}"' if error else "")
    return Problem(401, detail, headers={"www-authenticate": challenge})
