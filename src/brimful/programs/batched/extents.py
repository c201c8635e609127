"""The bounding boxes of patches."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .columns import Patches, column_of, row_of
from .compiled import call, usable
from .gpu import has_kernels
from .loops import patches as loops
from .rows import select
from .segments import maxima, minima


class Extent(NamedTuple):
    """The bounding boxes of patches; 0 for an empty one, which `empty` names.

    Attributes:
        sides: heights and widths, where they are known.
    """

    top: Tensor
    left: Tensor
    bottom: Tensor
    right: Tensor
    empty: Tensor
    sides: tuple[Tensor, Tensor] | None = None

    @property
    def height(self) -> Tensor:
        if self.sides is not None:
            return self.sides[0]
        return select(self.empty, 0, self.bottom - self.top + 1)

    @property
    def width(self) -> Tensor:
        if self.sides is not None:
            return self.sides[1]
        return select(self.empty, 0, self.right - self.left + 1)


def extent(patch: Patches) -> Extent:
    """The bounding box of every patch."""
    if usable(patch.keys):
        top, left, bottom, right = call(loops.extents, patch.keys, patch.offsets)
        return Extent(top, left, bottom, right, patch.sizes == 0)
    if has_kernels(patch.keys):
        from .gpu.patches import extents

        return Extent(*extents(patch.keys, patch.offsets))
    return extent_plain(patch)


def extent_plain(patch: Patches) -> Extent:
    """The twin of `loops.extents`."""
    i, j = row_of(patch.keys), column_of(patch.keys)
    rows = (minima(i, patch.offsets, 0), maxima(i, patch.offsets, 0))
    columns = (minima(j, patch.offsets, 0), maxima(j, patch.offsets, 0))
    return Extent(rows[0], columns[0], rows[1], columns[1], patch.sizes == 0)
