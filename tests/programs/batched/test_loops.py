"""Compiled loops over grids and patches beside their plain twins, on the same columns."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched import compiled, extents, layout, segments
from brimful.programs.batched.columns import Grids, Patches, column_of, row_of
from brimful.programs.batched.convert import build
from brimful.programs.batched.loops import distances
from brimful.programs.batched.operations import painting, patches, periods, relations
from brimful.programs.batched.rows import offsets_of
from tests.programs.batched.helpers import (
    DEVICE,
    GRIDS,
    INDICES,
    NEAR_INDICES,
    NEAR_OBJECTS,
    OBJECTS,
    in_plain_torch,
    same,
)

STEPS = st.sampled_from([-131072, -3, 0, 1, 40, 131071])


def grids(values) -> Grids:
    column = build(values, "grid", DEVICE)
    assert isinstance(column, Grids)
    return column


def patches_of(values, form) -> Patches:
    column = build(values, form, DEVICE)
    assert isinstance(column, Patches)
    return column


@given(st.lists(st.tuples(st.one_of(OBJECTS, NEAR_OBJECTS), STEPS, STEPS), min_size=1, max_size=6))
def test_boxes_and_moves(rows):
    column = patches_of([patch for patch, _, _ in rows], "object")
    assert all(map(torch.equal, extents.extent(column)[:5], extents.extent_plain(column)[:5]))
    di, dj = (torch.tensor([row[at] for row in rows]) for at in (1, 2))
    moved, far = patches.shifted(column, di, dj)
    plain, plain_far = in_plain_torch(patches, patches.shifted, column, di, dj)
    assert torch.equal(far, plain_far)
    assert torch.equal(moved.keys, plain.keys)


@given(st.lists(st.tuples(GRIDS, st.one_of(INDICES, NEAR_INDICES), NEAR_OBJECTS), min_size=1, max_size=6))
def test_cells_that_change(rows):
    grid, where = grids([row[0] for row in rows]), patches_of([row[1] for row in rows], "indices")
    value = torch.arange(len(rows)) + 20
    assert torch.equal(painting.filled(grid, where, value), painting.filled_plain(grid, where, value))
    offered = painting.paintable(patches_of([row[2] for row in rows], "object"))
    assert offered is not None
    same(painting.painted(grid, offered), painting.painted_plain(grid, offered))


@given(st.lists(st.tuples(st.one_of(GRIDS, st.just(())), GRIDS), min_size=1, max_size=6))
def test_grids_side_by_side_and_one_above_the_other(rows):
    a, b = (grids([row[at] for row in rows]) for at in (0, 1))
    given_grids = (a, b, torch.minimum(a.height, b.height), a.width + b.width)
    same(layout.beside(*given_grids), in_plain_torch(layout, layout.beside, *given_grids))
    even = (a.width == b.width) | (a.height == 0)
    given_grids = (a, b, torch.where(even, a.height + b.height, 0), torch.maximum(a.width, b.width))
    same(layout.above(*given_grids), in_plain_torch(layout, layout.above, *given_grids))


@given(st.lists(st.one_of(GRIDS, st.just(())), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_grids_walked_from_any_corner(values, down, across):
    grid = grids(values)
    first = torch.where(torch.tensor(down), 0, (grid.height - 1) * grid.width)
    first = (first + torch.where(torch.tensor(across), 0, grid.width - 1)).clamp(min=0)
    steps = grid.width * (1 if down else -1), torch.full_like(grid.width, 1 if across else -1)
    walk = (grid, grid.height, grid.width, first, *steps)
    walked = layout.walked(*walk)
    same(walked, in_plain_torch(layout, layout.walked, *walk))
    expected = [tuple(row[:: 1 if across else -1] for row in value[:: 1 if down else -1]) for value in values]
    same(walked, grids(expected))


def test_keys_that_lie_close_together_and_far_apart_are_sorted_alike():
    generator = torch.Generator().manual_seed(0)
    for spread in (3, 40, 1 << 20, 1 << 45):
        sizes = torch.tensor([0, 1, 17, 400, 30, 5000])
        keys = torch.randint(-spread, spread, (int(sizes.sum()),), generator=generator)
        keys = torch.where(torch.rand(len(keys), generator=generator) < 0.5, keys, keys % 97)
        given_keys = keys, offsets_of(sizes)
        for one, other in zip(segments.sort_unique(*given_keys), segments.sort_unique_plain(*given_keys), strict=True):
            assert torch.equal(one, other)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 300)), max_size=12), st.booleans())
def test_several_values_for_one_cell(puts, last):
    where, values = (torch.tensor([put[at] for put in puts], dtype=torch.int64) for at in (0, 1))
    cells, plain = (torch.full((6,), -9, dtype=torch.int32) for _ in range(2))
    painting._put(cells, where, values, last)
    painting.put_plain(plain, where, values, last)
    expected = dict(puts if last else puts[::-1])
    assert cells.tolist() == plain.tolist() == [expected.get(at, -9) for at in range(6)]


LENGTHS = st.one_of(st.integers(1, 9), st.integers(58, 70))  # 62 places are the bits of a number


@given(st.lists(st.tuples(st.integers(1, 3), LENGTHS, st.booleans()), min_size=1, max_size=5), st.booleans())
def test_periods(rows, upright):
    """Stripes have the period that they were made with, and a cell beside their first one changes nothing."""

    def striped(period, long, broken):
        lines = [((at % period) + 1, (at, 0) if upright else (0, at)) for at in range(long)]
        return frozenset([*lines, (7, (0, 1) if upright else (1, 0))] if broken else lines)

    column = patches_of([striped(*row) for row in rows], "object")
    reach = extents.extent(column)
    long, first = (reach.height, reach.top) if upright else (reach.width, reach.left)
    given_ = (column.keys, column.offsets, first, long, upright)
    result = periods.periods(*given_)
    assert torch.equal(result, in_plain_torch(periods, periods.periods, *given_))
    assert result.tolist() == [min(period, length) for period, length, _ in rows]


CELLS = st.frozensets(st.tuples(st.integers(0, 2), st.tuples(st.integers(0, 4), st.integers(0, 4))), max_size=12)


@given(st.lists(CELLS, min_size=1, max_size=5), st.booleans())
def test_periods_of_any_cells(values, upright):
    column = patches_of(values, "object")
    reach = extents.extent(column)
    long, first = (reach.height, reach.top) if upright else (reach.width, reach.left)
    given_ = (column.keys, column.offsets, first, long, upright)
    result = periods.periods(*given_)
    assert torch.equal(result, in_plain_torch(periods, periods.periods, *given_))
    for value, length, found in zip(values, long.tolist(), result.tolist(), strict=True):
        place = 0 if upright else 1
        begin = min((where[place] for _, where in value), default=0)

        def fits(period, value=value, place=place, begin=begin):
            back = (period, 0) if place == 0 else (0, period)
            moved = ((color, (i - back[0], j - back[1])) for color, (i, j) in value if (i, j)[place] - begin >= period)
            return all(cell in value for cell in moved)

        assert found == next((period for period in range(1, length) if fits(period)), length)


LOCATIONS = st.frozensets(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), max_size=6)


@given(st.lists(st.tuples(LOCATIONS, LOCATIONS, st.sampled_from([(1, 0), (-1, 0), (0, 1), (0, -1)])), min_size=1))
def test_how_many_steps_bring_one_set_beside_another(rows):
    """As many as it takes when they are made one by one."""
    most, direction = 7, torch.tensor([row[2] for row in rows])
    a, b = (patches_of([row[at] for row in rows], "indices") for at in (0, 1))
    sets = [part for of in (a, b) for part in (row_of(of.keys), column_of(of.keys), of.offsets)]
    sets += [direction[:, 0].contiguous(), direction[:, 1].contiguous()]
    result = compiled.call(distances.approaches, *sets, most)
    assert torch.equal(result, relations.approaches_plain(*sets, most=most))

    def apart(first, second):
        return min((abs(i - k) + abs(j - m) for i, j in first for k, m in second), default=-1)

    for (first, second, (down, across)), found in zip(rows, result.tolist(), strict=True):
        moved = (frozenset((i + at * down, j + at * across) for i, j in first) for at in range(most))
        assert found == next((at for at, one in enumerate(moved) if apart(one, second) == 1), most)
