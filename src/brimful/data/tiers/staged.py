"""Batches that are gathered on a thread and copied to the device ahead of their use."""

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ...core.base.background import BackgroundThread
from ...core.base.ragged import Ragged
from ...core.base.rows import rows_of
from ..dataset import Fields
from .tier import Reading

AHEAD = 2
"""Batches that are on their way besides the one in use."""

Request = TypeVar("Request")

_Arriving = tuple[Fields, dict[str, np.ndarray], Any]
"""The fields of a batch, the host lengths of its ragged ones, and the event after which they are on the device."""


class Staged:
    """Batches ahead of their use; on CUDA from pinned memory, copied on a stream of their own while the last batch
    computes."""

    def __init__(self, reading: Reading) -> None:
        self._device, self._fill, self._pack = reading.device, reading.fill, reading.rows.pack
        self._pin, self._clock = reading.device.type == "cuda", reading.clock
        self._stream = torch.cuda.Stream(reading.device) if self._pin else None

    def _stage(self, gather: Callable[[Request], Fields], requests: Iterable[Request]) -> Iterator[Any]:
        """A batch for every request; `gather` is called on a thread, for one after the other."""
        if self._stream is not None:  # rows that are on the device already may still be on their way
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
        waiting = iter(requests)
        with BackgroundThread() as ahead:

            def submit(used: Any = None) -> Iterator[Future[_Arriving]]:
                for request in itertools.islice(waiting, 1):
                    yield ahead.submit(partial(self._bring, gather, request, used))

            coming = deque(itertools.chain.from_iterable(submit() for _ in range(AHEAD)))
            used = None
            while coming:
                coming.extend(submit(used))
                began = time.perf_counter()
                arriving = coming.popleft().result()
                if used is None:
                    self._clock.add(time.perf_counter() - began)
                yield self._land(arriving, used)
                used = self._used()

    def _used(self) -> Any:
        """What happens on the device when all that the caller has asked of it so far is done."""
        if self._stream is None:
            return None
        return torch.cuda.current_stream(self._device).record_event(torch.cuda.Event(enable_timing=True, blocking=True))

    def _bring(self, gather: Callable[[Request], Fields], request: Request, used: Any) -> _Arriving:
        """On the thread: the rows of a batch, on their way to the device. Not before the batch that was given out last
        is used up there, so that a caller that never waits for the device does not fill it with batches."""
        with torch.cuda.stream(self._stream) if self._stream else contextlib.nullcontext():
            fields = gather(request)
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

    def _land(self, arriving: _Arriving, used: Any) -> Any:
        """On the caller's thread: the batch, for the stream that will use it."""
        fields, lengths, event = arriving
        if event is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(event)
            if used is not None:
                self._clock.add_events(used, stream.record_event(torch.cuda.Event(enable_timing=True)))
            for tensor in itertools.chain.from_iterable(rows_of(part).tensors for part in fields.values()):
                tensor.record_stream(stream)
        if not self._fill.packed:
            for name, host_B in lengths.items():
                part = fields[name]
                fields[name] = self._fill(part.values, part.offsets[:-1], part.lengths, host_B)
        return self._pack(fields)
