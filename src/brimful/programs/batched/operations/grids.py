"""Grids from other grids: turned, cut, joined, split, scaled and recolored.

Every cell of a result is read from one cell of an argument: a kernel says how large results are and where each cell
comes from. Grids may have no rows, or rows without cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..columns import CELL, COORDINATE_LIMIT, NAN, Cells, Column, Grids, Ints, Lists, Pairs, Patches, Values
from ..convert import joined
from ..gpu import has_kernels
from ..kernels import Computed, batched
from ..layout import above, beside, layout, read, scaled, walked
from ..others import Others, Part
from ..rows import indices_of, offsets_of, owners, picked, repeated, select
from ..segments import any_of, as_colors, as_numbers, beyond, flagged, minima

MOST = 100_000  # elements of one row; more are left to the bound on size


def failures(*cases: tuple[Tensor, Category]) -> Tensor | None:
    """How rows fail: by the first case that has them."""
    *others, (rows, category) = cases
    failed = as_failures(rows, category)
    for rows, category in reversed(others):
        failed.masked_fill_(rows, int(category))
    return flagged(failed)


def as_failures(rows: Tensor, category: Category) -> Tensor:
    """How rows fail, where a flag says that they do."""
    return rows.view(torch.int8) * int(category)


def _turned(grids: Column, where: Callable[[Tensor, Tensor], tuple[Any, Any, Any]]) -> Computed | None:
    """A grid with its cells elsewhere: `where` gives the first cell in the source by its height and width, and how far
    the next row and the next column are from it. Where rows are neighbors in the source, the sides change places."""
    if not isinstance(grids, Grids):
        return None
    height, width = grids.height, grids.width
    first, down, across = where(height, width)
    sides = (height, width) if isinstance(across, int) else (width, height)
    steps = (of if isinstance(of, Tensor) else torch.full_like(height, of) for of in (first, down, across))
    return Computed(walked(grids, *sides, *steps))


@batched("rot90")
def rot90(machine: Any, grid: Column) -> Computed | None:
    return _turned(grid, lambda height, width: ((height - 1) * width, 1, -width))


@batched("rot180")
def rot180(machine: Any, grid: Column) -> Computed | None:
    return _turned(grid, lambda height, width: (height * width - 1, -width, -1))


@batched("rot270")
def rot270(machine: Any, grid: Column) -> Computed | None:
    return _turned(grid, lambda height, width: (width - 1, -1, width))


def hmirror(grid: Column) -> Computed | None:
    return _turned(grid, lambda height, width: ((height - 1) * width, -width, 1))


def vmirror(grid: Column) -> Computed | None:
    return _turned(grid, lambda height, width: (width - 1, width, -1))


def dmirror(grid: Column) -> Computed | None:
    return _turned(grid, lambda height, width: (0, 1, width))


def cmirror(grid: Column) -> Computed | None:
    return _turned(grid, lambda height, width: (height * width - 1, -1, -width))


def _part(grids: Grids, top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> Computed:
    """The part of every grid that begins at a cell and has a size; it lies within the grid."""
    return Computed(walked(grids, height, width, top * grids.width + left, grids.width, torch.ones_like(grids.width)))


def _zeros(grids: Grids) -> Tensor:
    return torch.zeros_like(grids.height)


@batched("tophalf")
def tophalf(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    return _part(grid, _zeros(grid), _zeros(grid), grid.height // 2, grid.width)


@batched("bottomhalf")
def bottomhalf(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    half = grid.height // 2
    return _part(grid, grid.height - half, _zeros(grid), half, grid.width)


@batched("lefthalf")
def lefthalf(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    half = grid.width // 2
    return _part(grid, _zeros(grid), _zeros(grid), select(half > 0, grid.height, 0), half)


@batched("righthalf")
def righthalf(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    half = grid.width // 2
    return _part(grid, _zeros(grid), grid.width - half, select(half > 0, grid.height, 0), half)


def _sliced(start: Tensor, stop: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Where a slice of a tuple begins, and how many elements it has, as Python counts from either end."""
    if has_kernels(start):
        from ..gpu.layout import sliced

        return sliced(start, stop, length)
    return sliced_plain(start, stop, length)


