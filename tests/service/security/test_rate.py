"""Limits on how often an address asks, on a clock of the test's own."""

from brimful.service.security import rate
from brimful.service.security.rate import RateLimit, too_many


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_then_one_at_a_time():
    clock = Clock()
    limit = RateLimit(per_second=2, burst=3, clock=clock)
    for _ in range(3):
        assert limit.seconds_to_wait("a") == 0
        limit.take("a")
    assert limit.seconds_to_wait("a") == 0.5
    clock.now += 0.5
    assert limit.seconds_to_wait("a") == 0
    limit.take("a")
    assert limit.seconds_to_wait("a") == 0.5


def test_addresses_do_not_share():
    limit = RateLimit(per_second=1, burst=1, clock=Clock())
    limit.take("a")
    assert limit.seconds_to_wait("a") > 0
    assert limit.seconds_to_wait("b") == 0


def test_it_fills_up_to_the_burst_and_no_further():
    clock = Clock()
    limit = RateLimit(per_second=1, burst=2, clock=clock)
    limit.take("a")
    clock.now += 1000
    limit.take("a")
    limit.take("a")
    assert limit.seconds_to_wait("a") == 1


def test_addresses_are_forgotten_and_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(rate, "_ADDRESSES", 3)
    limit = RateLimit(per_second=1, burst=1, clock=Clock())
    for address in "abcd":
        limit.take(address)
    assert len(limit._buckets) == 3
    assert limit.seconds_to_wait("a") == 0
    assert limit.seconds_to_wait("d") == 1


def test_the_refusal_says_when():
    problem = too_many(1.2, "requests")
    assert problem.status == 429
    assert problem.headers == {"retry-after": "2"}
