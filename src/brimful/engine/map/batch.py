"""What a function returns for a batch, the status of each item, and the result of a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.formatting import a_kind
from ...core.base.rows import Leaf
from ...core.base.supported import refusal


class Status(IntEnum):
    """The status of an item. 0 is good; codes from 16 on are the function's own, and are passed through."""

    OK = 0
    RESCUED = 1
    """The result comes from the fallback."""
    NONFINITE = 2
    """The result holds a NaN or an infinity."""
    FAILED = 3
    """The function raised an exception on this item."""
    TOO_BIG = 4
    """This item alone does not fit the budget."""
    TIMEOUT = 5
    """This item alone takes longer than `timeout=`."""


RESULT = "the function's result"
"""What errors call it."""

OWN_CODES = 16
"""From here on, status codes are the function's own."""


def is_bad(status: np.ndarray) -> np.ndarray:
    """Which items have no good result."""
    return status > 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A function's results when it knows itself which items went wrong.

    Attributes:
        values: a tensor or a `data.Ragged`, or a tuple or dict of them, items along the leading axis.
        status: one integer per item: `Status` codes, or the function's own from 16 on. None: all good.
        message: an item's index in the batch to a sentence about it.
        meaning: a status code to the sentence about every item that has it; a message takes precedence. On a GPU this
            is faster: the function need not wait to see where the codes are.
        fresh: whether the values are in new memory, to which nothing else refers. They are then kept as they are; by
            default a copy is, since the function may use the same memory for its next batch.

    Example:
        >>> import torch
        >>> def root(x):
        ...     bad = x < 0
        ...     return Batch(x.clamp(min=0).sqrt(), status=bad * Status.FAILED,
        ...                  message={int(i): "negative" for i in bad.nonzero()})
        >>> root(torch.tensor([4.0, -1.0])).status
        tensor([0, 3])
    """

    values: Any
    status: torch.Tensor | None = None
    message: Mapping[int, str] = field(default_factory=dict)
    meaning: Mapping[int, str] = field(default_factory=dict)
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """A shard that a worker has written into the run directory, under a temporary name. It counts once the driver has
    given it its own: what a worker writes after it was given up is never looked at.

    Attributes:
        name: the temporary one.
        note: the form of the values.
        table_bytes, value_bytes: of the table, and of the values alone.
        varies: whether values of items differ in length.
    """

    name: str
    note: bytes
    table_bytes: int
    value_bytes: int
    varies: bool


@dataclass(slots=True)
class BatchResult:
    """A finished batch in host memory.

    Attributes:
        values: the results; None when every item failed and nobody knows yet what a result looks like, or when a worker
            has written them.
        messages: what went wrong with an item, by its index in the batch.
        reran: whether failing items made it run more than once, so that its time says little.
        written: the shard of values that a worker has written; None where they are here.
    """

    start: int
    count: int
    values: pytree.Tree | None
    status: np.ndarray
    messages: dict[int, str] = field(default_factory=dict)
    reran: bool = False
    written: WrittenShard | None = None

    @property
    def value_bytes(self) -> int | None:
        """Those of the values, wherever they are; None where there are none."""
        if self.written is not None:
            return self.written.value_bytes
        return None if self.values is None else pytree.nbytes(self.values)

    @property
    def varies(self) -> bool:
        """Whether values of items differ in length."""
        return pytree.varies(self.values) if self.values is not None else bool(self.written and self.written.varies)


def _result(part: Any) -> Any:
    """A part of a result, an array as a tensor; what cannot be stored is refused."""
    if isinstance(part, np.ndarray | np.generic):
        return pytree.as_tensor(part, RESULT)
    if isinstance(part, torch.Tensor) and (reason := refusal(part)):
        raise InputError(f"{RESULT} {reason}")
    return part


def check(returned: Any, count: int) -> Batch:
    """What a function returned, as a `Batch` of the right length."""
    batch = returned if isinstance(returned, Batch) else Batch(returned)
    if not isinstance(batch.values, Leaf | np.ndarray | tuple | list | Mapping):
        raise InputError(
            f"the function returned {a_kind(batch.values)}; it must return a tensor, a NumPy array or a "
            "Ragged, or a tuple or dict of them"
        )
    values = pytree.checked(pytree.map_leaves(batch.values, _result), RESULT)
    if isinstance(values, torch.Tensor) and values.ndim == 0:
        raise InputError(
            f"the function returned a single number for {count} items; return one row per item, as batch.sum(1) does"
        )
    rows = pytree.rows(values, RESULT)
    if rows != count:
        raise InputError(
            f"the function got {count} items and returned {rows} rows; the result's leading axis must be the items"
        )
    if batch.status is None:
        return replace(batch, values=values)
    status = torch.as_tensor(batch.status)
    if status.shape != (count,) or status.is_floating_point():
        raise InputError(
            f"Batch.status has shape {tuple(status.shape)} and dtype {status.dtype}; give {count} whole numbers"
        )
    return Batch(values, status, batch.message, batch.meaning, batch.fresh)