def sliced_plain(start: Tensor, stop: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    begin, end = (
        torch.minimum(torch.where(place < 0, (place + length).clamp(min=0), place), length) for place in (start, stop)
    )
    return begin, (end - begin).clamp(min=0)


@batched("trim")
def trim(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    one = torch.ones_like(grid.height)
    (top, height), (left, width) = _sliced(one, -one, grid.height), _sliced(one, -one, grid.width)
    return _part(grid, top, left, height, width)


def cropped(grid: Grids, start: Pairs, dims: Pairs) -> Computed:
    """The part of every grid that begins at a location and has a size, as far as there is one."""
    top, height = _sliced(start.first, start.first + dims.first, grid.height)
    left, width = _sliced(start.second, start.second + dims.second, grid.width)
    return _part(grid, top, left, height, width)


@batched("crop")
def crop(machine: Any, grid: Column, start: Column, dims: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(start, Pairs) and isinstance(dims, Pairs)):
        return None
    return cropped(grid, start, dims)


@batched("hconcat")
def hconcat(machine: Any, a: Column, b: Column) -> Computed | None:
    if not (isinstance(a, Grids) and isinstance(b, Grids)):
        return None
    height, width = torch.minimum(a.height, b.height), a.width + b.width
    large = height * width > ELEMENTS
    column = beside(a, b, select(large, 0, height), width)
    return Computed(column, failures((large, Category.SIZE)), reserved=height * width)


def _as_rows(grid: Column) -> Lists | None:
    """Grids, or tuples of rows of any lengths, as tuples of tuples."""
    if isinstance(grid, Lists) and not grid.unordered and isinstance(rows := grid.elements, Lists):
        numbers = rows.elements
        return grid if not rows.unordered and isinstance(numbers, Ints) and not numbers.boolean else None
    if not isinstance(grid, Grids):
        return None
    offsets = offsets_of(torch.repeat_interleave(grid.width, grid.height))
    return Lists(Lists(Ints(as_numbers(grid.cells)), offsets, False), offsets_of(grid.height), False)


@batched("vconcat")
def vconcat(machine: Any, a: Column, b: Column) -> Computed | None:
    if not (isinstance(a, Grids) and isinstance(b, Grids)):
        return _uneven(a, b)
    uneven = (a.width != b.width) & (a.height > 0) & (b.height > 0)
    large = a.height + b.height > ELEMENTS
    column = above(a, b, select(uneven | large, 0, a.height + b.height), torch.maximum(a.width, b.width))
    rows = indices_of(uneven & ~large)
    below = _uneven(a.take(rows), b.take(rows))
    assert below is not None
    boxed = Others([Part(rows, below.column)])
    return Computed(column, failures((large, Category.SIZE)), reserved=a.height + b.height, boxed=boxed)


def _uneven(a: Column, b: Column) -> Computed | None:
    """Rows of any lengths above others."""
    first, second = _as_rows(a), _as_rows(b)
    if first is None or second is None:
        return None
    index = torch.arange(2 * a.rows, device=a.device).reshape(2, -1).T.reshape(-1)
    rows = joined(first, second).take(index)
    assert isinstance(rows, Lists)
    column = Lists(rows.elements, rows.offsets[::2].contiguous(), False)
    return Computed(column, failures((column.sizes > ELEMENTS, Category.SIZE)), reserved=column.sizes)


def turned_rows(grid: Column) -> Computed | None:
    """Rows of any lengths as columns: as many of them as the shortest has cells."""
    rows = _as_rows(grid)
    if rows is None or not isinstance(rows.elements, Lists) or not isinstance(rows.elements.elements, Ints):
        return None
    offsets, flat = rows.elements.offsets, rows.elements.elements.values
    too_wide = any_of(flat.abs() >= COORDINATE_LIMIT, offsets[rows.offsets])
    cells = layout(select(too_wide, 0, minima(offsets.diff(), rows.offsets, 0)), rows.sizes)
    values = flat[offsets[rows.offsets[cells.grid] + cells.j] + cells.i]
    return Computed(Grids(values, cells.offsets, cells.height, cells.width), None, flagged(too_wide))


def _split(grid: Column, n: Column, across: bool) -> Computed | None:
    if not isinstance(grid, Grids) or not isinstance(n, Ints):
        return None
    whole = grid.width if across else grid.height
    empty, zero = (grid.height == 0, Category.INDEX), (n.values == 0, Category.ZERO_DIVISION)
    count = n.values.clamp(0, ELEMENTS + 1)
    reserved = grid.height * count if across else count
    size = reserved > ELEMENTS, Category.SIZE
    failed = failures(empty, zero, size) if across else failures(zero, empty, size)
    parts = count if failed is None else select(failed != 0, 0, count)
    divisor = select(n.values < 1, 1, n.values)
    size, skip = whole // divisor, (whole % divisor != 0).to(torch.int64)
    offsets = offsets_of(parts)
    row = owners(offsets)
    number = torch.arange(len(row), device=row.device) - offsets[row]
    start = (size + skip)[row] * number
    source, none = grid.take(row), torch.zeros_like(start)
    begin = Pairs(none, start) if across else Pairs(start, none)
    dims = Pairs(source.height, size[row]) if across else Pairs(size[row], source.width)
    return Computed(Lists(cropped(source, begin, dims).column, offsets, False), failed, reserved=reserved)


@batched("hsplit")
def hsplit(machine: Any, grid: Column, n: Column) -> Computed | None:
    return _split(grid, n, True)


@batched("vsplit")
def vsplit(machine: Any, grid: Column, n: Column) -> Computed | None:
    return _split(grid, n, False)


def colors(*columns: Column) -> Tensor | None:
    """Rows in which a number is too large to be a color; None where a column has no numbers."""
    numbers = list[Tensor]()
    for column in columns:
        if not isinstance(column, Ints) or column.boolean:
            return None
        numbers.append(column.values)
    return beyond(COORDINATE_LIMIT, *numbers)


class Paint(NamedTuple):
    """What cells are filled with, by row, and the rows in which it is too large to be a color."""

    values: Tensor
    large: Tensor


def paint_of(column: Column) -> Paint | None:
    """Whole numbers, or NaN, as colors; None where a column has no numbers."""
    if not isinstance(column, Ints) or column.boolean:
        return None
    large = (column.values.abs() >= COORDINATE_LIMIT) & (column.values != NAN)
    return Paint(as_colors(column.values), large)


@batched("cellwise")
def cellwise(machine: Any, a: Column, b: Column, fallback: Column) -> Computed | None:
    large = colors(fallback)
    if large is None or not (isinstance(a, Grids) and isinstance(b, Grids) and isinstance(fallback, Ints)):
        return None
    smaller = ((b.height < a.height) | (b.width < a.width)) & (a.width > 0)
    outside = (a.height == 0) | smaller
    cells = layout(select(outside, 0, a.height), a.width)
    first, second = read(a, cells, cells.i, cells.j).cells, read(b, cells, cells.i, cells.j).cells
    values = torch.where(first == second, first, picked(fallback.values.to(CELL), cells.grid))
    column = Grids(values, cells.offsets, cells.height, cells.width)
    return Computed(column, failures((outside, Category.INDEX)), flagged(large))


@batched("replace")
def replace(machine: Any, grid: Column, replacee: Column, replacer: Column) -> Computed | None:
    if isinstance(grid, Grids) and isinstance(replacee, Grids | Patches | Pairs | Cells):  # which is no cell of a grid
        return Computed(grid, None)
    large, paint = colors(replacee), paint_of(replacer)
    if large is None or paint is None or not (isinstance(replacee, Ints) and isinstance(replacer, Ints)):
        return None
    large |= paint.large
    if not isinstance(grid, Grids):
        return _replaced_rows(grid, replacee, replacer, large)
    count = len(grid.cells)
    old, new = (repeated(values.to(CELL), grid.offsets, count) for values in (replacee.values, paint.values))
    values = torch.where(grid.cells == old, new, grid.cells)
    return Computed(Grids(values, grid.offsets, grid.height, grid.width), None, flagged(large))


def _replaced_rows(grid: Column, replacee: Ints, replacer: Ints, large: Tensor) -> Computed | None:
    rows = _as_rows(grid)
    if rows is None or not isinstance(rows.elements, Lists) or not isinstance(rows.elements.elements, Ints):
        return None
    flat, offsets = rows.elements.elements.values, rows.elements.offsets
    row = owners(offsets[rows.offsets], len(flat))
    values = torch.where(flat == replacee.values[row], replacer.values[row], flat)
    return Computed(Lists(Lists(Ints(values), offsets, False), rows.offsets, False), None, flagged(large))


@batched("switch")
def switch(machine: Any, grid: Column, a: Column, b: Column) -> Computed | None:
    large = colors(a, b)
    if large is None or not (isinstance(grid, Grids) and isinstance(a, Ints) and isinstance(b, Ints)):
        return None
    row = owners(grid.offsets, len(grid.cells))
    first, second = picked(a.values.to(CELL), row), picked(b.values.to(CELL), row)
    values = torch.where(grid.cells == first, second, torch.where(grid.cells == second, first, grid.cells))
    return Computed(Grids(values, grid.offsets, grid.height, grid.width), None, flagged(large))


@batched("canvas")
def canvas(machine: Any, value: Column, dimensions: Column) -> Computed | None:
    large = colors(value)
    if large is None or not (isinstance(value, Ints) and isinstance(dimensions, Pairs)):
        return None
    height, width = dimensions.first.clamp(min=0), dimensions.second.clamp(min=0)
    reserved = height + height * width
    too_large = reserved > ELEMENTS
    height = select(large | too_large, 0, height)
    width = select(height == 0, 0, width)
    offsets = offsets_of(height * width)
    column = Grids(repeated(value.values.to(CELL), offsets), offsets, height, width)
    return Computed(column, failures((too_large, Category.SIZE)), flagged(large & ~too_large), reserved)


@batched("index")
def index(machine: Any, grid: Column, loc: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(loc, Pairs)):
        return None
    i, j = loc.first, loc.second
    outside = (i < 0) | (j < 0) | (i >= grid.height) | (j >= grid.width)
    flat = grid.cells if len(grid.cells) else grid.cells.new_zeros(1)
    at = (grid.offsets[:-1] + i * grid.width + j).clamp(0, len(flat) - 1)
    empty = grid.height == 0
    rows = indices_of(outside & ~empty)
    nothing = Others([Part(rows, Values((None,) * len(rows)))])
    return Computed(Ints(flat[at]), failures((empty, Category.INDEX)), boxed=nothing)


def _scaled(grid: Grids, down: Tensor | None, across: Tensor | None) -> Computed:
    """Every cell as a rectangle of cells: first wider, then higher, as far as a factor is given for that."""
    one = torch.ones_like(grid.height)
    down_by, across_by = ((one if by is None else by.clamp(min=0)) for by in (down, across))
    height, width = grid.height.double(), grid.width.double() * across_by.double()
    wider = height * width if across is not None else 0
    higher = height * width.clamp(min=1) * down_by.double() if down is not None else 0
    reserved = (torch.zeros_like(height) + wider + higher).clamp(max=4 * ELEMENTS).to(torch.int64)
    too_large = reserved > ELEMENTS
    failed = failures((too_large, Category.SIZE))
    return Computed(scaled(grid, down_by, across_by, ~too_large), failed, reserved=reserved)


@batched("hupscale")
def hupscale(machine: Any, grid: Column, factor: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(factor, Ints)):
        return None
    return _scaled(grid, None, factor.values)


@batched("vupscale")
def vupscale(machine: Any, grid: Column, factor: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(factor, Ints)):
        return None
    return _scaled(grid, factor.values, None)


def upscaled(grid: Grids, factor: Ints) -> Computed:
    return _scaled(grid, factor.values, factor.values)


@batched("downscale")
def downscale(machine: Any, grid: Column, factor: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(factor, Ints)):
        return None
    zero = factor.values == 0
    step = select(zero, 1, factor.values.clamp(-COORDINATE_LIMIT, COORDINATE_LIMIT)).abs()
    height, width = (grid.height + step - 1) // step, (grid.width + step - 1) // step
    column = walked(grid, height, width, torch.zeros_like(step), step * grid.width, step)
    return Computed(column, failures((grid.height == 0, Category.INDEX), (zero, Category.ZERO_DIVISION)))
