"""Patches: where they reach, moved, mirrored, recolored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..columns import (
    BITS,
    COLOR_BIAS,
    COORDINATE_LIMIT,
    Cells,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    color_of,
    column_of,
    key_of,
    location_of,
    row_of,
)
from ..compiled import call, usable
from ..extents import extent
from ..gpu import has_kernels
from ..kernels import Computed, batched
from ..loops import patches as loops
from ..others import Others, Part
from ..rows import indices_of, offsets_of, owners, repeated, select
from ..segments import beyond, flagged, sort_unique, together, totals
from . import grids
from .grids import colors, cropped, failures

_LOCATION = (1 << 2 * BITS) - 1


def _kernels() -> Any:
    """Those for a GPU."""
    from ..gpu import keys

    return keys


def is_blank(column: Column) -> bool:
    """Whether all rows are ()."""
    empty = isinstance(column, Lists) and not (column.unordered or column.elements.rows)
    return empty or (isinstance(column, Grids) and not bool((column.height > 0).any()))


def as_set(column: Column) -> Patches | None:
    """Sets of locations or cells, and (), where an operation takes it for an empty one."""
    if isinstance(column, Grids | Lists) and is_blank(column):
        return Patches(column.offsets[:0], torch.zeros_like(column.offsets), PatchKind.INDICES)
    return column if isinstance(column, Patches) else None


def as_patch(column: Column) -> Patches | None:
    """As `as_set`, and tuples of locations or of cells, where an operation takes them for sets."""
    match column:
        case Lists(elements=Pairs(first=first, second=second), unordered=False):
            return Patches(*sort_unique(key_of(first, second), column.offsets), PatchKind.INDICES)
        case Lists(elements=Cells(keys=keys), unordered=False):
            return Patches(*sort_unique(keys, column.offsets), PatchKind.OBJECT)
    return as_set(column)


def locations(patch: Patches) -> Patches:
    """The locations of the cells."""
    if patch.kind is PatchKind.INDICES:
        return patch
    keys = patch.keys & _LOCATION | COLOR_BIAS << 2 * BITS
    return Patches(*sort_unique(keys, patch.offsets), PatchKind.INDICES)


def far(patch: Patches) -> Tensor:
    """Rows with a location too far away for a key."""
    if has_kernels(patch.keys):
        return _kernels().far(patch.keys, patch.offsets)
    return far_plain(patch)


def far_plain(patch: Patches) -> Tensor:
    away = (row_of(patch.keys).abs() >= COORDINATE_LIMIT) | (column_of(patch.keys).abs() >= COORDINATE_LIMIT)
    return totals(away.to(torch.int64), patch.offsets) > 0


def shifted(patch: Patches, di: Tensor, dj: Tensor) -> tuple[Patches, Tensor]:
    """Patches moved by a vector, and the rows for which that goes too far."""
    large = beyond(COORDINATE_LIMIT, di, dj)
    by = (select(large, 0, di) << BITS) + select(large, 0, dj)
    keys, away = moved(patch.keys, patch.offsets, by)
    return Patches(keys, patch.offsets, patch.kind), large | away


def moved(keys: Tensor, offsets: Tensor, by: Tensor) -> tuple[Tensor, Tensor]:
    """Keys with a number per row added, and the rows that have a location too far away then."""
    if usable(keys):
        return call(loops.moved, keys, offsets, by)
    return _kernels().moved(keys, offsets, by) if has_kernels(keys) else moved_plain(keys, offsets, by)


def moved_plain(keys: Tensor, offsets: Tensor, by: Tensor) -> tuple[Tensor, Tensor]:
    """The twin of `loops.moved`."""
    moved = keys + by[owners(offsets, len(keys))]
    return moved, far(Patches(moved, offsets, PatchKind.INDICES))


@batched("toindices")
def toindices(machine: Any, patch: Column) -> Computed | None:
    where = as_patch(patch)
    if where is None or (isinstance(patch, Lists) and where.kind is PatchKind.INDICES):  # a tuple stays one
        return None
    return Computed(locations(where))


@batched("recolor")
def recolor(machine: Any, value: Column, patch: Column) -> Computed | None:
    large, where = colors(value), as_patch(patch)
    if large is None or where is None or not isinstance(value, Ints):
        return None
    plain = locations(where)
    color = repeated(select(large, 0, value.values), plain.offsets, len(plain.keys))
    return Computed(Patches(plain.keys + (color << 2 * BITS), plain.offsets, PatchKind.OBJECT), None, flagged(large))


@batched("shift")
def shift(machine: Any, patch: Column, directions: Column) -> Computed | None:
    if is_blank(patch):
        return Computed(patch)
    if not isinstance(patch, Patches):
        return None
    if not isinstance(directions, Pairs):  # what they are does not matter to a patch without cells
        return Computed(patch, None, flagged(patch.sizes > 0))
    column, not_here = shifted(patch, directions.first, directions.second)
    return Computed(column, None, flagged(not_here))


@batched("normalize")
def normalize(machine: Any, patch: Column) -> Computed | None:
    if is_blank(patch):
        return Computed(patch)
    if not isinstance(patch, Patches):
        return None
    reach = extent(patch)
    return Computed(shifted(patch, -reach.top, -reach.left)[0])


def nothing_at(rows: Tensor) -> Others:
    """() for some rows."""
    at = indices_of(rows)
    zero = torch.zeros_like(at)
    return Others([Part(at, Grids(at[:0], torch.zeros(len(at) + 1, dtype=torch.int64, device=at.device), zero, zero))])


def _corner(patch: Column, row: str, column: str) -> Computed | None:
    """A corner of the bounding box; () where there is none."""
    where = as_patch(patch)
    if where is None:
        return None
    reach = extent(where)
    return Computed(Pairs(getattr(reach, row), getattr(reach, column)), boxed=nothing_at(reach.empty))


@batched("ulcorner")
def ulcorner(machine: Any, patch: Column) -> Computed | None:
    return _corner(patch, "top", "left")


@batched("urcorner")
def urcorner(machine: Any, patch: Column) -> Computed | None:
    return _corner(patch, "top", "right")


@batched("llcorner")
def llcorner(machine: Any, patch: Column) -> Computed | None:
    return _corner(patch, "bottom", "left")


@batched("lrcorner")
def lrcorner(machine: Any, patch: Column) -> Computed | None:
    return _corner(patch, "bottom", "right")


def _side(patch: Column, name: str) -> Computed | None:
    where = as_patch(patch)
    if where is None:
        return None
    reach = extent(where)
    return Computed(Ints(getattr(reach, name)), failures((reach.empty, Category.VALUE)))


@batched("uppermost")
def uppermost(machine: Any, patch: Column) -> Computed | None:
    return _side(patch, "top")


@batched("lowermost")
def lowermost(machine: Any, patch: Column) -> Computed | None:
    return _side(patch, "bottom")


@batched("leftmost")
def leftmost(machine: Any, patch: Column) -> Computed | None:
    return _side(patch, "left")


@batched("rightmost")
def rightmost(machine: Any, patch: Column) -> Computed | None:
    return _side(patch, "right")


def sides(piece: Column) -> tuple[Tensor, Tensor] | None:
    """The height and the width of grids and patches."""
    match piece:
        case Grids():
            return piece.height, piece.width
        case Patches():
            reach = extent(piece)
            return reach.height, reach.width
    return None


@batched("height")
def height(machine: Any, piece: Column) -> Computed | None:
    both = sides(piece)
    return None if both is None else Computed(Ints(both[0]))


@batched("width")
def width(machine: Any, piece: Column) -> Computed | None:
    both = sides(piece)
    return None if both is None else Computed(Ints(both[1]))


@batched("shape")
def shape(machine: Any, piece: Column) -> Computed | None:
    both = sides(piece)
    return None if both is None else Computed(Pairs(*both))


def _flag(flags: Tensor, failed: Tensor | None = None, sequential: Tensor | None = None) -> Computed:
    return Computed(Ints(flags.to(torch.int64), True), failed, sequential)


@batched("portrait")
def portrait(machine: Any, piece: Column) -> Computed | None:
    both = sides(piece)
    return None if both is None else _flag(both[0] > both[1])


@batched("square")
def square(machine: Any, piece: Column) -> Computed | None:
    both = sides(piece)
    match piece, both:
        case Grids(), (rows, columns):
            return _flag(rows == columns, failures((rows == 0, Category.INDEX)))
        case Patches(), (rows, columns):
            return _flag((rows * columns == piece.sizes) & (rows == columns))
    return None


def centers(patch: Patches) -> tuple[Tensor, Tensor, Tensor]:
    """The center of every bounding box, and the rows that have none."""
    reach = extent(patch)
    return reach.top + reach.height // 2, reach.left + reach.width // 2, reach.empty


@batched("center")
def center(machine: Any, patch: Column) -> Computed | None:
    where = as_set(patch)
    if where is None:
        return None
    i, j, empty = centers(where)
    return Computed(Pairs(i, j), failures((empty, Category.VALUE)))


@batched("centerofmass")
def centerofmass(machine: Any, patch: Column) -> Computed | None:
    where = as_set(patch)
    if where is None:
        return None
    plain, count = locations(where), where.sizes.clamp(min=1)
    mean = [torch.div(totals(part, plain.offsets), count, rounding_mode="floor") for part in location_of(plain.keys)]
    return Computed(Pairs(mean[0], mean[1]), boxed=nothing_at(where.sizes == 0))


def _mirrored(piece: Column, name: str) -> Computed | None:
    if isinstance(piece, Grids):
        return getattr(grids, name)(piece)
    if not isinstance(piece, Patches):
        return None
    reach, row = extent(piece), owners(piece.offsets, len(piece.keys))
    (i, j), color = location_of(piece.keys), color_of(piece.keys)
    match name:
        case "hmirror":
            i = (reach.top + reach.bottom)[row] - i
        case "vmirror":
            j = (reach.left + reach.right)[row] - j
        case "dmirror":
            top, left = reach.top[row], reach.left[row]
            i, j = j - left + top, i - top + left
    keys = key_of(i, j, color)
    column = Patches(*sort_unique(keys, piece.offsets), piece.kind)
    failed = failures((reach.empty, Category.VALUE if name == "dmirror" else Category.INDEX))
    return Computed(column, failed, flagged(far(column)))


@batched("hmirror")
def hmirror(machine: Any, piece: Column) -> Computed | None:
    return _mirrored(piece, "hmirror")


@batched("vmirror")
def vmirror(machine: Any, piece: Column) -> Computed | None:
    return _mirrored(piece, "vmirror")


@batched("dmirror")
def dmirror(machine: Any, piece: Column) -> Computed | None:
    if isinstance(piece, Lists) and not piece.unordered and isinstance(piece.elements, Lists):
        return grids.turned_rows(piece)
    return _mirrored(piece, "dmirror")


@batched("cmirror")
def cmirror(machine: Any, piece: Column) -> Computed | None:
    if isinstance(piece, Grids):
        return grids.cmirror(piece)
    steps, column = list[Computed](), piece
    for name in ("vmirror", "dmirror", "vmirror"):
        mirrored = _mirrored(column, name)
        if mirrored is None:
            return None
        steps.append(mirrored)
        column = mirrored.column
    flags = [step.sequential for step in steps if step.sequential is not None]
    return Computed(column, steps[0].failed, together(*flags))


@batched("upscale")
def upscale(machine: Any, element: Column, factor: Column) -> Computed | None:
    if not isinstance(factor, Ints):
        return None
    if isinstance(element, Grids):
        return grids.upscaled(element, factor)
    if not isinstance(element, Patches):
        return None
    times, reach = factor.values.clamp(0, COORDINATE_LIMIT), extent(element)
    reserved = element.sizes * times**2
    too_large = reserved > ELEMENTS
    colorless = (element.sizes > 0) & (element.kind is PatchKind.INDICES)
    away = torch.maximum(reach.top + reach.height * times, reach.left + reach.width * times) >= COORDINATE_LIMIT
    times = select(too_large | colorless | away, 0, times)
    offsets = offsets_of(element.sizes * times * times)
    row = owners(element.offsets, len(element.keys))
    top, left, by = reach.top[row], reach.left[row], times[row]
    i, j = (row_of(element.keys) - top) * by + top, (column_of(element.keys) - left) * by + left
    counts = by * by
    source = torch.repeat_interleave(torch.arange(len(row), device=row.device), counts)
    within = torch.arange(len(source), device=row.device) - (counts.cumsum(0) - counts)[source]
    down = torch.div(within, by[source], rounding_mode="floor")
    keys = key_of(i[source] + down, j[source] + within - down * by[source], color_of(element.keys)[source])
    column = Patches(*sort_unique(keys, offsets), PatchKind.OBJECT)
    failed = failures((too_large, Category.SIZE), (colorless, Category.TYPE))
    return Computed(column, failed, flagged(away & ~too_large), reserved)


@batched("subgrid")
def subgrid(machine: Any, patch: Column, grid: Column) -> Computed | None:
    where = as_set(patch)
    if where is None or not isinstance(grid, Grids):
        return None
    reach = extent(where)
    part = cropped(grid, Pairs(reach.top, reach.left), Pairs(reach.height, reach.width))
    return Computed(part.column, failures((reach.empty, Category.INDEX)))
