"""Patches and grids of a batt mirrored, turned, moved, enlarged and recolored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....vocabulary.bound import ELEMENTS
from ...cells import keep_lines, single_colored
from ...columns import (
    CELL,
    COORDINATE_LIMIT,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    Triples,
    key_of,
    triples,
)
from ...kernels import KERNELS, Computed, batched
from ...layout import layout, read, walked
from ...rows import owners, select
from ...segments import any_of, flagged, sort_unique
from ..grids import cmirror as cmirror_grid
from ..grids import colors, dmirror, paint_of, upscaled
from ..grids import hmirror as hmirror_grid
from ..grids import vmirror as vmirror_grid
from .views import Patch, as_arc, cells_of_arc, flag, indices_of, is_tuple, objects_of, patch_of, places, plain, reach


def _set(patch: Patch, i: Tensor, j: Tensor, odd: Tensor | None = None) -> Computed:
    """Sets of the same cells at other places; those too far away run sequentially."""
    away = any_of((i.abs() >= COORDINATE_LIMIT) | (j.abs() >= COORDINATE_LIMIT), patch.offsets)
    near = (~away)[owners(patch.offsets, len(i))]
    i, j = select(near, i, 0), select(near, j, 0)
    if patch.color is None:
        column: Column = Patches(*sort_unique(key_of(i, j), patch.offsets), PatchKind.INDICES)
    else:
        keys, offsets = sort_unique(triples(i, j, patch.color).keys, patch.offsets)
        column = Lists(Triples(keys), offsets, True)
    return Computed(column, None, flagged(away if odd is None else away | odd))


@batched("batt.shift")
def shift(machine: Any, column: Column, directions: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None or not isinstance(directions, Pairs):
        return None
    large = (directions.first.abs() >= COORDINATE_LIMIT) | (directions.second.abs() >= COORDINATE_LIMIT)
    row = owners(patch.offsets, len(patch.i))
    down, across = select(large, 0, directions.first), select(large, 0, directions.second)
    return _set(patch, patch.i + down[row], patch.j + across[row], large)


def _normalized(patch: Patch | None) -> Computed | None:
    if patch is None:
        return None
    box, row = reach(patch), owners(patch.offsets, len(patch.i))
    return _set(patch, patch.i - box.top[row], patch.j - box.left[row], None if patch.unordered else patch.empty)


batched("batt.normalize")(lambda machine, patch: _normalized(patch_of(patch)))
batched("batt.normalize_i")(lambda machine, indices: _normalized(indices_of(indices)))
batched("batt.normalize_o")(lambda machine, obj: _normalized(objects_of(obj)))


def _mirrored(patch: Patch | None, kind: str) -> Computed | None:
    """Patches mirrored top to bottom ("h"), left to right ("v"), at a diagonal ("d", "c")."""
    if patch is None:
        return None
    box, row, i, j = reach(patch), owners(patch.offsets, len(patch.i)), patch.i, patch.j
    top, left = box.top[row], box.left[row]
    match kind:
        case "h":
            i = (box.top + box.bottom)[row] - i
        case "v":
            j = (box.left + box.right)[row] - j
        case "d":
            i, j = j - left + top, i - top + left
        case _:  # mirrored left to right, at the diagonal, and left to right again
            i, j = (box.right[row] - j) + top, (box.bottom[row] - i) + left
    return _set(patch, i, j, patch.empty)


_KINDS = {"_f": patch_of, "_i": indices_of, "_o": objects_of}
_GRIDS = {"h": hmirror_grid, "v": vmirror_grid, "d": dmirror, "c": cmirror_grid}


def _of_grid(grid: Column, kind: str) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    return plain(_GRIDS[kind](grid), (grid.height == 0) | (grid.width == 0))


def _of_either(piece: Column, kind: str) -> Computed | None:
    return _of_grid(piece, kind) if is_tuple(piece) else _mirrored(patch_of(piece), kind)


for _kind in _GRIDS:
    for _ending, _of in _KINDS.items():
        batched(f"batt.{_kind}mirror{_ending}")(lambda machine, patch, of=_of, kind=_kind: _mirrored(of(patch), kind))
    batched(f"batt.{_kind}mirror_t")(lambda machine, grid, kind=_kind: _of_grid(grid, kind))
    batched(f"batt.{_kind}mirror")(lambda machine, piece, kind=_kind: _of_either(piece, kind))


@batched("batt.mir_rot_t")
def mir_rot_t(machine: Any, grid: Column, type: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(type, Ints)):
        return None
    height, width, number = grid.height, grid.width, type.values
    bottom, right, none, one = (height - 1) * width, width - 1, torch.zeros_like(height), torch.ones_like(height)
    ways = (  # the first cell, the step from row to row, the step from column to column
        (bottom, -width, one),
        (none, one, width),
        (right, width, -one),
        (bottom + right, -one, -width),
        (bottom, one, -width),
        (bottom + right, -width, -one),
        (right, -one, width),
        (none, width, one),
    )
    at = torch.where((number >= 0) & (number < len(ways) - 1), number, len(ways) - 1)
    first, down, across = (torch.stack(parts).gather(0, at[None])[0] for parts in zip(*ways, strict=True))
    swaps = (at == 1) | (at == 3) | (at == 4) | (at == 6)
    sides = torch.where(swaps, width, height), torch.where(swaps, height, width)
    return plain(Computed(walked(grid, *sides, first, down, across)), (height == 0) | (width == 0))


@batched("batt.mir_rot_f")
def mir_rot_f(machine: Any, column: Column, type: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None or not isinstance(type, Ints):
        return None
    present, kinds = type.values.unique().tolist(), "hdvc"
    if len(present) != 1:
        return None
    return _mirrored(patch, kinds[present[0]]) if 0 <= present[0] < len(kinds) else Computed(column)


@batched("batt.upscale_t")
def upscale_t(machine: Any, grid: Column, factor: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(factor, Ints)):
        return None
    return plain(upscaled(grid, factor), grid.offsets.diff() == 0, factor.values < 1)


@batched("batt.upscale_f")
def upscale_f(machine: Any, obj: Column, factor: Column) -> Computed | None:
    patch = objects_of(obj)
    if patch is None or not isinstance(factor, Ints):
        return None
    larger = KERNELS["upscale"](machine, as_arc(patch), factor)
    if larger is None or not isinstance(larger.column, Patches):
        return None
    made = patch.sizes * factor.values.clamp(0, COORDINATE_LIMIT) ** 2
    column = cells_of_arc(larger.column)
    reserved = Computed(column, larger.failed, larger.sequential, made)
    return plain(reserved, patch.empty, made > ELEMENTS)


@batched("batt.upscale")
def upscale(machine: Any, element: Column, factor: Column) -> Computed | None:
    return (upscale_t if is_tuple(element) else upscale_f)(machine, element, factor)


def _recolored(color: Column, patch: Patch | None, where: bool) -> Computed | None:
    """Patches in one color; `where` says whether they are cells of which only the locations count."""
    paint = paint_of(color)
    if patch is None or paint is None:
        return None
    at = places(patch) if where else None
    i, j, offsets = (patch.i, patch.j, patch.offsets) if at is None else (*_locations(at), at.offsets)
    value = select(paint.large, 0, paint.values)[owners(offsets, len(i))]
    keys, offsets = sort_unique(triples(i, j, value).keys, offsets)
    return plain(Computed(Lists(Triples(keys), offsets, True)), paint.large)


def _locations(patch: Patches) -> tuple[Tensor, Tensor]:
    of = patch_of(patch)
    assert of is not None
    return of.i, of.j


batched("batt.recolor")(lambda machine, color, patch: _recolored(color, patch_of(patch), True))
batched("batt.recolor_i")(lambda machine, color, indices: _recolored(color, indices_of(indices), False))
batched("batt.recolor_o")(lambda machine, color, obj: _recolored(color, objects_of(obj), True))


def _half(name: str) -> None:
    @batched(f"batt.{name}")
    def half(machine: Any, grid: Column) -> Computed | None:
        if not isinstance(grid, Grids):
            return None
        return plain(KERNELS[name](machine, grid), grid.offsets.diff() == 0)


_half("lefthalf")
_half("righthalf")


@batched("batt.compress")
def compress(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    rows, columns = single_colored(grid)
    return plain(Computed(keep_lines(grid, ~rows, ~columns)), grid.offsets.diff() == 0)


@batched("batt.index")
def index(machine: Any, grid: Column, loc: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(loc, Pairs)):
        return None
    i, j = loc.first, loc.second
    outside = (i < 0) | (j < 0) | (i >= grid.height) | (j >= grid.width)
    flat = grid.cells if len(grid.cells) else grid.cells.new_zeros(1)
    at = (grid.offsets[:-1] + i * grid.width + j).clamp(0, len(flat) - 1)
    return plain(Computed(Ints(flat[at])), outside)


@batched("batt.cellwise")
def cellwise(machine: Any, a: Column, b: Column, fallback: Column) -> Computed | None:
    large = colors(fallback)
    if large is None or not (isinstance(a, Grids) and isinstance(b, Grids) and isinstance(fallback, Ints)):
        return None
    cells = layout(a.height, a.width)
    inside = (cells.i < b.height[cells.grid]) & (cells.j < b.width[cells.grid])
    first, second = read(a, cells, cells.i, cells.j).cells, read(b, cells, cells.i, cells.j).cells
    values = torch.where(inside & (first == second), first, fallback.values.to(CELL)[cells.grid])
    column = Grids(values, cells.offsets, cells.height, cells.width)
    return plain(Computed(column), large, (a.offsets.diff() == 0) | (b.offsets.diff() == 0))


@batched("batt.is_no_grid")
def is_no_grid(machine: Any, x: Column) -> Computed | None:
    if not isinstance(x, Grids | Ints | Patches):
        return None
    return flag(torch.full((x.rows,), not isinstance(x, Grids), dtype=torch.bool, device=x.device))
