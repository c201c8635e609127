"""The two tiers: batches picked from rows on the device, or gathered on a thread and copied ahead.

Both give the same batches. Legend: N samples, B samples of a batch.
"""

import contextlib
import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.base.background import BackgroundThread
from ..core.base.ragged import Ragged, pick
from ..core.base.rows import rows_of
from .dataset import Dataset, Fields, Gather, collect
from .ragged import Padded, packed, padded
from .residency import AHEAD

_LOADED = 64 * 2**20  # bytes at a time

_Arriving = tuple[Fields, dict[str, np.ndarray], Any]
"""The fields of a batch, the host lengths of its ragged ones, and the event after which they are on the device."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How a ragged batch is given: filled up with `pad`, or as values and offsets."""

    pad: float = 0
    packed: bool = False

    def __call__(self, values: Tensor, starts_B: Tensor, lengths_B: Tensor, host_B: np.ndarray) -> Padded | Ragged:
        """`host_B` are the lengths again, in host memory: sizes come from there, and nobody waits for the device."""
        if self.packed:
            return packed(values, starts_B, lengths_B, int(host_B.sum()))
        return padded(values, starts_B, lengths_B, int(host_B.max(initial=0)), self.pad)


class Resident:
    """All rows on the device. They are loaded when this is made."""

    def __init__(self, rows: Dataset, device: torch.device, fill: Fill, workers: int = 0) -> None:
        self._device, self._fill, self._pack = device, fill, rows.pack
        self._lengths = {name: field.lengths for name, field in rows.fields.items()}
        self._columns: Fields = rows.whole(device) or _loaded(rows, device, workers)
        self._spans = {
            name: (column.offsets[:-1], column.lengths)
            for name, column in self._columns.items()
            if isinstance(column, Ragged)
        }

    def batches(self, index: np.ndarray, bounds: np.ndarray) -> Iterator[Any]:
        """The batches between the bounds of an index, which is moved to the device once."""
        index_N = torch.from_numpy(index).to(self._device)
        for start, stop in itertools.pairwise(bounds.tolist()):
            index_B = index_N[start:stop]
            yield self._pack(
                {name: self._rows(name, column, index_B, index[start:stop]) for name, column in self._columns.items()}
            )

    def _rows(self, name: str, column: Any, index_B: Tensor, host_B: np.ndarray) -> Any:
        lengths = self._lengths[name]
        if lengths is None:
            return pick(column, index_B)
        starts_N, lengths_N = self._spans[name]
        starts_B, lengths_B = starts_N.index_select(0, index_B), lengths_N.index_select(0, index_B)
        return self._fill(column.values, starts_B, lengths_B, lengths[host_B])


def _loaded(rows: Dataset, device: torch.device, workers: int) -> Fields:
    """All rows copied to a device, some megabytes at a time."""
    step = max(1, _LOADED * len(rows) // max(1, rows.nbytes))
    with rows.reading(workers) as gather:
        parts = (gather(np.arange(start, min(len(rows), start + step))) for start in range(0, len(rows), step))
        return collect(rows.fields, len(rows), parts, device)


class Pinned:
    """Rows gathered on a thread, batches ahead of their use; on CUDA into pinned memory, from which they are copied
    on a stream of their own while the last batch computes."""

    def __init__(self, rows: Dataset, device: torch.device, fill: Fill, workers: int = 0) -> None:
        self._reading = partial(rows.reading, workers, pin=device.type == "cuda")
        self._device, self._fill, self._pack = device, fill, rows.pack
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def batches(self, index: np.ndarray, bounds: np.ndarray) -> Iterator[Any]:
        """The batches between the bounds of an index."""
        if self._stream is not None:  # rows that are on the device already may still be on their way
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
        spans = itertools.pairwise(bounds.tolist())
        with self._reading() as gather, BackgroundThread() as ahead:

            def order(used: Any = None) -> Iterator[Future[_Arriving]]:
                for start, stop in itertools.islice(spans, 1):
                    yield ahead.submit(partial(self._bring, gather, index[start:stop], used))

            coming = deque(itertools.chain.from_iterable(order() for _ in range(AHEAD)))
            used = None
            while coming:
                coming.extend(order(used))
                yield self._land(coming.popleft().result())
                used = self._used()

    def _used(self) -> Any:
        """What happens on the device when all that the caller has asked of it so far is done."""
        if self._stream is None:
            return None
        return torch.cuda.current_stream(self._device).record_event(torch.cuda.Event(blocking=True))

    def _bring(self, gather: Gather, index: np.ndarray, used: Any) -> _Arriving:
        """On the thread: the rows of a batch, on their way to the device. Not before the batch that was given out last
        is used up there, so that a caller that never waits for the device does not fill it with batches."""
        with torch.cuda.stream(self._stream) if self._stream else contextlib.nullcontext():
            fields = gather(index)
            lengths = {name: part.lengths.numpy() for name, part in fields.items() if isinstance(part, Ragged)}
            if self._stream is None:
                return fields, lengths, None
            if used is not None:
                used.synchronize()
            fields = {name: rows_of(part).change(self._send) for name, part in fields.items()}
            return fields, lengths, self._stream.record_event()

    def _send(self, tensor: Tensor) -> Tensor:
        pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
        # The host's allocator does not hand out `pinned` again before it has been copied.
        return pinned.to(self._device, non_blocking=True)

    def _land(self, arriving: _Arriving) -> Any:
        """On the caller's thread: the batch, for the stream that will use it."""
        fields, lengths, event = arriving
        if event is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(event)
            for tensor in itertools.chain.from_iterable(rows_of(part).tensors for part in fields.values()):
                tensor.record_stream(stream)
        if not self._fill.packed:
            for name, host_B in lengths.items():
                part = fields[name]
                fields[name] = self._fill(part.values, part.offsets[:-1], part.lengths, host_B)
        return self._pack(fields)
