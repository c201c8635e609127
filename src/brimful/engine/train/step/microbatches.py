"""Micro-batches: slices of a batch along its leading axis, for when all of it does not fit."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from ....core.base.errors import InputError
from ....core.base.ragged import Ragged


def count_samples(batch: Any) -> int:
    """How many samples a batch holds: the leading axis of its first tensor."""
    count = _leading_axis(batch)
    if count is None:
        raise InputError(f"a batch of type {type(batch).__name__} holds no tensor with samples along its leading axis")
    return count


def _leading_axis(batch: Any) -> int | None:
    match batch:
        case Tensor():
            return len(batch) if batch.ndim else None
        case Ragged():
            return len(batch)
        case Mapping() | tuple() | list():
            parts = batch.values() if isinstance(batch, Mapping) else batch
            return next((count for count in map(_leading_axis, parts) if count is not None), None)
    return None


def micro_batches(batch: Any, count: int) -> Iterator[Any]:
    """The batch in `count` slices, equal to within one sample; the batch itself where there is one."""
    if count <= 1:
        yield batch
        return
    total = count_samples(batch)
    count = min(count, total)
    for index in range(count):
        yield slice_batch(batch, total, total * index // count, total * (index + 1) // count)


def slice_batch(batch: Any, total: int, start: int, stop: int) -> Any:
    """Samples `start` to `stop`, without a copy: of every tensor with the samples along its leading axis. Whatever
    else is in the batch goes into every slice as it is."""
    match batch:
        case Tensor():
            return batch[start:stop] if batch.ndim and len(batch) == total else batch
        case Ragged() if len(batch) == total:
            return batch.slice_rows(start, stop)
        case Mapping():
            return {key: slice_batch(part, total, start, stop) for key, part in batch.items()}
        case tuple() | list():
            parts = (slice_batch(part, total, start, stop) for part in batch)
            return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch
