"""One attempt to send a webhook: a POST to an address that was checked, within a time limit, without redirects.

Nothing of the response is read but its status: what a host inside a network answers is of no use to who named it.
"""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpcore

from ...core.base.errors import ConfigError
from .address import RefusedAddressError, Resolve, allowed_addresses, check_url, resolve
from .schedule import Outcome

TIMEOUT = 15.0
"""Seconds for an attempt in all, whatever the other side does."""

GONE = 410


def send(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    allow_private: bool = False,
    resolver: Resolve = resolve,
    timeout: float = TIMEOUT,
) -> Outcome:
    """Sends a body once; whatever goes wrong is in the outcome. A status of 410 asks for no other attempt."""
    try:
        check_url(url, allow_private)
        host = urlsplit(url).netloc
        backend = _CheckedBackend(allow_private, resolver, time.monotonic() + timeout)
        sent = [("host", host), ("content-type", "application/json"), ("content-length", str(len(body)))]
        with (
            httpcore.ConnectionPool(network_backend=backend) as pool,
            pool.stream(
                "POST",
                url,
                headers=[*sent, ("user-agent", "brimful"), *headers.items()],
                content=body,
                extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout)},
            ) as response,
        ):
            return Outcome(response.status, _refusal(response.status), final=response.status == GONE)
    except RefusedAddressError as error:
        return Outcome(None, str(error))  # the name may come to mean another address
    except ConfigError as error:
        return Outcome(None, str(error), final=True)
    except (OSError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, UnicodeError) as error:
        return Outcome(None, f"{type(error).__name__}: {error}")


def _refusal(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"the receiver answered {status}: redirects are not followed, name the final address"
    return f"the receiver answered {status}"


class _CheckedBackend(httpcore.NetworkBackend):
    """Opens connections, to checked addresses alone, that end at a time."""

    def __init__(self, allow_private: bool, resolver: Resolve, ends: float) -> None:
        self._allow_private, self._resolver, self._ends = allow_private, resolver, ends
        self._network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        failed: Exception | None = None
        for address in allowed_addresses(host, port, self._allow_private, self._resolver):
            try:
                stream = self._network.connect_tcp(address, port, _left(self._ends), local_address, socket_options)
                return _LimitedStream(stream, self._ends)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed or OSError(f"{host} has no address")


class _LimitedStream(httpcore.NetworkStream):
    """A connection that cannot be kept open by sending a little at a time."""

    def __init__(self, stream: httpcore.NetworkStream, ends: float) -> None:
        self._stream, self._ends = stream, ends

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._ends))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._ends))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _LimitedStream(self._stream.start_tls(ssl_context, server_hostname, _left(self._ends)), self._ends)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the time for an attempt is over")
    return left
