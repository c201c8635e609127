"""The order of the next epoch, sorted while this one is read: on a thread, or on a GPU."""

import contextlib
import threading

import numpy as np
import torch
from torch import Tensor

from ...core.memory.oom import clear_frames, is_out_of_memory
from . import replayed
from .order import Order
from .philox import has_kernels

_WORTHWHILE = 1 << 15  # samples from which on sorting takes longer than starting a thread

Part = tuple[np.ndarray, np.ndarray]
"""Sample numbers, and the bounds of the batches among them."""


class EpochParts:
    """What a rank reads, epoch after epoch, on the host."""

    def __init__(self, order: Order, rank: int, ranks: int) -> None:
        self._order, self._part = order, (rank, ranks)
        self._ahead: tuple[int, threading.Thread, list[Part]] | None = None

    def __call__(self, epoch: int, first: int = 0) -> Part:
        """`Order.part` of an epoch, from batch `first` on."""
        numbers, bounds = self._whole(epoch)
        return numbers[bounds[first] :], bounds[first:] - bounds[first]

    def _whole(self, epoch: int) -> Part:
        ahead, self._ahead = self._ahead, None
        part = None
        if ahead is not None and ahead[0] == epoch:
            ahead[1].join()
            part = ahead[2].pop() if ahead[2] else None
        if part is None:
            part = self._order.part(epoch, *self._part)
        if self._order.shuffle and self._order.samples >= _WORTHWHILE and epoch < 2**64 - 1:
            self._begin(epoch + 1)
        return part

    def _begin(self, epoch: int) -> None:
        parts: list[Part] = []

        def sort() -> None:
            with contextlib.suppress(MemoryError):  # then it is sorted when it is needed, which says so
                parts.append(self._order.part(epoch, *self._part))

        thread = threading.Thread(target=sort, name="brimful-order")
        thread.start()
        self._ahead = (epoch, thread, parts)


class EpochPartsOnDevice:
    """The same on a device that works by itself: `prepare` is called between two batches, and returns at once. The
    device sorts while the host goes on, and the next epoch begins without waiting for it."""

    def __init__(self, order: Order, device: torch.device, rank: int, ranks: int) -> None:
        self._order, self._device, self._part = order, device, (rank, ranks)
        places, self._bounds = order.places(rank, ranks)
        self._places = torch.from_numpy(places).to(device) if isinstance(places, np.ndarray) else places
        self._ahead: tuple[int, object, Tensor] | None = None
        plain = order.shuffle and order.shards == ranks == 1 and order.shard(0).whole
        self._replays = plain and device.type == "cuda" and has_kernels() and 0 < order.samples <= replayed.MOST
        self._replayed: replayed.ReplayedPermutation | None = None
        self._sorted = 0  # orders so far: a graph pays from the third on

    def __call__(self, epoch: int, first: int = 0) -> tuple[Tensor, np.ndarray]:
        """`Order.part` of an epoch, from batch `first` on; the numbers are on the device."""
        ahead, self._ahead = self._ahead, None
        ready = ahead is not None and ahead[:2] == (epoch, self._stream())  # another stream would have to wait
        index_N = ahead[2] if ahead is not None and ready else self._sort(epoch)
        return index_N[int(self._bounds[first]) :], self._bounds[first:] - self._bounds[first]

    def prepare(self, epoch: int) -> None:
        """Has the order of an epoch made, to be there when it begins."""
        if not self._order.shuffle or epoch >= 2**64 or (self._ahead is not None and self._ahead[0] == epoch):
            return
        self._ahead = None
        try:
            self._ahead = epoch, self._stream(), self._sort(epoch)
        except Exception as error:  # it is sorted when it is needed, and that says so
            if not is_out_of_memory(error):
                raise
            clear_frames(error)

    def _stream(self) -> object:
        return torch.cuda.current_stream(self._device) if self._device.type == "cuda" else None

    def _sort(self, epoch: int) -> Tensor:
        self._sorted += 1
        if self._replays and self._sorted > 2 and not torch.cuda.is_current_stream_capturing():
            try:
                if self._replayed is None:
                    self._replayed = replayed.ReplayedPermutation(self._device, self._order.samples, self._order.seed)
                return self._replayed(epoch)[self._places]
            except RuntimeError as error:  # one by one from now on
                clear_frames(error)
                self._replays, self._replayed = False, None
        return self._order.part_on(self._device, epoch, *self._part, self._places)
