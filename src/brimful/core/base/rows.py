"""The items of one part of a batch: the rows of a tensor, or the samples of a `Ragged`.

`rows_of` is the one place that tells the two apart. A `Ragged` has the operations itself, a tensor gets them from
`TensorRows`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .errors import InputError
from .formatting import a_kind
from .ragged import Ragged, Where, native, pick

Leaf = Tensor | Ragged
"""A part of a batch with the items along its leading axis."""

LEAVES = (Tensor, Ragged)
"""The same for `isinstance`, which is faster with a tuple."""


class TensorRows:
    """The rows of a tensor. One is made for every part of every batch, many times: it is as light as can be.

    Attributes:
        varies: whether the items differ in length.
        offsets: where the items begin, where they do.
    """

    varies: ClassVar[bool] = False
    offsets: ClassVar[None] = None
    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def count(self) -> int | None:
        """How many; None for a single number, which has no leading axis."""
        return self.tensor.shape[0] if self.tensor.ndim else None

    @property
    def elements(self) -> Tensor:
        """The numbers of all items."""
        return self.tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that it consists of."""
        return (self.tensor,)

    @property
    def form(self) -> tuple[str, tuple[int | None, ...]]:
        """Dtype and shape of one item; None in the place of a length that differs."""
        return str(self.tensor.dtype), tuple(self.tensor.shape[1:])

    def checked(self, name: str) -> Tensor:
        """It, in the form that all else here relies on."""
        return self.tensor

    def check_offsets(self, name: str) -> None:
        """Raises `InputError` where the items do not fit the numbers."""

    def change(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """After a function of all tensors, such as a move to a device."""
        return function(self.tensor)

    def cast(self, dtype: torch.dtype) -> Tensor:
        return self.tensor.to(dtype)

    def slice_rows(self, start: int, stop: int) -> Tensor:
        """Rows `start` to `stop`, without a copy."""
        return self.tensor[start:stop]

    def take_rows(self, index: Tensor) -> Tensor:
        """The rows of an index, copied."""
        return pick(self.tensor, index.to(self.tensor.device))

    def put_rows(self, where: Where, rows: Tensor) -> Tensor:
        """With other rows in the place of some, in its own memory."""
        native(self.tensor)[where] = native(rows)
        return self.tensor

    def join_rows(self, parts: Sequence[Tensor]) -> Tensor:
        """Parts of its form, one after the other."""
        return torch.cat(list(parts))

    def blank_rows(self, count: int) -> Tensor:
        """Rows of its form that say nothing: NaN, or 0 where there is no NaN."""
        tensor = self.tensor
        fill = float("nan") if tensor.is_floating_point() or tensor.is_complex() else 0
        return torch.full((count, *tensor.shape[1:]), fill, dtype=tensor.dtype)

    def all_rows(self, mask: Tensor) -> Tensor:
        """Which rows have a true mask for all their numbers."""
        return mask.reshape(len(mask), math.prod(mask.shape[1:])).all(dim=1)

    def gatherer(self, length: int) -> "TensorGatherer":
        """For so many rows of its form."""
        return TensorGatherer(self.tensor.new_empty((length, *self.tensor.shape[1:])))


@dataclass(frozen=True, slots=True, eq=False)
class TensorGatherer:
    """All rows, filled by batches in any order."""

    tensor: Tensor

    def put(self, where: Where, rows: Tensor) -> None:
        """Copies a batch into its place."""
        TensorRows(self.tensor).put_rows(where, rows)

    def whole(self) -> Tensor:
        return self.tensor


def rows_of(leaf: Leaf, name: str = "a batch") -> "TensorRows | Ragged":
    """The items of a part."""
    if isinstance(leaf, Tensor):
        return TensorRows(leaf)
    if isinstance(leaf, Ragged):
        return leaf
    raise not_a_leaf(leaf, name)


def not_a_leaf(part: object, name: str) -> InputError:
    """The error about a part of another type."""
    return InputError(f"{name} is {a_kind(part)}; it must be a tensor, or a tuple or dict of tensors")
