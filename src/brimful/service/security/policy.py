"""What the service lets in: the settings of everything in this folder, in one value."""

import ipaddress
from dataclasses import dataclass

PUBLIC = frozenset({"/healthz", "/readyz"})
"""Paths that need no token: they tell nothing but whether the service is there."""

LOGIN, LOGIN_STYLE = "/login", "/login.css"
"""The page that asks for a token, which is what a browser without one is shown."""

COOKIE = "brimful_token"
"""Where a browser keeps its token."""

PAGES_CHANNEL = "/_nicegui_ws/"
"""The websocket of the pages: it can be opened with a token that only reads, and the pages check what it may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityPolicy:
    """What is let in.

    Attributes:
        require_token: whether every request, but for those of `PUBLIC`, needs a token.
        hosts: the names, without a port, by which the service may be addressed; None for any.
        body_bytes: largest body of a request.
        upload_bytes: largest uploaded file.
        requests_per_second, burst: how many requests an address may make, over time and at once.
        failures_per_minute: how many wrong tokens an address may send.
    """

    require_token: bool = True
    hosts: frozenset[str] | None = None
    body_bytes: int = 2**20
    upload_bytes: int = 2**30
    requests_per_second: float = 200.0
    burst: int = 1000
    failures_per_minute: int = 20

    @classmethod
    def for_host(cls, host: str, *, require_token: bool | None = None, **limits: float) -> "SecurityPolicy":
        """The policy of a server that listens on a host. On loopback no token is needed unless it is asked for, and
        only names of this machine are answered to, so that a page whose name was turned to 127.0.0.1 gets nothing.
        Anywhere else a token is always needed.

        Raises:
            ValueError: a token was switched off where one is needed.
        """
        local = is_loopback(host)
        if not local and require_token is False:
            raise ValueError(
                f"host is {host!r}, which others can reach: it needs a token. Leave the token on, or "
                "listen on 127.0.0.1"
            )
        needed = not local if require_token is None else require_token
        hosts = frozenset({"localhost", "127.0.0.1", "::1", host.strip("[]").lower()}) if local else None
        return cls(require_token=needed, hosts=hosts, **limits)  # pyright: ignore[reportArgumentType]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address; a name other than localhost may be anything.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("localhost.evil.example")
        (True, True, False, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
