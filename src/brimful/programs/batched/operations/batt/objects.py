"""Grids of a batt taken apart into objects; periods and occurrences of objects."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...cells import (
    COLORS,
    COMPONENTS,
    LIMIT,
    by_distance,
    grouped,
    line_objects,
    occurring,
    places,
    single_colored,
)
from ...columns import BITS, NAN_COLOR, Column, Grids, Ints, Lists, Patches, Triples, color_of, triples
from ...kernels import KERNELS, Computed, batched
from ...nan import nan_rows
from ...rows import indices_of, offsets_of, select
from ...segments import any_of, together, totals
from ..painting import background_of
from ..periods import periods
from .views import as_arc, colors_of, equal_to_itself, objects_of, objects_of_arc, plain, reach

_NUMBERS = 8
"""Kinds of objects."""
_APART = 1_000
"""The color in the place of NaN while objects are found: the colors of a grid may not lie far apart there."""
_PERIODS = 1 << 20
"""Cells times periods of a row that are tried here at most; where there are more, the bound on size decides."""
_COMPARED = 1 << 24
"""Cells of a row that are compared here at most; where there are more, the bound on size decides."""


def _kinds(type: Column) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor] | None:
    """What the number of a kind says: one color, diagonal, without background; and the rows where it is no kind."""
    if not isinstance(type, Ints):
        return None
    number = type.values
    return (number & 4 != 0, number & 2 != 0, number & 1 != 0), (number < 0) | (number >= _NUMBERS)


def _flags(*columns: Column) -> tuple[Tensor, ...] | None:
    """Whether numbers are true."""
    flags = [column.values != 0 for column in columns if isinstance(column, Ints)]
    return tuple(flags) if len(flags) == len(columns) else None


def _sets(machine: Any, grid: Column, flags: tuple[Tensor, ...] | None, odd: Tensor | None = None) -> Computed | None:
    """The objects of grids as sets."""
    if flags is None or not isinstance(grid, Grids):
        return None
    univalued, diagonal, without = flags
    most_common = background_of(grid)
    background = equal_to_itself(most_common)
    if not machine.nan or nan_rows(grid) is None:
        found, left_out = grouped(grid, COMPONENTS, background, without, univalued, diagonal)
    else:
        cells = select(grid.cells == NAN_COLOR, _APART, grid.cells)
        like = any_of((grid.cells >= _APART) & (grid.cells != NAN_COLOR), grid.offsets)
        odd = together(odd, like, without & (most_common == NAN_COLOR))
        low = Grids(cells, grid.offsets, grid.height, grid.width)
        found, left_out = grouped(low, COMPONENTS, background, without, univalued, diagonal, _APART)
        patches = found.elements
        assert isinstance(patches, Patches)
        nan = color_of(patches.keys) == _APART
        keys = patches.keys + select(nan, NAN_COLOR - _APART << 2 * BITS, 0)
        found = Lists(Patches(keys, patches.offsets, patches.kind), found.offsets, True)
    column = objects_of_arc(found)
    return None if column is None else plain(Computed(column), left_out, _hollow(grid), odd)


def _tuples(grid: Column, flags: tuple[Tensor, ...] | None, odd: Tensor | None = None) -> Computed | None:
    """The objects of grids as tuples of tuples of cells."""
    if flags is None or not isinstance(grid, Grids):
        return None
    univalued, diagonal, without = flags
    cells, offsets, lists = by_distance(grid, background_of(grid), without, univalued, diagonal)
    column = Lists(Lists(Triples(cells), offsets, False), lists, False)
    return plain(Computed(column), _large(grid), _hollow(grid), odd)


def _hollow(grid: Grids) -> Tensor:
    """Grids of rows without cells."""
    return (grid.height > 0) & (grid.width == 0)


def _large(grid: Grids) -> Tensor:
    return grid.offsets.diff() > LIMIT


@batched("batt.objects")
def objects(machine: Any, grid: Column, univalued: Column, diagonal: Column, without_bg: Column) -> Computed | None:
    return _sets(machine, grid, _flags(univalued, diagonal, without_bg))


@batched("batt.objects_t")
def objects_t(machine: Any, grid: Column, univalued: Column, diagonal: Column, without_bg: Column) -> Computed | None:
    return _tuples(grid, _flags(univalued, diagonal, without_bg))


@batched("batt.o_g")
def o_g(machine: Any, grid: Column, type: Column) -> Computed | None:
    kinds = _kinds(type)
    return None if kinds is None else _sets(machine, grid, *kinds)


@batched("batt.o_g_t")
def o_g_t(machine: Any, grid: Column, type: Column) -> Computed | None:
    kinds = _kinds(type)
    return None if kinds is None else _tuples(grid, *kinds)


def _by_color(grid: Column, without: bool) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    flags = torch.full_like(grid.height, without, dtype=torch.bool)
    found, left_out = grouped(grid, COLORS, background_of(grid), flags, flags, flags)
    column = objects_of_arc(found)
    return None if column is None else plain(Computed(column), left_out, grid.offsets.diff() == 0)


@batched("batt.partition")
def partition(machine: Any, grid: Column) -> Computed | None:
    return _by_color(grid, False)


@batched("batt.fgpartition")
def fgpartition(machine: Any, grid: Column) -> Computed | None:
    return _by_color(grid, True)


@batched("batt.asobject")
def asobject(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    return Computed(Lists(triples(*places(grid), grid.cells), grid.offsets, True))


@batched("batt.frontiers")
def frontiers(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    column = objects_of_arc(line_objects(grid, *single_colored(grid)))
    return None if column is None else plain(Computed(column), grid.offsets.diff() == 0, _large(grid))


@batched("batt.sizefilter")
def sizefilter(machine: Any, container: Column, n: Column) -> Computed | None:
    return plain(KERNELS["sizefilter"](machine, container, n))


@batched("batt.sizefilter_t")
def sizefilter_t(machine: Any, container: Column, n: Column) -> Computed | None:
    if not isinstance(container, Lists) or not isinstance(n, Ints):
        return None
    if not isinstance(elements := container.elements, Patches | Lists):
        return None
    keep = elements.sizes == n.values[container.owner()]
    offsets = offsets_of(totals(keep.to(torch.int64), container.offsets))
    return Computed(Lists(elements.take(indices_of(keep)), offsets, False))


@batched("batt.occurrences")
def occurrences(machine: Any, grid: Column, obj: Column) -> Computed | None:
    patch = objects_of(obj)
    if patch is None or not isinstance(grid, Grids):
        return None
    box = reach(patch)
    rows = (grid.height - box.height + 1).clamp(min=0)
    columns = (grid.width - box.width + 1).clamp(min=0)
    looked_at = rows * columns
    odd = patch.empty | (grid.offsets.diff() == 0) | (looked_at > LIMIT) | (looked_at * patch.sizes > _COMPARED)
    row = torch.repeat_interleave(torch.arange(grid.rows, device=rows.device), patch.sizes)
    steps = (patch.i - box.top[row]) * grid.width[row] + patch.j - box.left[row]
    found = occurring(grid, rows * ~odd, columns * ~odd, colors_of(patch), steps, patch.offsets)
    return plain(Computed(found, reserved=looked_at + looked_at * patch.sizes // 256), odd)


def _period(obj: Column, upright: bool) -> Computed | None:
    patch = objects_of(obj)
    if patch is None:
        return None
    cells = as_arc(patch)
    box = reach(patch)
    long, first = (box.height, box.top) if upright else (box.width, box.left)
    many = patch.sizes * long > _PERIODS
    found = periods(cells.keys, cells.offsets, first, select(many, 0, long), upright)
    tried = torch.where(found < long, found, long - 1)
    return plain(Computed(Ints(found), reserved=patch.sizes * tried), patch.empty, many)


@batched("batt.hperiod")
def hperiod(machine: Any, obj: Column) -> Computed | None:
    return _period(obj, False)


@batched("batt.vperiod")
def vperiod(machine: Any, obj: Column) -> Computed | None:
    return _period(obj, True)
