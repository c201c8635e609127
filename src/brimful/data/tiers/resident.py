"""The device tier: all rows on the device, batches picked from them there.

Legend: N samples, B samples of a batch.
"""

import itertools
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.ragged import Ragged, native, pick
from ..dataset import Dataset, Fields, collect
from ..shuffle.ahead import EpochParts, EpochPartsOnDevice
from .tier import Reading

_LOADED = 64 * 2**20  # bytes at a time
_VIEWS = 1024  # batches whose indices are split off at a time


class Resident:
    """All rows that a rank reads, on its device. They are loaded when this is made.

    Attributes:
        nbytes: of the rows that were copied; 0 where they are on the device by themselves.
    """

    def __init__(self, reading: Reading) -> None:
        rows, device = reading.rows, reading.device
        self._device, self._order, self._part = device, reading.order, (reading.rank, reading.ranks)
        self._fill, self._pack, self._clock = reading.fill, rows.pack, reading.clock
        self._lengths = {name: field.lengths for name, field in rows.fields.items()}
        start, stop = self._order.rows_of(*self._part)
        if rows.ready(device):
            start, stop = 0, len(rows)
        whole = rows.whole(device) if (start, stop) == (0, len(rows)) else None
        self._start = start  # the sample that is the first row here
        self._columns: Fields = whole or load(rows, start, stop, device, reading.workers)
        self.nbytes = 0 if whole else pytree.nbytes(self._columns)
        self._spans = {
            name: (column.offsets[:-1], column.lengths)
            for name, column in self._columns.items()
            if isinstance(column, Ragged)
        }
        on_host = device.type == "cpu" or bool(self._spans)
        self._parts = EpochParts(self._order, *self._part) if on_host else None
        self._parts_on_device = None if on_host else EpochPartsOnDevice(self._order, device, *self._part)

    def batches(self, epoch: int, first: int) -> Generator[Any, None, None]:
        """The batches of an epoch, whose order is on the device as well."""
        began = time.perf_counter()
        if self._parts_on_device is not None:
            index_N, bounds = self._parts_on_device(epoch, first)
            batches = self._plain(index_N, np.diff(bounds).tolist(), epoch + 1)
        else:
            assert self._parts is not None
            numbers, bounds = self._parts(epoch, first)
            index_N = torch.from_numpy(numbers).to(self._device)
            plain = not self._spans
            batches = (
                self._plain(index_N, np.diff(bounds).tolist()) if plain else self._ragged(index_N, numbers, bounds)
            )
        self._clock.add(time.perf_counter() - began)
        return batches

    def _plain(self, index_N: Tensor, sizes: list[int], following: int | None = None) -> Generator[Any, None, None]:
        """One index operation per field, and as little else as can be: `index_select` is the quicker one on a CPU, and
        plain indexing on a GPU. The order of the epoch `following` is begun once the first batch is under way."""
        if self._start:
            index_N = index_N - self._start
        pack, columns = self._pack, [(name, native(column), column.dtype) for name, column in self._columns.items()]
        same = all(column.dtype == dtype for _, column, dtype in columns)
        done, on_cpu = 0, self._device.type == "cpu"
        for start in range(0, len(sizes), _VIEWS):
            some = sizes[start : start + _VIEWS]
            count = sum(some)
            for index_B in index_N[done : done + count].split(some):
                if on_cpu:
                    picked = {name: column.index_select(0, index_B) for name, column, _ in columns}
                else:
                    picked = {name: column[index_B] for name, column, _ in columns}
                if not same:
                    picked = {name: picked[name].view(dtype) for name, _, dtype in columns}
                yield pack(picked)
                if following is not None and self._parts_on_device is not None:
                    self._parts_on_device.prepare(following)
                    following = None
            done += count

    def _ragged(self, index_N: Tensor, numbers: np.ndarray, bounds: np.ndarray) -> Generator[Any, None, None]:
        for start, stop in itertools.pairwise(bounds.tolist()):
            index_B, host_B = index_N[start:stop] - self._start, numbers[start:stop]
            yield self._pack(
                {name: self._rows(name, column, index_B, host_B) for name, column in self._columns.items()}
            )

    def _rows(self, name: str, column: Any, index_B: Tensor, host_B: np.ndarray) -> Any:
        lengths = self._lengths[name]
        if lengths is None:
            return pick(column, index_B)
        starts_N, lengths_N = self._spans[name]
        starts_B, lengths_B = starts_N.index_select(0, index_B), lengths_N.index_select(0, index_B)
        return self._fill(column.values, starts_B, lengths_B, lengths[host_B])


def load(rows: Dataset, start: int, stop: int, device: torch.device, workers: int) -> Fields:
    """Consecutive rows copied to a device, some megabytes at a time."""
    step = max(1, _LOADED * len(rows) // max(1, rows.nbytes))
    fields = {
        name: field if field.lengths is None else replace(field, lengths=field.lengths[start:stop])
        for name, field in rows.fields.items()
    }
    ranges = [(low, min(stop, low + step)) for low in range(start, stop, step)]
    if rows.sequential:
        return collect(fields, stop - start, (_checked(rows, *part) for part in ranges), device)
    with rows.reading(workers) as gather:
        return collect(fields, stop - start, (gather(np.arange(*part)) for part in ranges), device)


def _checked(rows: Dataset, start: int, stop: int) -> Fields:
    fields, bad = rows.load(slice(start, stop))
    for row in sorted(bad):
        raise rows.row_error(bad[row], start + row)
    return fields
