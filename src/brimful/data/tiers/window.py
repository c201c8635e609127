"""The window tier: data larger than host memory, read chunk by chunk ahead of use and shuffled within a window."""

import contextlib
import itertools
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import torch

from ...core.base.background import BackgroundThread
from ...core.base.errors import InputError
from ...core.base.ragged import Ragged
from ...core.base.rows import rows_of
from ..chunked import ChunkedSource, chunked
from ..dataset import Dataset, Fields
from ..shuffle.order import Order
from .row_pool import ChunkSize
from .staged import Staged
from .tier import Reading
from .window_stream import SortedRows, WindowStream

CHUNKS_AHEAD = 4
"""Chunks of a shard that are read before they are needed."""

_READERS = 2  # threads, where nobody says how many


class Window(Staged):
    """Chunks read on threads of their own, into a window; batches gathered from it and copied ahead."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._source = chunks(reading.rows, reading.order)
        self._order, self._part = reading.order, (reading.rank, reading.ranks)
        self._readers = reading.workers or _READERS
        self._size = ChunkSize.of(reading.rows.fields, self._order.chunk_rows)
        self._streams: dict[int, WindowStream] = {}
        self._block: tuple[int, Fields, tuple[np.ndarray, np.ndarray]] | None = None

    def _open_streams(self) -> dict[int, WindowStream]:
        order, edges = self._order, self._order.edges
        return {
            number: WindowStream(
                *(order.shard(number), order.shuffle, int(edges[number]) // order.chunk_rows), self._size, CHUNKS_AHEAD
            )
            for number in order.shards_of(*self._part)
        }

    def batches(self, epoch: int, first: int) -> Generator[Any, None, None]:
        """The batches of an epoch."""
        order = self._order
        start = first - first % order.bucket if order.bucket else first
        low, high = order.cuts(*self._part, first=start)
        # After an epoch that was not finished a thread may still be at work on the old ones.
        streams, self._streams = self._streams or self._open_streams(), {}
        with contextlib.ExitStack() as stack:
            readers = itertools.cycle([stack.enter_context(BackgroundThread()) for _ in range(self._readers)])

            def submit(chunk: int, put: Callable[[Fields], SortedRows]) -> Future[SortedRows]:
                return next(readers).submit(lambda: put(self._source.read(chunk)))

            for number, stream in streams.items():
                stream.open(epoch, start * order.batch_size if order.bucket else int(low[number, 0]), submit)
            gather = partial(_gather, streams, self._pin)
            if order.bucket:
                self._block = None
                yield from self._stage(partial(self._bucketed, gather, epoch), range(first, order.batches))
            else:
                spans = ([(n, int(low[n, b]), int(high[n, b])) for n in streams] for b in range(low.shape[1]))
                yield from self._stage(gather, spans)
            for stream in streams.values():
                stream.close()
            self._streams = streams

    def _bucketed(self, gather: Callable[[list[tuple[int, int, int]]], Fields], epoch: int, batch: int) -> Fields:
        """On the thread: the rows of a batch out of several, which are sorted by length."""
        order, rank, ranks = self._order, *self._part
        number, within = divmod(batch, order.bucket)
        if self._block is None or self._block[0] != number:
            start = number * order.bucket * order.batch_size
            stop = min(order.samples, start + order.bucket * order.batch_size)
            fields = gather([(0, start, stop)])
            lengths = np.sum([part.lengths.numpy() for part in fields.values() if isinstance(part, Ragged)], axis=0)
            self._block = number, fields, order.bucket_index(epoch, number, lengths)
        _, fields, (index, sizes) = self._block
        start, count = int(sizes[:within].sum()), int(sizes[within])
        batch_index = index[start : start + count]
        own = torch.from_numpy(batch_index[count * rank // ranks : count * (rank + 1) // ranks])
        return {name: rows_of(part).take_rows(own) for name, part in fields.items()}


def _gather(streams: dict[int, WindowStream], pin: bool, spans: list[tuple[int, int, int]]) -> Fields:
    """On the thread: the rows of a batch, by shard and where they begin and end in its order."""
    parts = []
    for number, start, stop in spans:
        buffer = streams[number].buffer(stop - start, pin)
        streams[number].read(start, stop, buffer)
        parts.append(buffer.fields())
    if len(parts) == 1:
        return parts[0]
    return {name: rows_of(parts[0][name]).join_rows([part[name] for part in parts]) for name in parts[0]}


def chunks(rows: Dataset, order: Order) -> ChunkedSource:
    """The data by chunks of the order's size."""
    source = chunked(rows, order.chunk_rows)
    if source is None:
        raise InputError("this source can only be read whole; write it as a .npy or Parquet file")
    if source.chunk_rows != order.chunk_rows:
        raise InputError(
            f"this source has chunks of {source.chunk_rows} rows, not {order.chunk_rows}; leave chunk_rows out"
        )
    return source


def window_bytes(rows: Dataset, order: Order, ranks: int) -> tuple[int, int, int]:
    """Bytes of host memory for the window of a rank, for the chunks that are read ahead of it and those that are being
    read, and for batches that are put together to be sorted by length."""
    size = ChunkSize.of(rows.fields, order.chunk_rows)
    streams = [order.shard(number) for number in order.shards_of(0, ranks)]
    slots = sum(min(stream.chunks, 2 * stream.reach + 1) if order.shuffle else 1 for stream in streams)
    block = 2 * rows.batch_bytes(min(len(rows), order.bucket * order.batch_size)) if order.bucket else 0
    return slots * size.nbytes, (len(streams) * CHUNKS_AHEAD + _READERS) * size.nbytes, block
