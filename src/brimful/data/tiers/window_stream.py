"""The rows of one shard in the order of its window shuffle, chunk after chunk, with a window of chunks in memory.

Legend: K chunks, the window 2 r + 1 of them; `shuffle/window.py` defines the order. Places and steps count on from one
epoch to the next: place K is the first chunk of the next epoch. Step s needs the places up to s + r; those of the next
epoch fill the slots that become free towards the end of this one, so that an epoch begins with its first chunks read.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np

from ..dataset import Fields
from ..shuffle.window import WindowShuffle
from .row_pool import ChunkSize, RowBuffer, RowPool

Submit = Callable[[int], Future[Fields]]
"""Begins to read a chunk."""


class WindowStream:
    """Rows of a shard, epoch after epoch.

    Args:
        shuffle: their order.
        shuffled: whether it is used; the chunks and rows in the order of the source otherwise.
        first_chunk: of the shard, among the source's.
        size: of a chunk.
        ahead: chunks that are read before they are needed.
    """

    def __init__(self, shuffle: WindowShuffle, shuffled: bool, first_chunk: int, size: ChunkSize, ahead: int) -> None:
        self._shuffle, self._shuffled, self._first_chunk, self._ahead = shuffle, shuffled, first_chunk, ahead
        self.chunks, self.reach, self.steps = shuffle.chunks, shuffle.reach, shuffle.steps
        if not shuffled:
            self.reach, self.steps = 0, shuffle.chunks
        self._goes_on = shuffled and not shuffle.whole
        self.slots = min(2 * self.reach + 1, self.chunks)
        self._pool = RowPool(size, self.slots)
        self._rows = size.rows
        self._keys = np.zeros(self.slots * size.rows, np.uint64)
        self._expected: int | None = None  # the epoch of which the first chunks are here already
        self._submit: Submit | None = None

    def open(self, epoch: int, position: int, submit: Submit) -> None:
        """Begins an epoch, at a position of its order."""
        if self._expected != epoch or position:
            self._reset(epoch)
        self._epoch, self._at, self._submit = epoch, 0, submit
        self._expected = None  # nobody knows, before the end
        if position:
            self._skip(position)
        self._request()

    def close(self) -> None:
        """Ends an epoch that was finished. What has been read of the next is kept."""
        if not self._goes_on:
            return
        self.read(self._shuffle.samples, self._shuffle.samples)  # what this rank has no part in
        self._submit, reading, self._reading = None, self._reading, deque()
        while reading and reading[0].done() and reading[0].exception() is None:
            self._reading.append(reading.popleft())
        self._take_next()
        self._base += self.chunks
        self._expected = self._epoch + 1

    def buffer(self, rows: int, pin: bool) -> RowBuffer:
        return self._pool.buffer(rows, pin)

    def read(self, start: int, stop: int, buffer: RowBuffer | None = None) -> None:
        """Adds the rows from one position of the order to another, which is not before the last that was read."""
        while self._at < stop:
            if self._used >= len(self._ready):
                self._advance()
                continue
            count = min(len(self._ready) - self._used, (start if self._at < start else stop) - self._at)
            if self._at >= start and buffer is not None:
                buffer.add(self._ready[self._used : self._used + count])
            self._used += count
            self._at += count

    def _reset(self, epoch: int) -> None:
        self._epoch, self._base = epoch, 0  # and the first place and step of it
        self._orders: dict[int, np.ndarray] = {}
        self._reading: deque[Future[Fields]] = deque()
        self._place, self._step = 0, -1  # the next place to be put into its slot, and the step in hand
        width = 1 if self.steps == 1 else 2 * self.reach + 1
        self._steps = np.zeros((width, self._rows), np.int64)  # the rows of each step that are here
        self._counts = np.zeros(width, np.int64)
        self._ready, self._used = np.zeros(0, np.int64), 0

    def _skip(self, position: int) -> None:
        """Leaves out the steps before a position, and the chunks of which they use up all rows."""
        counts = np.zeros(self.steps + 1, np.int64)
        for place in range(self.chunks):
            steps = self._steps_of(self._epoch, place)
            first = int(steps.min())
            found = np.bincount(steps - first)
            counts[first : first + len(found)] += found
        before = np.cumsum(counts) - counts
        step = int(np.searchsorted(before, position, side="right")) - 1
        self._step, self._place, self._at = step - 1, max(0, step - self.reach), int(before[step])

    def _steps_of(self, epoch: int, place: int) -> np.ndarray:
        chunk = int(self._order(epoch)[place])
        if self._shuffled:
            return self._shuffle.chunk_steps(epoch, chunk, place)
        start, stop = self._shuffle.rows(chunk)
        return np.full(stop - start, place)

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            made = self._shuffle.chunk_order(epoch) if self._shuffled else np.arange(self.chunks)
            self._orders = {key: order for key, order in self._orders.items() if key == epoch - 1} | {epoch: made}
        return self._orders[epoch]

    def _chunk(self, place: int) -> tuple[int, int, int]:
        """Of a place that counts on over epochs: the epoch, the place in it, and the chunk."""
        epochs, within = divmod(place - self._base, self.chunks)
        return self._epoch + epochs, within, int(self._order(self._epoch + epochs)[within])

    def _request(self) -> None:
        """Asks for the next chunks, none of them for a slot that will not become free in this epoch."""
        last = self._base + self.chunks - 1 + (self.reach if self._goes_on else 0)
        while self._submit and len(self._reading) < self._ahead and self._place + len(self._reading) <= last:
            _, _, chunk = self._chunk(self._place + len(self._reading))
            self._reading.append(self._submit(self._first_chunk + chunk))

    def _advance(self) -> None:
        """The next step: its chunks are read, and its rows sorted."""
        self._step += 1
        needed = min(self._base + self.chunks - 1, self._step + self.reach)
        while self._place <= needed:
            self._put(self._reading.popleft().result())
        self._take_next()
        row = self._step % len(self._steps)
        places = self._steps[row, : self._counts[row]]
        self._ready, self._used = places[np.argsort(self._keys[places])], 0
        self._counts[row] = 0

    def _take_next(self) -> None:
        """Chunks of the next epoch, as far as they have come and a slot is free."""
        while self._place <= self._step + self.reach and self._reading and self._reading[0].done():
            if self._reading[0].exception() is not None:  # which is for the next epoch to say
                return
            self._put(self._reading.popleft().result())

    def _put(self, fields: Fields) -> None:
        """A chunk into the slot of its place, and its rows to their steps."""
        epoch, within, chunk = self._chunk(self._place)
        slot = self._place % self.slots
        start, stop = self._shuffle.rows(chunk)
        self._pool.put(slot, self._first_chunk + chunk, stop - start, fields)
        places = np.arange(slot * self._rows, slot * self._rows + stop - start)
        keys = self._shuffle.chunk_keys(epoch, chunk) if self._shuffled else np.arange(len(places))
        self._keys[places] = keys
        steps = self._steps_of(epoch, within) + (self._place - within)
        left = steps >= self._step  # after a start in mid-epoch, a chunk may have rows that were seen before
        self._sort_in(steps[left], places[left])
        self._place += 1
        self._request()

    def _sort_in(self, steps: np.ndarray, places: np.ndarray) -> None:
        """Adds rows to the lists of their steps."""
        if not len(steps):
            return
        rest = steps % len(self._steps)
        order = np.argsort(rest.astype(np.uint16) if len(self._steps) <= 1 << 16 else rest, kind="stable")
        rows = rest[order]
        new = np.empty(len(rows), bool)  # whether a row is the first of its step
        new[0] = True
        np.not_equal(rows[1:], rows[:-1], out=new[1:])
        first = np.flatnonzero(new)
        columns = self._counts[rows] + np.arange(len(rows)) - first[np.cumsum(new) - 1]
        if (needed := int(columns.max()) + 1) > self._steps.shape[1]:
            more = np.zeros((len(self._steps), max(needed, self._steps.shape[1] * 5 // 4)), np.int64)
            more[:, : self._steps.shape[1]] = self._steps
            self._steps = more
        self._steps[rows, columns] = places[order]
        last = np.append(first[1:], len(rows)) - 1
        self._counts[rows[last]] = columns[last] + 1
