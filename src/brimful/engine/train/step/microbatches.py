"""A batch in pieces along its leading axis: what is computed at a time when all of it does not fit."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from ....core.base.errors import InputError
from ....data.ragged import Ragged


def samples(batch: Any) -> int:
    """How many samples a batch holds: the leading axis of its first tensor."""
    count = _first(batch)
    if count is None:
        raise InputError(f"a batch of type {type(batch).__name__} holds no tensor with samples along its leading axis")
    return count


def _first(batch: Any) -> int | None:
    match batch:
        case Tensor():
            return len(batch) if batch.ndim else None
        case Ragged():
            return len(batch)
        case Mapping():
            parts = iter(batch.values())
        case tuple() | list():
            parts = iter(batch)
        case _:
            return None
    return next((count for count in (_first(part) for part in parts) if count is not None), None)


def pieces(batch: Any, count: int) -> Iterator[Any]:
    """The batch in `count` pieces of equal size, to one sample; whole where one is asked for."""
    if count <= 1:
        yield batch
        return
    total = samples(batch)
    count = min(count, total)
    for place in range(count):
        yield cut(batch, total, total * place // count, total * (place + 1) // count)


def cut(batch: Any, total: int, start: int, stop: int) -> Any:
    """Samples `start` to `stop`, without a copy: of every tensor with the samples along its leading axis. Whatever
    else is in the batch goes into every piece as it is."""
    match batch:
        case Tensor():
            return batch[start:stop] if batch.ndim and len(batch) == total else batch
        case Ragged() if len(batch) == total:
            first, last = int(batch.offsets[start]), int(batch.offsets[stop])  # waits for the device
            return Ragged(batch.values[first:last], batch.offsets[start : stop + 1] - first)
        case Mapping():
            return {key: cut(part, total, start, stop) for key, part in batch.items()}
        case tuple() if hasattr(batch, "_fields"):
            return type(batch)(*(cut(part, total, start, stop) for part in batch))
        case tuple() | list():
            return type(batch)(cut(part, total, start, stop) for part in batch)
    return batch
