"""Operations on the colors of grids and of objects.

A set of locations has the colors that the sequential operation reads there: the rows of its locations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ..cells import color_counts, extreme_color
from ..columns import Cells, Column, Grids, Ints, Lists, Patches, PatchKind, color_of, row_of
from ..kernels import Computed, batched
from ..rows import owners, select
from ..segments import totals


def colors_of(element: Column) -> tuple[Tensor, Tensor] | None:
    """The colors of all cells, and where rows begin; None for a column without colors."""
    match element:
        case Grids():
            return element.cells, element.offsets
        case Patches(kind=PatchKind.OBJECT):
            return color_of(element.keys), element.offsets
        case Patches():
            return row_of(element.keys), element.offsets
    return None


def smallest_color(patches: Patches) -> tuple[Tensor, Tensor]:
    """The smallest color of every patch, and whether it has none."""
    empty = patches.sizes == 0
    if not len(patches.keys):
        return torch.zeros_like(patches.sizes), empty
    keys = patches.keys[select(empty, 0, patches.offsets[:-1])]
    return color_of(keys) if patches.kind is PatchKind.OBJECT else row_of(keys), empty


@batched("color")
def color(machine: Any, obj: Column) -> Computed | None:
    if isinstance(obj, Lists) and isinstance(obj.elements, Cells) and not obj.unordered:  # that of its first cell
        obj = Patches(obj.elements.keys, obj.offsets, PatchKind.OBJECT)
    if not isinstance(obj, Patches):
        return None
    colors, empty = smallest_color(obj)
    return Computed(Ints(colors), select(empty, int(Category.STOP_ITERATION), 0).to(torch.int8))


def _extreme(element: Column, greatest: bool) -> Computed | None:
    colors = colors_of(element)
    if colors is None:
        return None
    failed = select(colors[1].diff() == 0, int(Category.VALUE), 0).to(torch.int8)
    return Computed(Ints(extreme_color(*colors, greatest)), failed)


@batched("mostcolor")
def mostcolor(machine: Any, element: Column) -> Computed | None:
    return _extreme(element, True)


@batched("leastcolor")
def leastcolor(machine: Any, element: Column) -> Computed | None:
    return _extreme(element, False)


@batched("palette")
def palette(machine: Any, element: Column) -> Computed | None:
    colors = colors_of(element)
    if colors is None:
        return None
    distinct, _, offsets = color_counts(*colors)
    return Computed(Lists(Ints(distinct), offsets, True))


@batched("numcolors")
def numcolors(machine: Any, element: Column) -> Computed | None:
    colors = colors_of(element)
    return None if colors is None else Computed(Ints(color_counts(*colors)[2].diff()))


@batched("colorcount")
def colorcount(machine: Any, element: Column, value: Column) -> Computed | None:
    colors = colors_of(element)
    if colors is None or not isinstance(value, Ints):
        return None
    distinct, counts, offsets = color_counts(*colors)
    return Computed(Ints(totals(select(distinct == value.values[owners(offsets, len(distinct))], counts, 0), offsets)))
