"""What the checks read of a request: its first lines, before any of its body."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_ONCE = (b"host", b"origin", b"authorization", b"content-length", b"sec-fetch-site")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request's method, path, headers in lower case, and the address it came from. A websocket has the method
    "WEBSOCKET".

    Attributes:
        repeated: a header that may be given once and was given several times.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    client: str = ""
    repeated: str | None = None

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Self:
        """From the scope of ASGI."""
        pairs = scope["headers"]
        names = [name.lower() for name, _ in pairs]
        client = scope.get("client")
        return cls(
            scope["method"] if scope["type"] == "http" else "WEBSOCKET",
            scope["path"],
            {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in pairs},
            str(client[0]) if client else "",
            next((name.decode() for name in _ONCE if names.count(name) > 1), None),
        )

    @property
    def changes(self) -> bool:
        """Whether it may change something, or opens a channel that may."""
        return self.method not in SAFE_METHODS

    @property
    def navigates(self) -> bool:
        """Whether a browser asks for a page to show."""
        return self.method == "GET" and "text/html" in self.headers.get("accept", "")

    def cookie(self, name: str) -> str | None:
        """The value of a cookie."""
        for part in self.headers.get("cookie", "").split(";"):
            key, equals, value = part.strip().partition("=")
            if equals and key == name:
                return value.strip('"')
        return None
