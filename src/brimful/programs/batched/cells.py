"""The cells of grids: connected components, groups of cells as objects, colors, lines, occurrences.

On a CPU the compiled loops of `loops/objects.py` do the work; elsewhere their plain twins here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .columns import (
    BITS,
    COORDINATE_LIMIT,
    NAN_COLOR,
    Grids,
    Lists,
    Patches,
    PatchKind,
    column_of,
    key_of,
    row_of,
    triples,
)
from .compiled import call, usable
from .gpu import has_kernels
from .loops import layers
from .loops import objects as loops
from .rows import indices_of, offsets_of, owners, repeated, select
from .segments import canonical, filtered, minima, sort_unique, totals

LIMIT, COMPONENTS, COLORS, GRIDS = loops.LIMIT, loops.COMPONENTS, loops.COLORS, loops.GRIDS
_BLOCK = 1 << 24
"""The most numbers of one round of comparisons in `occur_plain`."""


def places(grids: Grids) -> tuple[Tensor, Tensor]:
    """The row and the column of every cell."""
    count = len(grids.cells)
    if has_kernels(grids.cells):
        from .gpu import layout

        return layout.places(grids.offsets, grids.width, count)[1:]
    within = torch.arange(count, device=grids.cells.device) - repeated(grids.offsets[:-1], grids.offsets, count)
    width = repeated(grids.width, grids.offsets, count)
    i = within // width
    return i, within - i * width


def grouped(
    grids: Grids,
    by: int,
    background: Tensor,
    without: Tensor,
    univalued: Tensor,
    diagonal: Tensor,
    apart: int = NAN_COLOR,
) -> tuple[Lists, Tensor]:
    """Cells of grids as objects, and the grids that are left out: large ones, and those with a wide span of colors.

    Args:
        grids: the grids.
        by: what makes cells one object: `COMPONENTS`, `COLORS` or `GRIDS`.
        background: (R,) the color that `without` leaves out.
        without, univalued, diagonal: (R,) bool; the last two are for components.
        apart: a color that does not equal itself: of one color, every cell of it is a component.
    """
    if usable(grids.cells):
        given = (grids.cells, grids.offsets, grids.width, by, background, without, univalued, diagonal, apart)
        keys, offsets, lists, left_out = call(loops.group, *given)
    else:
        keys, offsets, lists, left_out = group_plain(grids, by, background, without, univalued, diagonal, apart)
    return Lists(Patches(keys, offsets, PatchKind.OBJECT), lists, True), left_out


def group_plain(
    grids: Grids,
    by: int,
    background: Tensor,
    without: Tensor,
    univalued: Tensor,
    diagonal: Tensor,
    apart: int = NAN_COLOR,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The twin of `loops.group`: a label for every cell, the index of the first cell of its object; then sorted.

    It needs no table of colors, so that only large grids are left out.
    """
    grid = owners(grids.offsets, len(grids.cells))
    left_out = grids.offsets.diff() > LIMIT
    present = ~(without[grid] & (grids.cells == background[grid])) & ~left_out[grid]
    if by == COMPONENTS:
        labels = _component(grids, grid, present, univalued[grid], diagonal[grid], apart)
    else:
        of = (grid << BITS) + grids.cells + COORDINATE_LIMIT if by == COLORS else grid
        index = torch.arange(len(grid), device=grid.device)
        _, same = of.unique(return_inverse=True)
        labels = torch.full_like(index, len(index)).scatter_reduce(0, same, index, "amin")[same]
    return *_sorted_objects(grids, grid, labels, indices_of(present)), left_out


def _edges(
    grids: Grids, grid: Tensor, present: Tensor, one_color: Tensor, corners: Tensor, apart: int = NAN_COLOR
) -> list[tuple[Tensor, Tensor]]:
    """For every cell its neighbors before it, to the left, above, above to the left and to the right; and whether the
    two are connected."""
    cells, (i, j) = grids.cells, places(grids)
    index, width = torch.arange(len(cells), device=cells.device), grids.width[grid]
    above = i > 0

    def connected(step: Tensor | int, exists: Tensor) -> tuple[Tensor, Tensor]:
        other = torch.where(exists, index - step, index)
        alike = (cells == cells[other]) & (cells != apart)
        return other, exists & present & present[other] & (~one_color | alike)

    return [
        connected(1, j > 0),
        connected(width, above),
        connected(width + 1, above & corners & (j > 0)),
        connected(width - 1, above & corners & (j < width - 1)),
    ]


