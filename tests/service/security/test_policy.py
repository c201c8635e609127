"""Who needs a token."""

import pytest

from brimful.service.security.policy import SecurityPolicy, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_none(host: str):
    policy = SecurityPolicy.for_host(host)
    assert not policy.require_token
    assert policy.hosts is not None
    assert "localhost" in policy.hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.3", "example.org", "localhost.evil.example", ""])
def test_any_other_host_needs_one(host: str):
    assert SecurityPolicy.for_host(host).require_token
    assert not is_loopback(host)
    with pytest.raises(ValueError, match="needs a token"):
        SecurityPolicy.for_host(host, require_token=False)


def test_a_token_can_be_asked_for_on_loopback_too():
    assert SecurityPolicy.for_host("127.0.0.1", require_token=True).require_token
