"""Objects in grids, over columns as row by row."""

import itertools
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched import cells, segments
from brimful.programs.batched.columns import Grids, Ints, Lists, Patches
from brimful.programs.batched.convert import build, encode
from brimful.programs.batched.kernels import KERNELS
from brimful.programs.vocabulary.arc import ARC
from tests.programs.batched.helpers import (
    DEVICE,
    GRIDS,
    INTEGERS,
    NEAR_INDICES,
    NEAR_OBJECTS,
    PATCHES,
    columns,
    compare,
    random_grid,
    same,
    well_formed,
)

OF_A_GRID = ["partition", "fgpartition", "asobject", "asindices", "frontiers", "compress"]
OF_COLORS = ["mostcolor", "leastcolor", "palette", "numcolors"]
BOOLEANS = st.booleans()
COLOR = st.integers(-1, 4)
LARGE = random_grid(random.Random(0), 90, 90)


@given(columns(GRIDS, BOOLEANS, BOOLEANS, BOOLEANS))
def test_components(arguments):
    compare("objects", *arguments)


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=3)))
def test_components_of_all_sizes(flags):
    rng = random.Random(1)
    grids = [random_grid(rng, *sides, colors) for sides in [(1, 1), (1, 9), (30, 30), (17, 3)] for colors in (1, 2, 9)]
    grids += [(), LARGE, ((0, 131071), (-131072, 5)), _spiral(31)]
    assert compare("objects", grids, *([flag] * len(grids) for flag in flags)) == 1  # colors far from each other


def test_plain_twins_stand_in_for_compiled_loops(monkeypatch):
    """As on a GPU."""
    monkeypatch.setattr(cells, "usable", lambda tensor: False)
    rng = random.Random(2)
    grids = [(), ((),), _spiral(9), *(random_grid(rng, rng.randint(1, 7), rng.randint(1, 7)) for _ in range(20))]
    for name in OF_A_GRID:
        assert compare(name, grids) == 0
    flags = [[rng.random() < 0.5 for _ in grids] for _ in range(3)]
    assert compare("objects", grids, *flags) == 0
    assert compare("ofcolor", grids, [1] * len(grids)) == 0
    patches = [frozenset({(rng.randrange(9), rng.randrange(9)) for _ in range(5)}) for _ in grids]
    assert compare("toobject", patches, grids) == 0
    objects = [_part(grid, rng) if grid and grid[0] else frozenset() for grid in grids]
    assert compare("occurrences", grids, objects) == 0


def _spiral(side):
    """One object with many turns."""
    grid, i, j, di, dj = [[0] * side for _ in range(side)], 0, 0, 0, 1
    for length in [side - 1, *(n for n in range(side - 1, 0, -2) for _ in range(2))]:
        for _ in range(length):
            grid[i][j] = 1
            i, j = i + di, j + dj
        di, dj = dj, -di
    return tuple(map(tuple, grid))


@pytest.mark.parametrize("name", OF_A_GRID)
@given(columns(GRIDS))
def test_operations_of_a_grid(name, arguments):
    compare(name, *arguments)


@pytest.mark.parametrize("name", [*OF_A_GRID, *OF_COLORS])
def test_grids_without_rows_or_without_columns_and_large_ones(name):
    uniform = ((1, 2), (1, 2))
    grids = [(), ((),), ((), ()), ((5,),), ((5, 5), (5, 5)), uniform, tuple(zip(*uniform, strict=True)), LARGE]
    assert compare(name, grids) == 0


@pytest.mark.parametrize("name", OF_COLORS)
@given(columns(st.one_of(GRIDS, PATCHES)))
def test_colors(name, arguments):
    compare(name, *arguments)


@pytest.mark.parametrize("of", [GRIDS, NEAR_OBJECTS, NEAR_INDICES])
def test_colors_are_counted(of):
    @given(columns(of, st.one_of(COLOR, BOOLEANS, INTEGERS)))
    def check(arguments):
        compare("colorcount", *arguments)
        compare("color", arguments[0])

    check()


def test_the_color_of_cells_in_a_tuple_is_that_of_the_first():
    assert compare("color", [((3, (0, 0)), (1, (5, 5))), ((2, (7, 7)),), (), ((9, (1, 0)), (9, (0, 0)))]) == 0


@given(columns(GRIDS, st.one_of(COLOR, BOOLEANS, INTEGERS)))
def test_locations_of_a_color(arguments):
    compare("ofcolor", *arguments)


@given(columns(PATCHES, GRIDS))
def test_cells_at_locations(arguments):
    compare("toobject", *arguments)


@given(columns(GRIDS, st.one_of(NEAR_OBJECTS, PATCHES)))
def test_occurrences(arguments):
    compare("occurrences", *arguments)


@given(st.data())
def test_occurrences_of_parts_of_the_grid(data):
    grids = data.draw(st.lists(GRIDS, min_size=1, max_size=5))
    objects = [_part(grid, data.draw(st.randoms(use_true_random=False))) for grid in grids]
    assert compare("occurrences", grids, objects, forms=["grid", "object"]) == 0


