"""Operations that find objects in grids, and that tell objects apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..cells import (
    COLORS,
    COMPONENTS,
    GRIDS,
    LIMIT,
    extreme_color,
    grouped,
    keep_lines,
    line_objects,
    located,
    looked_up,
    occurring,
    single_colored,
)
from ..columns import (
    Column,
    Grids,
    Ints,
    Lists,
    Patches,
    PatchKind,
    color_of,
    location_of,
)
from ..kernels import Computed, batched
from ..rows import indices_of, offsets_of, owners, select
from ..segments import any_of, canonical, maxima, minima, totals
from .colors import smallest_color


def _large(grids: Grids) -> Tensor:
    """Grids for which the bound on size may decide."""
    return grids.offsets.diff() > LIMIT


def _failure(rows: Tensor, category: Category) -> Tensor:
    """The code of a failure for some rows."""
    return select(rows, int(category), 0).to(torch.int8)


@batched("objects")
def objects(machine: Any, grid: Column, univalued: Any, diagonal: Any, without_bg: Any) -> Computed | None:
    if not isinstance(grid, Grids) or not all(isinstance(flag, Ints) for flag in (univalued, diagonal, without_bg)):
        return None
    without = without_bg.values != 0
    background = extreme_color(grid.cells, grid.offsets, True)
    column, left_out = grouped(grid, COMPONENTS, background, without, univalued.values != 0, diagonal.values != 0)
    no_color = without & (grid.offsets.diff() == 0)
    failed = select(no_color, int(Category.VALUE), select(grid.height == 0, int(Category.INDEX), 0))
    return Computed(column, failed.to(torch.int8), left_out, grid.offsets.diff())


@batched("partition")
def partition(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    nothing = torch.zeros_like(grid.height, dtype=torch.bool)
    column, left_out = grouped(grid, COLORS, grid.height, nothing, nothing, nothing)
    return Computed(column, None, left_out)


@batched("fgpartition")
def fgpartition(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    background = extreme_color(grid.cells, grid.offsets, True)
    every = torch.ones_like(background, dtype=torch.bool)
    column, left_out = grouped(grid, COLORS, background, every, every, every)
    return Computed(column, _failure(grid.offsets.diff() == 0, Category.VALUE), left_out)


@batched("asobject")
def asobject(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    nothing = torch.zeros_like(grid.height, dtype=torch.bool)
    whole, left_out = grouped(grid, GRIDS, grid.height, nothing, nothing, nothing)
    assert isinstance(whole.elements, Patches)
    offsets = whole.elements.offsets[whole.offsets]  # one object per grid, none for a grid without cells
    return Computed(Patches(whole.elements.keys, offsets, PatchKind.OBJECT), None, left_out, grid.offsets.diff())


@batched("asindices")
def asindices(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    return Computed(located(grid, None), None, _large(grid), grid.offsets.diff())


@batched("ofcolor")
def ofcolor(machine: Any, grid: Column, value: Column) -> Computed | None:
    if not isinstance(grid, Grids) or not isinstance(value, Ints):
        return None
    return Computed(located(grid, value.values), None, _large(grid))


@batched("toobject")
def toobject(machine: Any, patch: Column, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids) or not isinstance(patch, Patches):
        return None
    return Computed(looked_up(patch, grid), _failure(grid.height == 0, Category.INDEX))


@batched("occurrences")
def occurrences(machine: Any, grid: Column, obj: Column) -> Computed | None:
    if not isinstance(grid, Grids) or not isinstance(obj, Patches):
        return None
    (i, j), row, empty = location_of(obj.keys), owners(obj.offsets, len(obj.keys)), obj.sizes == 0
    top, left = minima(i, obj.offsets, 1), minima(j, obj.offsets, 1)
    rows = (grid.height - maxima(i, obj.offsets, 0) + top).clamp(min=0)
    columns = (grid.width - maxima(j, obj.offsets, 0) + left).clamp(min=0)
    failed = select(grid.height == 0, int(Category.INDEX), 0)
    looked_at = rows * columns
    if obj.kind is PatchKind.INDICES:  # locations have no color to compare
        failed = select((failed == 0) & ~empty & (looked_at > 0), int(Category.TYPE), failed)
    many = (looked_at > LIMIT) | (looked_at + obj.sizes * (looked_at // 8) > ELEMENTS)
    usable = ~many & (failed == 0)
    steps = (i - top[row]) * grid.width[row] + j - left[row]
    found = occurring(grid, rows * usable, columns * usable, color_of(obj.keys), steps, obj.offsets)
    return Computed(found, failed.to(torch.int8), many, looked_at + looked_at * obj.sizes // 256)


@batched("frontiers")
def frontiers(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    column = line_objects(grid, *single_colored(grid))
    return Computed(column, _failure(grid.height == 0, Category.INDEX), _large(grid))


@batched("compress")
def compress(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    rows, columns = single_colored(grid)
    return Computed(keep_lines(grid, ~rows, ~columns))


def _chosen(lists: Lists, keep: Tensor) -> Column | None:
    """The elements that a flag keeps, as a set."""
    offsets = offsets_of(totals(keep.to(torch.int64), lists.offsets))
    kept = Lists(lists.elements.take(indices_of(keep)), offsets, lists.unordered)
    return kept if lists.unordered else canonical(kept)


@batched("colorfilter")
def colorfilter(machine: Any, objs: Column, value: Column) -> Computed | None:
    if not isinstance(objs, Lists) or not isinstance(objs.elements, Patches) or not isinstance(value, Ints):
        return None
    colors, empty = smallest_color(objs.elements)
    column = _chosen(objs, (colors == value.values[objs.owner()]) & ~empty)
    return None if column is None else Computed(column, _failure(any_of(empty, objs.offsets), Category.OTHER))


@batched("sizefilter")
def sizefilter(machine: Any, container: Column, n: Column) -> Computed | None:
    if not isinstance(container, Lists) or not isinstance(n, Ints):
        return None
    if not isinstance(elements := container.elements, (Patches, Lists)):
        return None
    column = _chosen(container, elements.sizes == n.values[container.owner()])
    return None if column is None else Computed(column)
