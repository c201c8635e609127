"""Which hosts a webhook may go to."""

import pytest

from brimful import ConfigError
from brimful.service.webhooks.address import RefusedAddressError, allowed_addresses, check_url, is_public

PRIVATE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",  # where clouds tell secrets
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "240.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fd00::1",
    "ff0e::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "::10.0.0.1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_none_of_the_internet(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_ones_are(address: str):
    assert is_public(address)


@pytest.mark.parametrize("url", ["https://example.org/x", "http://example.org:8080", "https://[2606:4700::1111]/"])
def test_urls_of_public_hosts_are_accepted(url: str):
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org",
        "example.org",
        "https://",
        "file:///etc/passwd",
        "https://example.org:port/",
        "https://exa\nmple.org",
        "https://example.org/ x",
        "https://user:word@example.org/",
        "http://[::1",
        "",
    ],
)
def test_what_is_no_url_is_refused(url: str):
    with pytest.raises(ConfigError, match="webhook"):
        check_url(url, allow_private=True)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]:80/", "http://localhost/", "http://x.localhost", "http://192.168.0.1"]
)
def test_urls_of_private_hosts_are_refused_unless_allowed(url: str):
    with pytest.raises(RefusedAddressError, match="--webhook-private"):
        check_url(url)
    assert check_url(url, allow_private=True) == url


def test_one_private_address_among_several_refuses_the_host():
    def resolver(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(RefusedAddressError, match=r"example.org \(10.0.0.1\)"):
        allowed_addresses("example.org", 443, resolver=resolver)
    assert allowed_addresses("example.org", 443, True, resolver) == ["8.8.8.8", "10.0.0.1"]
    assert allowed_addresses("example.org", 443, resolver=lambda host, port: ["8.8.8.8"]) == ["8.8.8.8"]


def test_numbers_in_other_notations_are_seen_when_they_are_resolved():
    with pytest.raises(RefusedAddressError):
        allowed_addresses("0x7f000001", 80)  # the system's resolver reads it as 127.0.0.1
