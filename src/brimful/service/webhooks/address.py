"""Which hosts a webhook may go to. A server inside a network must not send requests there on behalf of others.

The host's name is resolved once, every address that it has is checked, and the connection goes to an address that was
checked: a name that resolves to another address a moment later gains nothing.
"""

import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from ...core.base.errors import ConfigError

_TUNNELS = [  # an IPv4 address inside an IPv6 one
    ipaddress.ip_network(network) for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
]

Resolve = Callable[[str, int], list[str]]


class RefusedAddressError(ConfigError):
    """A webhook's host is on a private network, and that is not allowed."""


def check_url(url: str, allow_private: bool = False) -> str:
    """The URL, where a webhook may have it. A host that is given as a number is checked here already; a name is when it
    is resolved.

    Raises:
        ConfigError: it is no URL of a web server, or has a password in it.
        RefusedAddressError: it names an address of a private network.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"webhook is {url[:200]!r}: {error}; give https://host/path") from error
    if parts.scheme not in ("http", "https") or not host or any(ord(letter) < 33 for letter in url):
        raise ConfigError(f"webhook is {url[:200]!r}; give https://host/path")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("webhook has a user or password in its url; leave them out: requests are signed instead")
    if not allow_private:
        if host == "localhost" or host.endswith(".localhost"):
            raise _refused(host, "this machine")
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return url
        if not is_public(str(address)):
            raise _refused(host, str(address))
    return url


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, by the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def allowed_addresses(host: str, port: int, allow_private: bool = False, resolver: Resolve = resolve) -> list[str]:
    """The addresses to connect to, where every address of the host may be sent to.

    Raises:
        RefusedAddressError: one of them is on a private network.
        OSError: the name is not known.
    """
    addresses = resolver(host, port)
    if not addresses:
        raise OSError(f"{host} has no address")
    if not allow_private:
        for address in addresses:
            if not is_public(address):
                raise _refused(host, address)
    return addresses


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet: none of a private network, this machine, a link, a group, or a
    tunnel to one of those."""
    number = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(number, ipaddress.IPv6Address):
        if number.ipv4_mapped:
            number = number.ipv4_mapped
        elif any(number in tunnel for tunnel in _TUNNELS):
            return False
    return number.is_global and not number.is_multicast and not number.is_reserved


def _refused(host: str, address: str) -> RefusedAddressError:
    where = host if host == address else f"{host} ({address})"
    return RefusedAddressError(
        f"the webhook's host {where} is on a private network, and requests to those are refused. Name a public host, "
        "or start the server with --webhook-private"
    )
