"""Items that take too long, or that end the process which runs them.

A call of the function cannot be stopped from inside, so it runs in a worker process that is ended when a call takes
longer than it may, and another takes its place. Which item it was is found by running parts of the batch; then the
batch is run at its own size with another item in its place, so that the neighbors keep their bits.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import replace

import torch

from ...core.base import pytree
from .sources import LoadedBatch

_SLACK = 4.0  # times that a call may take what others took per item


class CallClock:
    """How long each worker's call of the function has taken, and may take.

    A call with one item may take the timeout. One with more may also take a multiple of what others took per item, but
    never more than the timeout for each item.

    Args:
        timeout: seconds per item.
        clock: seconds; tests bring their own.
    """

    def __init__(self, timeout: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.timeout, self._clock = timeout, clock
        self._calls: dict[int, tuple[float, int, float]] = {}  # by worker: when it began, items, seconds allowed
        self._seconds, self._items = 0.0, 0

    def start(self, worker: int, count: int, patient: bool = False) -> None:
        """A worker calls the function with so many items; `patient`: none of them takes too long alone."""
        most, rate = self.timeout * count, self._seconds / self._items if self._items else 0.0
        allowed = most if patient else min(most, self.timeout + _SLACK * rate * count)
        self._calls[worker] = self._clock(), count, allowed

    def stop(self, worker: int) -> None:
        """The worker has returned from its call, if it was in one."""
        if (call := self._calls.pop(worker, None)) is not None:
            self._seconds, self._items = self._seconds + self._clock() - call[0], self._items + call[1]

    def forget(self, worker: int) -> None:
        """The worker has ended."""
        self._calls.pop(worker, None)

    def pause(self, seconds: float) -> None:
        """For so long nobody listened to the workers."""
        calls = self._calls.items()
        self._calls = {worker: (began + seconds, count, allowed) for worker, (began, count, allowed) in calls}

    def overdue(self) -> list[int]:
        """The workers whose call takes too long."""
        now = self._clock()
        return [worker for worker, (began, _, allowed) in self._calls.items() if now - began > allowed]


class SlowItemSearch:
    """Which items of a batch take too long: `part` is what to run next, and `passed` or `timed_out` what came of it.

    Attributes:
        batch: the batch; `slow` has the items that were found.
        patient: nothing was found, and the batch may take as long as all its items together.
        split: the batch takes too long, and none of its items does alone.
    """

    def __init__(self, batch: LoadedBatch) -> None:
        self.batch, self.patient, self.split = batch, False, False
        self._begin(0)

    def _begin(self, first: int) -> None:
        """Searches the items from that one on, which take too long together."""
        self._low, self._high, self.whole = first, self.batch.count, False
        self._known = self.batch.count == 1  # otherwise each one that is suspected is tried alone
        self._narrow()

    def _narrow(self) -> None:
        if self._high - self._low == 1 and self._known:
            self.batch = replace(self.batch, slow=(*self.batch.slow, self._low))
            self.whole = True

    @property
    def part(self) -> LoadedBatch:
        """What to run next."""
        if self.whole:
            return self.batch
        middle = (self._low + self._high) // 2 if self._high - self._low > 1 else self._high
        return self.batch.slice(self._low, middle)

    def passed(self) -> None:
        """The part has been run."""
        if self._high - self._low == 1:  # alone it does not take too long: it is the sum of all
            self.whole = self.patient = True
            return
        self._low, self._known = (self._low + self._high) // 2, False

    def timed_out(self) -> None:
        """The part took too long."""
        if self.whole:
            self.split = self.patient or self._low + 1 >= self.batch.count
            if not self.split:
                self._begin(self._low + 1)
            return
        self._high, self._known = max(self._low + 1, (self._low + self._high) // 2), True
        self._narrow()


def overwritten(loaded: LoadedBatch, slow: Collection[int], timeout: float, crash: str = "") -> LoadedBatch:
    """A batch in which another item stands in the place of each slow one, or of each that ends its worker."""
    reason = f"it ended its worker ({crash})" if crash else f"it took longer than timeout={timeout:g} seconds"
    bad = loaded.bad | dict.fromkeys(slow, reason)
    loaded = replace(loaded, bad=bad, slow=tuple(slow), crash=crash)
    stand_in = next((item for item in range(loaded.count) if item not in bad), None)
    if stand_in is None or loaded.tree is None:
        return replace(loaded, tree=None)
    rows = torch.arange(loaded.count)
    rows[list(slow)] = stand_in
    return replace(loaded, tree=pytree.take_rows(loaded.tree, rows))