def _part(grid, rng):
    i, j, di, dj = rng.randrange(len(grid)), rng.randrange(len(grid[0])), rng.choice([0, -5, 7]), rng.randrange(3)
    part = [(v, (a + di, b + dj)) for a, row in enumerate(grid[i : i + 3]) for b, v in enumerate(row[j : j + 2])]
    return frozenset(rng.sample(part, rng.randrange(len(part) + 1)))


LISTS = st.one_of(
    st.frozensets(NEAR_OBJECTS, max_size=5),
    st.lists(NEAR_OBJECTS, max_size=5).map(tuple),
    st.frozensets(NEAR_INDICES, max_size=5),
)


@pytest.mark.parametrize("name", ["colorfilter", "sizefilter"])
@given(columns(LISTS, st.one_of(COLOR, BOOLEANS)))
def test_objects_are_chosen(name, arguments):
    compare(name, *arguments)


def test_objects_are_chosen_without_running_row_by_row():
    lists = [frozenset({frozenset({(n, (0, 0))}), frozenset({(1, (0, n)), (2, (3, 3))})}) for n in range(4)]
    for name, form in itertools.product(["colorfilter", "sizefilter"], [frozenset, tuple]):
        assert compare(name, [form(value) for value in lists], [1] * 4) == 0


@pytest.mark.parametrize("name", ["asindices", "partition", "asobject", "frontiers", "ofcolor"])
def test_a_grid_beyond_the_limit_runs_row_by_row(name):
    grids = build([((1,) * 1_000,) * 1_001, ((1, 2),)], "grid", DEVICE)
    computed = KERNELS[name](None, grids, *[Ints(torch.ones(2, dtype=torch.int64))] * (name == "ofcolor"))
    assert computed is not None and computed.sequential is not None
    assert computed.sequential.tolist() == [True, False]
    well_formed(computed.column)


def test_a_grid_of_many_cells():
    grid = tuple((1,) * 150 + (row // 90,) * 200 for row in range(360))
    flags = [Ints(torch.ones(1, dtype=torch.int64), True)] * 3
    computed = KERNELS["objects"](None, build([grid], "grid", DEVICE), *flags)
    assert computed is not None and computed.sequential is not None
    assert not bool(computed.sequential.any())
    assert computed.column.decode([0]) == [ARC["objects"].function(grid, True, True, True)]


@given(st.lists(st.one_of(GRIDS, st.just(())), min_size=1, max_size=6), st.integers(0, 2**32))
def test_compiled_loops_and_their_plain_twins(given_grids, seed):
    grids, _ = encode([*given_grids, ((7, 1000, -20, 7),)], DEVICE, "grid")
    assert isinstance(grids, Grids)
    rng = random.Random(seed)
    without, univalued, diagonal = (torch.tensor([rng.random() < 0.5 for _ in range(grids.rows)]) for _ in range(3))
    background = cells.extreme_color(grids.cells, grids.offsets, True)
    for by in (cells.COMPONENTS, cells.COLORS, cells.GRIDS):
        lists, left_out = cells.grouped(grids, by, background, without, univalued, diagonal)
        plain = cells.group_plain(grids, by, background, without, univalued, diagonal)
        for left, right in zip([*_numbers(lists), left_out], plain, strict=True):
            assert torch.equal(left, right)
        ordered = segments.canonical(lists)
        assert ordered is not None
        same(lists, ordered)
    for left, right in [
        *zip(
            cells.color_counts(grids.cells, grids.offsets),
            cells.color_counts_plain(grids.cells, grids.offsets),
            strict=True,
        ),
        *zip(cells.single_colored(grids), cells.single_colored_plain(grids), strict=True),
        *zip(_patch(cells.located(grids, None)), cells.locate_plain(grids, None), strict=True),
        *zip(_patch(cells.located(grids, background)), cells.locate_plain(grids, background), strict=True),
    ]:
        assert torch.equal(left, right)
    lines = cells.single_colored(grids)
    assert torch.equal(cells.keep_lines(grids, *lines).cells, cells.keep_lines_plain(grids, *lines))
    same(cells.line_objects(grids, *lines), cells.line_objects_plain(grids, *lines))
    rows, columns_ = (grids.height - 1).clamp(min=0), (grids.width - 1).clamp(min=0)
    size = torch.tensor([rng.randrange(4) for _ in range(grids.rows)]) * (rows * columns_ > 0)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), size.cumsum(0)])
    owner = torch.repeat_interleave(torch.arange(grids.rows), size)
    steps = torch.tensor([rng.choice([0, 1]) for _ in owner], dtype=torch.int64)
    steps = steps + grids.width[owner] * torch.tensor([rng.choice([0, 1]) for _ in owner], dtype=torch.int64)
    values = torch.tensor([rng.randrange(2) for _ in owner], dtype=torch.int64)
    arguments = (rows, columns_, values, steps, offsets)
    plain = cells.occur_plain(grids.cells, grids.offsets, grids.width, *arguments)
    for left, right in zip(_patch(cells.occurring(grids, *arguments)), plain, strict=True):
        assert torch.equal(left, right)


def _numbers(lists: Lists):
    objects = lists.elements
    assert isinstance(objects, Patches)
    return [objects.keys, objects.offsets, lists.offsets]


def _patch(patches):
    return [patches.keys, patches.offsets]
