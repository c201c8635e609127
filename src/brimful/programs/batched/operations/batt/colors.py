"""The colors of grids and objects of a batt: which, how many, how often, which one at a rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...cells import color_counts, extreme_color
from ...columns import NAN, Column, Grids, Ints, Lists
from ...kernels import Computed, batched
from ...rows import indices_of, offsets_of, owners, select
from ...segments import any_of, as_numbers, canonical, sorted_rows, totals
from .views import colors_of, is_tuple, objects_of, patch_of, plain

Colors = tuple[Tensor, Tensor]
"""The colors of all cells, and where rows begin."""


def _of_grid(column: Column) -> Colors | None:
    return (column.cells, column.offsets) if isinstance(column, Grids) else None


def _of_object(column: Column) -> Colors | None:
    patch = objects_of(column)
    return None if patch is None else (colors_of(patch), patch.offsets)


def _of_either(column: Column) -> Colors | None:
    return _of_grid(column) if is_tuple(column) else _of_object(column)


_KINDS = {"_t": _of_grid, "_f": _of_object, "": _of_either}


def _extreme(machine: Any, colors: Colors | None, greatest: bool) -> Computed | None:
    if colors is None:
        return None
    empty = colors[1].diff() == 0
    machine.nan = machine.nan or bool(empty.any())
    return Computed(Ints(select(empty, NAN, as_numbers(extreme_color(*colors, greatest)))))


def _palette(colors: Colors | None, unordered: bool) -> Computed | None:
    if colors is None:
        return None
    distinct, _, offsets = color_counts(*colors)
    return Computed(Lists(Ints(as_numbers(distinct)), offsets, unordered))


def _count(colors: Colors | None) -> Computed | None:
    return None if colors is None else Computed(Ints(color_counts(*colors)[2].diff()))


def _how_often(colors: Colors | None, value: Column) -> Computed | None:
    if colors is None or not isinstance(value, Ints):
        return None
    distinct, counts, offsets = color_counts(*colors)
    distinct = as_numbers(distinct)
    return Computed(Ints(totals(select(distinct == value.values[owners(offsets, len(distinct))], counts, 0), offsets)))


for _ending, _of in _KINDS.items():
    batched(f"batt.mostcolor{_ending}")(lambda machine, column, of=_of: _extreme(machine, of(column), True))
    batched(f"batt.leastcolor{_ending}")(lambda machine, column, of=_of: _extreme(machine, of(column), False))
    batched(f"batt.palette{_ending}")(lambda machine, column, of=_of: _palette(of(column), True))
    batched(f"batt.numcolors{_ending}")(lambda machine, column, of=_of: _count(of(column)))
    batched(f"batt.colorcount{_ending}")(lambda machine, column, value, of=_of: _how_often(of(column), value))
batched("batt.p_g")(lambda machine, grid: _palette(_of_grid(grid), False))
batched("batt.p_o")(lambda machine, obj: _palette(_of_object(obj), False))


def _by_count(colors: Colors | None, rank: Column) -> Computed | None:
    """The color at a rank, the most common first, ties in the order in which they first occur."""
    if colors is None or not isinstance(rank, Ints):
        return None
    flat, offsets = colors
    row = owners(offsets, len(flat))
    order = sorted_rows(flat, row)
    value, row = flat[order].to(torch.int64), row[order]
    new = torch.ones(len(order), dtype=torch.bool, device=flat.device)
    new[1:] = (value[1:] != value[:-1]) | (row[1:] != row[:-1])
    start = indices_of(new)
    counts = torch.diff(start, append=start.new_full((1,), len(order)))
    first, row = order[start], row[start]
    by_rank = first.argsort(stable=True)
    by_rank = by_rank[(-counts[by_rank]).argsort(stable=True)]
    by_rank = by_rank[row[by_rank].argsort(stable=True)]
    starts = offsets_of(torch.zeros_like(rank.values).index_add_(0, row, torch.ones_like(row)))
    sizes = starts.diff()
    at = torch.where(rank.values < 0, rank.values + sizes, rank.values)
    none = (at < 0) | (at >= sizes)
    if not len(start):
        return plain(_nothing(rank), none)
    chosen = value[start[by_rank]][(starts[:-1] + select(none, 0, at)).clamp(max=len(start) - 1)]
    return plain(Computed(Ints(as_numbers(chosen))), none)


def _nothing(rank: Ints) -> Computed:
    """A column for rows that all run sequentially."""
    return Computed(Ints(torch.zeros_like(rank.values)))


batched("batt.get_color_rank_t")(lambda machine, grid, rank: _by_count(_of_grid(grid), rank))
batched("batt.get_color_rank_f")(lambda machine, obj, rank: _by_count(_of_object(obj), rank))


def _heads(column: Column) -> tuple[Tensor, Tensor] | None:
    """The colors of the first cells of objects, and the rows without any."""
    patch = objects_of(column)
    if patch is None:
        return None
    colors = colors_of(patch)
    if not len(colors):
        return torch.zeros_like(patch.sizes), patch.empty
    return colors[select(patch.empty, 0, patch.offsets[:-1])], patch.empty


@batched("batt.color")
def color(machine: Any, obj: Column) -> Computed | None:
    heads = _heads(obj)
    return None if heads is None else plain(Computed(Ints(as_numbers(heads[0]))), heads[1])


def _filtered(objs: Column, value: Column, unordered: bool) -> Computed | None:
    """The objects whose first cell has a color, in a container of a kind."""
    if not isinstance(objs, Lists) or not isinstance(value, Ints) or (heads := _heads(objs.elements)) is None:
        return None
    colors, empty = heads
    keep = (as_numbers(colors) == value.values[objs.owner()]) & ~empty
    offsets = offsets_of(totals(keep.to(torch.int64), objs.offsets))
    kept = Lists(objs.elements.take(indices_of(keep)), offsets, objs.unordered)
    column = canonical(kept) if unordered and not objs.unordered else Lists(kept.elements, offsets, unordered)
    return None if column is None else plain(Computed(column), any_of(empty, objs.offsets))


@batched("batt.colorfilter")
def colorfilter(machine: Any, objs: Column, value: Column) -> Computed | None:
    return _filtered(objs, value, True)


@batched("batt.colorfilter_t")
def colorfilter_t(machine: Any, objs: Column, value: Column) -> Computed | None:
    if not isinstance(objs, Lists) or (patch := patch_of(objs.elements)) is None or patch.unordered:
        return None  # a set has no first element
    return _filtered(objs, value, False)