def _component(
    grids: Grids, grid: Tensor, present: Tensor, one_color: Tensor, corners: Tensor, apart: int = NAN_COLOR
) -> Tensor:
    """The connected component of every cell: runs are hooked to those above them, and pointers jump, until nothing
    changes."""
    index, edges = (
        torch.arange(len(grids.cells), device=grids.cells.device),
        _edges(grids, grid, present, one_color, corners, apart),
    )
    _, left = edges[0]
    parent = indices_of(~left)[(~left).cumsum(0) - 1]  # where the run of every cell begins
    a, b = index.repeat(3), torch.cat([torch.where(linked, other, index) for other, linked in edges[1:]])
    while True:
        low, high = torch.minimum(parent[a], parent[b]), torch.maximum(parent[a], parent[b])
        hooked = parent.scatter_reduce(0, high, low, "amin")
        for _ in range(3):
            hooked = hooked[hooked]
        if torch.equal(hooked, parent):
            return parent
        parent = hooked


def _sorted_objects(grids: Grids, grid: Tensor, labels: Tensor, member: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cells with one label as one object, those of every grid in canonical order."""
    i, j = places(grids)
    cells, labels = grids.cells[member], labels[member]
    keys = key_of(i[member], j[member], cells)
    size = torch.zeros(len(grids.cells), dtype=torch.int64, device=keys.device)
    size.index_add_(0, labels, torch.ones_like(labels))
    smallest = torch.zeros_like(size).scatter_reduce(0, labels, keys, "amin", include_self=False)
    root = indices_of(size > 0)
    root = root[smallest[root].argsort(stable=True)]
    root = root[((grid[root] << 20) - size[root]).argsort(stable=True)]
    rank = torch.empty_like(size)
    rank[root] = torch.arange(len(root), device=keys.device)
    by_color = ((rank[labels] << 20) + cells + COORDINATE_LIMIT).argsort(stable=True)
    counts = torch.zeros(grids.rows, dtype=torch.int64, device=keys.device)
    counts.index_add_(0, grid[root], torch.ones_like(root))
    return keys[by_color], offsets_of(size[root]), offsets_of(counts)


def by_distance(
    grids: Grids, background: Tensor, without: Tensor, univalued: Tensor, diagonal: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The components of grids by their first cells in reading order; the cells of each by their steps from the first
    one, and those at one distance in reading order. Large grids are left out.

    Returns:
        The keys of triples (i, j, color), where components begin, and where grids begin among the components.
    """
    given = (background, without, univalued, diagonal)
    if usable(grids.cells):
        return call(layers.by_distance, grids.cells, grids.offsets, grids.width, *given)
    return by_distance_plain(grids, *given)


def by_distance_plain(
    grids: Grids, background: Tensor, without: Tensor, univalued: Tensor, diagonal: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The twin of `layers.by_distance`: distances spread from the first cells until nothing changes."""
    grid = owners(grids.offsets, len(grids.cells))
    present = ~(without[grid] & (grids.cells == background[grid])) & (grids.offsets.diff() <= LIMIT)[grid]
    linked = (present, univalued[grid], diagonal[grid])
    index, labels = torch.arange(len(grid), device=grid.device), _component(grids, grid, *linked)
    edges = _edges(grids, grid, *linked)
    here = torch.cat([index[flags] for _, flags in edges])
    there = torch.cat([other[flags] for other, flags in edges])
    source, target = torch.cat([here, there]), torch.cat([there, here])
    distance = torch.where(index == labels, 0, len(index))
    while True:
        nearer = distance.scatter_reduce(0, target, distance[source] + 1, "amin")
        if torch.equal(nearer, distance):
            break
        distance = nearer
    member = indices_of(present)
    member = member[distance[member].argsort(stable=True)]
    member = member[labels[member].argsort(stable=True)]
    size = torch.zeros_like(index).index_add_(0, labels[member], torch.ones_like(member))
    root = indices_of(size > 0)
    counts = torch.zeros_like(grids.height).index_add_(0, grid[root], torch.ones_like(root))
    i, j = places(grids)
    cells = triples(i[member], j[member], grids.cells[member].to(torch.int64))
    return cells.keys, offsets_of(size[root]), offsets_of(counts)


def color_counts(colors: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The colors of every row in ascending order, how often each is there, and where rows then begin."""
    if usable(colors):
        return call(loops.count_colors, colors, offsets)
    return color_counts_plain(colors, offsets)


def color_counts_plain(colors: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The twin of `loops.count_colors`."""
    row = owners(offsets, len(colors))
    both, counts = ((row << 2 * BITS) + colors + (1 << BITS)).unique(return_counts=True)
    row, distinct = both >> 2 * BITS, (both & (1 << 2 * BITS) - 1) - (1 << BITS)
    sizes = torch.zeros(len(offsets) - 1, dtype=torch.int64, device=colors.device)
    return distinct, counts, offsets_of(sizes.index_add_(0, row, torch.ones_like(row)))


def extreme_color(colors: Tensor, offsets: Tensor, greatest: bool) -> Tensor:
    """The most or the least frequent color of every row, and of several the smallest; 0 for no colors."""
    if has_kernels(colors):
        from .gpu import segments

        found = segments.extreme_color(colors, offsets, greatest)
        if found is not None:
            return found
    return extreme_color_plain(colors, offsets, greatest)


def extreme_color_plain(colors: Tensor, offsets: Tensor, greatest: bool) -> Tensor:
    distinct, counts, starts = color_counts(colors, offsets)
    rank = (-counts if greatest else counts) * (1 << 32) + distinct
    best = minima(rank, starts, 0)
    return (best & (1 << 32) - 1) - ((best & 1 << 31) << 1)


def located(grids: Grids, value: Tensor | None) -> Patches:
    """The locations of the cells of a color per grid; by default of all cells."""
    if usable(grids.cells):
        given = grids.height if value is None else value
        keys, offsets = call(loops.locate, grids.cells, grids.offsets, grids.width, given, value is None)
    else:
        keys, offsets = locate_plain(grids, value)
    return Patches(keys, offsets, PatchKind.INDICES)


def locate_plain(grids: Grids, value: Tensor | None) -> tuple[Tensor, Tensor]:
    """The twin of `loops.locate`."""
    keys = key_of(*places(grids))
    if value is None:
        return keys, grids.offsets
    return filtered(keys, grids.offsets, grids.cells == value[owners(grids.offsets, len(grids.cells))])


def single_colored(grids: Grids) -> tuple[Tensor, Tensor]:
    """Whether lines have one color: all rows of all grids, and all columns of all grids."""
    rows, columns = offsets_of(grids.height), offsets_of(grids.width)
    if usable(grids.cells):
        return call(loops.single_colored, grids.cells, grids.offsets, rows, columns)
    return single_colored_plain(grids)


def single_colored_plain(grids: Grids) -> tuple[Tensor, Tensor]:
    """The twin of `loops.single_colored`."""
    grid, (i, j) = owners(grids.offsets, len(grids.cells)), places(grids)
    rows, columns = offsets_of(grids.height), offsets_of(grids.width)
    start, width = grids.offsets[grid], grids.width[grid]
    row_flags = torch.repeat_interleave(grids.width > 0, grids.height)
    column_flags = torch.ones(int(columns[-1]), dtype=torch.bool, device=grids.cells.device)
    differs = grids.cells != grids.cells[start + i * width]
    row_flags[(rows[grid] + i)[differs]] = False
    differs = grids.cells != grids.cells[start + j]
    column_flags[(columns[grid] + j)[differs]] = False
    return row_flags, column_flags


def keep_lines(grids: Grids, rows: Tensor, columns: Tensor) -> Grids:
    """The grids with some of their rows and columns only."""
    row_offsets, column_offsets = offsets_of(grids.height), offsets_of(grids.width)
    height = totals(rows.to(torch.int64), row_offsets)
    width = select(height == 0, 0, totals(columns.to(torch.int64), column_offsets))
    given = (grids.cells, grids.offsets, row_offsets, column_offsets, rows, columns)
    cells = call(loops.keep_lines, *given) if usable(grids.cells) else keep_lines_plain(grids, rows, columns)
    return Grids(cells, offsets_of(height * width), height, width)


def keep_lines_plain(grids: Grids, rows: Tensor, columns: Tensor) -> Tensor:
    """The twin of `loops.keep_lines`."""
    grid, (i, j) = owners(grids.offsets, len(grids.cells)), places(grids)
    row_offsets, column_offsets = offsets_of(grids.height), offsets_of(grids.width)
    return grids.cells[rows[row_offsets[grid] + i] & columns[column_offsets[grid] + j]]


def line_objects(grids: Grids, rows: Tensor, columns: Tensor) -> Lists:
    """Some rows and columns of grids as objects."""
    if not usable(grids.cells):
        return line_objects_plain(grids, rows, columns)
    given = (grids.cells, grids.offsets, offsets_of(grids.height), offsets_of(grids.width), rows, columns)
    keys, offsets, lists = call(loops.line_objects, *given)
    return Lists(Patches(keys, offsets, PatchKind.OBJECT), lists, True)


def line_objects_plain(grids: Grids, rows: Tensor, columns: Tensor) -> Lists:
    """The twin of `loops.line_objects`."""
    across, down = indices_of(rows), indices_of(columns)
    row_offsets, column_offsets = offsets_of(grids.height), offsets_of(grids.width)
    of_row, of_column = owners(row_offsets)[across], owners(column_offsets)[down]
    i, j = across - row_offsets[of_row], down - column_offsets[of_column]
    grid, by_grid = torch.cat([of_row, of_column]).sort(stable=True)
    i, j = torch.cat([i, torch.zeros_like(j)])[by_grid], torch.cat([torch.zeros_like(i), j])[by_grid]
    vertical = by_grid >= len(across)
    offsets = offsets_of(torch.where(vertical, grids.height[grid], grids.width[grid]))
    line = owners(offsets)
    within = torch.arange(len(line), device=line.device) - offsets[line]
    i, j, of = i[line] + within * vertical[line], j[line] + within * ~vertical[line], grid[line]
    keys = key_of(i, j, grids.cells[grids.offsets[of] + i * grids.width[of] + j])
    counts = torch.zeros_like(grids.height).index_add_(0, grid, torch.ones_like(grid))
    lists = canonical(Lists(Patches(keys, offsets, PatchKind.OBJECT), offsets_of(counts), True))
    assert isinstance(lists, Lists)
    return lists


def looked_up(patches: Patches, grids: Grids) -> Patches:
    """The cells of grids at the locations of patches; those outside are left out."""
    given = (patches.keys, patches.offsets, grids.cells, grids.offsets, grids.height, grids.width)
    keys, offsets = call(loops.look_up, *given) if usable(grids.cells) else look_up_plain(*given)
    return Patches(*sort_unique(keys, offsets), PatchKind.OBJECT)


def look_up_plain(
    keys: Tensor, offsets: Tensor, cells: Tensor, grid_offsets: Tensor, height: Tensor, width: Tensor
) -> tuple[Tensor, Tensor]:
    """The twin of `loops.look_up`."""
    i, j, row = row_of(keys), column_of(keys), owners(offsets, len(keys))
    inside = (i >= 0) & (i < height[row]) & (j >= 0) & (j < width[row])
    at = (grid_offsets[row] + i * width[row] + j)[inside]
    return key_of(i[inside], j[inside], cells[at]), offsets_of(totals(inside.to(torch.int64), offsets))


def occurring(grids: Grids, rows: Tensor, columns: Tensor, values: Tensor, steps: Tensor, offsets: Tensor) -> Patches:
    """The locations among the first rows and columns of every grid from which all cells of an object agree with it.

    Args:
        grids: the grids.
        rows, columns: (R,) how many there are to look at.
        values, steps: per cell of an object its color, and how far it is from the first location of the grid.
        offsets: (R + 1,) of the objects.
    """
    given = (grids.cells, grids.offsets, grids.width, rows, columns, values, steps, offsets)
    keys, starts = call(loops.occur, *given) if usable(grids.cells) else occur_plain(*given)
    return Patches(keys, starts, PatchKind.INDICES)


def occur_plain(
    cells: Tensor,
    offsets: Tensor,
    width: Tensor,
    rows: Tensor,
    columns: Tensor,
    values: Tensor,
    steps: Tensor,
    step_offsets: Tensor,
) -> tuple[Tensor, Tensor]:
    """The twin of `loops.occur`: locations that still agree are compared with more and more cells at a time."""
    counts = rows * columns
    grid, starts = owners(offsets_of(counts)), offsets_of(counts)
    within = torch.arange(len(grid), device=cells.device) - starts[grid]
    i = within // columns[grid]
    j = within - i * columns[grid]
    origin, key = offsets[grid] + i * width[grid] + j, key_of(i, j)
    done, block = 0, 1
    longest = int(step_offsets.diff().max()) if len(rows) else 0
    while done < longest and len(grid):
        block = max(1, min(4 * block, _BLOCK // len(grid), longest - done))
        at = step_offsets[grid, None] + torch.arange(done, done + block, device=cells.device)
        exists = at < step_offsets[grid + 1, None]
        at = select(exists, at, 0)
        there = select(exists, origin[:, None] + steps[at], 0)
        keep = (~exists | (cells[there] == values[at])).all(1)
        grid, origin, key = grid[keep], origin[keep], key[keep]
        done += block
    counts = torch.zeros_like(rows).index_add_(0, grid, torch.ones_like(grid))
    return key, offsets_of(counts)
