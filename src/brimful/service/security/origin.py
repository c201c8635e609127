"""Requests that a page of another site makes in a user's browser: refused, whatever cookies or network they have.

A browser says with every such request where it comes from, in `Sec-Fetch-Site` and `Origin`. A page can also give its
own name the address 127.0.0.1 once it is loaded (DNS rebinding); its requests then count as its own and name it in
`Host`. Programs other than browsers send neither of the first two.
"""

from urllib.parse import urlsplit

from ..problem import Problem
from .policy import SecurityPolicy
from .request_head import RequestHead

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def foreign_host(head: RequestHead, policy: SecurityPolicy) -> Problem | None:
    """Refuses a request that addresses the service by a name that is not its own."""
    if policy.hosts is None:
        return None
    given = head.headers.get("host", "")
    name = _address(f"//{given}")
    if name is not None and name[0] in policy.hosts:
        return None
    return Problem(
        403,
        f"the request is addressed to {given!r}, and this service answers to {', '.join(sorted(policy.hosts))}. Use "
        "one of these names in the URL",
        "foreign-host",
    )


def foreign_origin(head: RequestHead, policy: SecurityPolicy) -> Problem | None:
    """Refuses what would change something and comes from a page of another origin."""
    if not head.changes:
        return None
    site, origin = head.headers.get("sec-fetch-site"), head.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return _refused(origin or site)
    if origin is None:
        return None
    own = _address(f"//{head.headers.get('host', '')}", _scheme(origin))
    if own is not None and _address(origin) == own:
        return None
    return _refused(origin)


def _scheme(origin: str) -> str:
    """The scheme of an origin: the port that a host without one stands for depends on it."""
    return origin.partition("://")[0].lower()


def _refused(origin: str) -> Problem:
    return Problem(
        403,
        f"the request comes from a page of another origin, {origin[:200]!r}, and would change something. Send it from "
        "the service's own page, or from a program",
        "foreign-origin",
    )


def _address(url: str, scheme: str = "") -> tuple[str, int | None] | None:
    """Host and port of a URL; None where it has none that make sense."""
    try:
        parts = urlsplit(url)
        if not parts.hostname or parts.username is not None or parts.path not in ("", "/"):
            return None
        return parts.hostname.lower().rstrip("."), parts.port or _PORTS.get(parts.scheme or scheme)
    except ValueError:
        return None
