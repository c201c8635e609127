"""How often an address may ask: a bucket per address that fills again over time."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from ..problem import Problem

_ADDRESSES = 10_000  # remembered at once; the one that asked longest ago is forgotten first


class RateLimit:
    """At most `burst` requests at once, and `per_second` of them over time, from each address."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and when that was
        self._lock = threading.Lock()

    def seconds_to_wait(self, address: str) -> float:
        """How long until the address may ask again; 0 where it may now."""
        with self._lock:
            return max(0.0, (1 - self._left(address)) / self._rate)

    def take(self, address: str) -> None:
        """Counts a request."""
        with self._lock:
            self._buckets[address] = (self._left(address) - 1, self._clock())
            self._buckets.move_to_end(address)
            if len(self._buckets) > _ADDRESSES:
                self._buckets.popitem(last=False)

    def _left(self, address: str) -> float:
        now = self._clock()
        left, before = self._buckets.get(address, (self._burst, now))
        return min(self._burst, left + (now - before) * self._rate)


def too_many(seconds: float, what: str) -> Problem:
    """The refusal; it says when to try again."""
    wait = max(1, math.ceil(seconds))
    return Problem(429, f"too many {what} from this address; try again in {wait} s", headers={"retry-after": str(wait)})
