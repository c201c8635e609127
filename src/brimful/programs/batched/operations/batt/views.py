"""Patches as a batt has them, whatever column holds them: sets or tuples of locations (i, j) or of cells (i, j, color).

A kernel here does the plain rows. Rows for which an operation would raise, or would give what no column holds, such as
NaN, run sequentially: what a safe operation makes of a failure inside of it is decided there, in one place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...columns import (
    NAN,
    NAN_COLOR,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    Triples,
    key_of,
    location_of,
    triples,
)
from ...columns import color_of as color_of_key
from ...extents import Extent, extent
from ...kernels import KERNELS, Computed, batched
from ...rows import select
from ...segments import canonical, flagged, sort_unique
from ..patches import is_blank


class Patch(NamedTuple):
    """Locations, or cells where there are colors, those of all rows one after the other.

    Attributes:
        offsets: (R + 1,).
        unordered: whether they are sets, and not tuples.
    """

    i: Tensor
    j: Tensor
    color: Tensor | None
    offsets: Tensor
    unordered: bool

    @property
    def sizes(self) -> Tensor:
        return self.offsets.diff()

    @property
    def empty(self) -> Tensor:
        return self.sizes == 0


def patch_of(column: Column) -> Patch | None:
    """A column as patches; None where it holds something else."""
    match column:
        case Patches(kind=PatchKind.INDICES):
            return Patch(*location_of(column.keys), None, column.offsets, True)
        case Lists(elements=Triples(numbers=(i, j, color))):
            return Patch(i, j, color, column.offsets, column.unordered)
        case Lists(elements=Pairs(first=i, second=j), unordered=False):
            return Patch(i, j, None, column.offsets, False)
    if (isinstance(column, Grids) and is_blank(column)) or (isinstance(column, Lists) and not column.elements.rows):
        none = column.offsets[:0]
        unordered = isinstance(column, Lists) and column.unordered
        return Patch(none, none, None, torch.zeros_like(column.offsets), unordered)
    return None


def objects_of(column: Column) -> Patch | None:
    """A column as patches of cells, or without any element."""
    patch = patch_of(column)
    return None if patch is None or (patch.color is None and len(patch.i)) else patch


def indices_of(column: Column) -> Patch | None:
    """A column as patches of locations, or without any element."""
    patch = patch_of(column)
    return None if patch is None or (patch.color is not None and len(patch.i)) else patch


def places(patch: Patch) -> Patches:
    """The locations of patches, as sets."""
    return Patches(*sort_unique(key_of(patch.i, patch.j), patch.offsets), PatchKind.INDICES)


def reach(patch: Patch) -> Extent:
    """The bounding boxes of patches."""
    return extent(Patches(key_of(patch.i, patch.j), patch.offsets, PatchKind.INDICES))


def colors_of(patch: Patch) -> Tensor:
    """The colors of the cells of patches without a location that is no cell."""
    return patch.i[:0] if patch.color is None else patch.color


def as_arc(patch: Patch) -> Patches:
    """Objects as arc-dsl has them: sets of cells (color, (i, j))."""
    return Patches(*sort_unique(key_of(patch.i, patch.j, colors_of(patch)), patch.offsets), PatchKind.OBJECT)


def cells_of_arc(column: Patches) -> Lists:
    """Objects of arc-dsl as a batt has them."""
    cells = triples(*location_of(column.keys), color_of_key(column.keys))
    keys, offsets = sort_unique(cells.keys, column.offsets)
    return Lists(Triples(keys), offsets, True)


def objects_of_arc(objects: Lists) -> Column | None:
    """Sets of objects of arc-dsl as a batt has them."""
    assert isinstance(objects.elements, Patches)
    return canonical(Lists(cells_of_arc(objects.elements), objects.offsets, True))


def equal_to_itself(colors: Tensor) -> Tensor:
    """Colors that are compared with those of cells, and equal none of them where they are NaN."""
    return select(colors == NAN_COLOR, NAN, colors)


def plain(computed: Computed | None, *odd: Tensor | None, column: Column | None = None) -> Computed | None:
    """What a kernel gives for the plain rows; odd ones, and those that it says fail, run sequentially.

    Args:
        column: in the place of its own.
    """
    if computed is None:
        return None
    failed = None if computed.failed is None else computed.failed != 0
    flags = flagged(computed.sequential, failed, *odd)
    return Computed(computed.column if column is None else column, None, flags, computed.reserved, computed.boxed)


def of_arc(*names: str, arc: str, patches: tuple[int, ...] = (), empty: bool = True) -> None:
    """Registers arc-dsl's kernel as that of operations of a batt which do the same to the locations of patches.

    Args:
        names: of the operations.
        arc: the name of arc-dsl's.
        patches: which arguments are patches.
        empty: whether empty patches run sequentially.
    """
    known = KERNELS[arc]

    def kernel(machine: Any, *columns: Any) -> Computed | None:
        given, odd = list(columns), list[Tensor]()
        for at in patches:
            patch = patch_of(columns[at])
            if patch is None:
                return None
            given[at] = columns[at] if isinstance(columns[at], Patches) else places(patch)
            if empty:
                odd.append(patch.empty)
        return plain(known(machine, *given), *odd)

    batched(*(f"batt.{name}" for name in names))(kernel)


def flag(flags: Tensor) -> Computed:
    """Booleans."""
    return Computed(Ints(flags.to(torch.int64), True))


def is_tuple(column: Column) -> bool:
    """Whether values are tuples."""
    return isinstance(column, Grids | Pairs | Triples) or (isinstance(column, Lists) and not column.unordered)
