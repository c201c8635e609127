"""The rows of one shard in the order of its window shuffle, chunk after chunk, with a window of chunks in memory.

Legend: K chunks, the window 2 r + 1 of them; `shuffle/window.py` defines the order. Places and steps count on from one
epoch to the next: place K is the first chunk of the next epoch. Step s needs the places up to s + r; those of the next
epoch fill the slots that become free towards the end of this one, so that an epoch begins with its first chunks read.

There are slots for the window and for the chunks that are read ahead. So whoever reads a chunk puts it into its slot
and sorts its rows by their steps; what is left for the thread that gathers is to sort and pick those of a step.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..dataset import Fields
from ..shuffle.window import WindowShuffle
from .row_pool import ChunkSize, RowBuffer, RowPool


@dataclass(frozen=True, slots=True)
class SortedRows:
    """The rows of a chunk, sorted by the step in which they leave the window; M of them.

    Attributes:
        steps: (M,) modulo the steps of a window.
        within: (M,) how many rows of the same step are before a row.
        places: (M,) where the rows are.
        last: the last row of each step.
    """

    steps: np.ndarray
    within: np.ndarray
    places: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, steps: np.ndarray, places: np.ndarray, width: int) -> "SortedRows":
        rest = steps % width
        order = np.argsort(rest.astype(np.uint16) if width <= 1 << 16 else rest, kind="stable")
        rest = rest[order]
        new = np.ones(len(rest), bool)  # whether a row is the first of its step
        np.not_equal(rest[1:], rest[:-1], out=new[1:])
        first = np.flatnonzero(new)
        within = np.arange(len(rest)) - first[np.cumsum(new) - 1]
        return cls(rest, within, places[order], np.append(first[1:], len(rest))[: len(first)] - 1)


Submit = Callable[[int, Callable[[Fields], SortedRows]], Future[SortedRows]]
"""Begins to read a chunk, and calls a function with it on the thread that read it."""


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
        # When place p is asked for, none after p - slots is in use.
        self.slots = 2 * self.reach + 1 + ahead if self._goes_on else min(2 * self.reach + 1 + ahead, self.chunks)
        self._rows = size.rows
        self._pool, self._keys = RowPool(size, self.slots), np.zeros(self.slots * size.rows, np.uint64)
        self._wanted, self._putting = object(), threading.Lock()  # by what a reader knows that it is still waited for
        self._expected: int | None = None  # the epoch of which the first chunks are here already
        self._submit: Submit | None = None

    def open(self, epoch: int, position: int, submit: Submit) -> None:
        """Begins an epoch, at a position of its order."""
        if self._expected != epoch or position:
            self._reset(epoch)
        self._epoch, self._at, self._submit = epoch, 0, submit
        self._expected = None  # nobody knows, before the end
        self._ask_again(submit)
        if position:
            self._skip(position)
        self._request()

    def close(self) -> None:
        """Ends an epoch that was finished. What has been read of the next is kept."""
        if not self._goes_on:
            return
        self.read(self._shuffle.samples, self._shuffle.samples)  # what this rank has no part in
        self._submit = None
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

    def _ask_again(self, submit: Submit) -> None:
        """For what was asked for in the last epoch and has not come, or failed."""
        with self._putting:
            self._wanted = object()
        for number, read in enumerate(self._reading):
            if not read.done() or read.exception() is not None:
                self._reading[number] = self._ask(self._place + number, submit)

    def _reset(self, epoch: int) -> None:
        self._epoch, self._base = epoch, 0  # and the first place and step of it
        self._orders: dict[int, np.ndarray] = {}
        self._reading: deque[Future[SortedRows]] = deque()
        self._place, self._step = 0, -1  # the next place whose rows are to be taken, and the step in hand
        self._first_step = 0  # those before were left out
        width = 1 if self.steps == 1 else 2 * self.reach + 1
        self._steps = np.zeros((width, self._rows), np.int64)  # the rows of each step that are here
        self._counts = np.zeros(width, np.int64)
        self._ready, self._used = np.zeros(0, np.int64), 0

    def _skip(self, position: int) -> None:
        """Leaves out the steps before a position, and the chunks of which they use up all rows."""
        counts = np.zeros(self.steps + 1, np.int64)
        for place in range(self.chunks):
            steps = self._steps_of(self._epoch, place, int(self._order(self._epoch)[place]))
            first = int(steps.min())
            found = np.bincount(steps - first)
            counts[first : first + len(found)] += found
        before = np.cumsum(counts) - counts
        step = int(np.searchsorted(before, position, side="right")) - 1
        self._step, self._place, self._at = step - 1, max(0, step - self.reach), int(before[step])
        self._first_step = step

    def _steps_of(self, epoch: int, place: int, chunk: int) -> np.ndarray:
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
            self._reading.append(self._ask(self._place + len(self._reading), self._submit))

    def _ask(self, place: int, submit: Submit) -> Future[SortedRows]:
        epoch, within, chunk = self._chunk(place)
        put = partial(self._put, self._wanted, place, epoch, within, chunk)
        return submit(self._first_chunk + chunk, put)

    def _advance(self) -> None:
        """The next step: its chunks are read, and its rows sorted."""
        self._step += 1
        needed = min(self._base + self.chunks - 1, self._step + self.reach)
        while self._place <= needed:
            self._take(self._reading.popleft().result())
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
            self._take(self._reading.popleft().result())

    def _put(self, wanted: object, place: int, epoch: int, within: int, chunk: int, fields: Fields) -> SortedRows:
        """On the thread that read it: a chunk into the slot of its place; and its rows, by their steps. A read that has
        been given up finds its slot in use by another place, perhaps, and leaves it alone."""
        start, stop = self._shuffle.rows(chunk)
        slot, rows = place % self.slots, stop - start
        places = np.arange(slot * self._rows, slot * self._rows + rows)
        keys = self._shuffle.chunk_keys(epoch, chunk) if self._shuffled else np.arange(rows)
        with self._putting:
            if wanted is self._wanted:
                self._pool.put(slot, self._first_chunk + chunk, rows, fields)
                self._keys[places[0] : places[-1] + 1] = keys
        steps = self._steps_of(epoch, within, chunk) + (place - within)
        left = steps >= self._first_step
        return SortedRows.of(steps[left], places[left], len(self._counts))

    def _take(self, new: SortedRows) -> None:
        """Adds the rows of the next chunk, which is in its slot, to the lists of their steps."""
        if len(new.steps):
            columns = self._counts[new.steps] + new.within
            if (needed := int(columns.max()) + 1) > self._steps.shape[1]:
                more = np.zeros((len(self._steps), max(needed, self._steps.shape[1] * 5 // 4)), np.int64)
                more[:, : self._steps.shape[1]] = self._steps
                self._steps = more
            self._steps[new.steps, columns] = new.places
            self._counts[new.steps[new.last]] = columns[new.last] + 1
        self._place += 1
        self._request()
