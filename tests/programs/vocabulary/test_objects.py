"""Operations that find objects in grids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.vocabulary import objects as o
from brimful.programs.vocabulary.containers import merge
from brimful.programs.vocabulary.lines import dneighbors, neighbors
from brimful.programs.vocabulary.pieces import mostcolor, palette

from .strategies import GRIDS

G = ((1, 0, 0), (0, 1, 2), (0, 0, 2))
ONES = frozenset({(1, (0, 0)), (1, (1, 1))})
TWOS = frozenset({(2, (1, 2)), (2, (2, 2))})
ONE_CELLS = frozenset({frozenset({(1, (0, 0))}), frozenset({(1, (1, 1))})})
ZEROS = frozenset({(0, (0, 1)), (0, (0, 2)), (0, (1, 0)), (0, (2, 0)), (0, (2, 1))})

VALUES = [
    (o.objects, (G, True, True, True), frozenset({ONES, TWOS})),
    (o.objects, (G, True, False, True), ONE_CELLS | {TWOS}),
    (o.objects, (G, False, True, True), frozenset({ONES | TWOS})),
    (o.objects, (G, False, False, True), frozenset({frozenset({(1, (0, 0))}), frozenset({(1, (1, 1))}) | TWOS})),
    (o.objects, (G, True, True, False), frozenset({ONES, TWOS, ZEROS})),
    (o.objects, (G, False, False, False), frozenset({ONES | TWOS | ZEROS})),
    (o.objects, (((3, 3), (3, 3)), True, True, True), frozenset()),
    (o.objects, (((None, 1), (1, None)), True, True, False), frozenset({frozenset({(1, (0, 1)), (1, (1, 0))})})),
    (o.objects, (((1,), (2, 2)), True, False, False), frozenset({frozenset({(1, (0, 0))}), frozenset({(2, (1, 0))})})),
    (o.objects, (((), ()), True, False, False), frozenset()),
    (o.partition, (G,), frozenset({ONES, TWOS, ZEROS})),
    (o.partition, (((1,), (1, 2)),), frozenset({frozenset({(1, (0, 0)), (1, (1, 0))}), frozenset({(2, (1, 1))})})),
    (o.fgpartition, (G,), frozenset({ONES, TWOS})),
    (o.asindices, (((1, 2), (3, 4)),), frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})),
    (o.asindices, ((),), frozenset()),
    (o.asobject, (((1, 2),),), frozenset({(1, (0, 0)), (2, (0, 1))})),
    (o.asobject, (((1,), (3, 4)),), frozenset({(1, (0, 0)), (3, (1, 0)), (4, (1, 1))})),
    (o.ofcolor, (G, 2), frozenset({(1, 2), (2, 2)})),
    (o.ofcolor, (G, 7), frozenset()),
    (o.toobject, (frozenset({(0, 0), (1, 2), (9, 9)}), G), frozenset({(1, (0, 0)), (2, (1, 2))})),
    (o.toobject, (frozenset({(8, (0, 0))}), G), frozenset({(1, (0, 0))})),
    (o.color, (TWOS,), 2),
    (o.color, (TWOS | ONES,), 1),
    (o.color, (((5, 6), (7, 8)),), 5),
    (o.colorfilter, (frozenset({ONES, TWOS}), 2), frozenset({TWOS})),
    (o.colorfilter, (frozenset({ONES | TWOS}), 2), frozenset()),
    (o.sizefilter, ((ONES, ZEROS), 2), frozenset({ONES})),
    (o.occurrences, (G, frozenset({(2, (5, 5))})), frozenset({(1, 2), (2, 2)})),
    (o.occurrences, (G, ONES), frozenset({(0, 0)})),
    (o.occurrences, (((1, 1),), frozenset()), frozenset((i, j) for i in range(2) for j in range(3))),
    (o.occurrences, (((1,),), ONES), frozenset()),
    (
        o.frontiers,
        (((0, 0), (1, 0)),),
        frozenset({frozenset({(0, (0, 0)), (0, (0, 1))}), frozenset({(0, (0, 1)), (0, (1, 1))})}),
    ),
]

FAILURES = [
    (o.objects, ((), True, True, True), ValueError),
    (o.objects, ((), True, True, False), IndexError),
    (o.objects, (((1, 2), (3,)), True, True, False), IndexError),
    (o.objects, (frozenset(), True, True, False), TypeError),
    (o.partition, (5,), TypeError),
    (o.fgpartition, ((),), ValueError),
    (o.asindices, ((1, 2),), TypeError),
    (o.asobject, ((1, 2),), TypeError),
    (o.ofcolor, ((1, 2), 1), TypeError),
    (o.toobject, (frozenset(), ()), IndexError),
    (o.toobject, (5, G), TypeError),
    (o.color, (frozenset(),), StopIteration),
    (o.color, (frozenset({1}),), TypeError),
    (o.colorfilter, (frozenset({frozenset()}), 1), RuntimeError),
    (o.sizefilter, (frozenset({1}), 1), TypeError),
    (o.occurrences, (G, frozenset({(1, 2)})), TypeError),
    (o.occurrences, ((), ONES), IndexError),
    (o.frontiers, ((),), IndexError),
    (o.frontiers, (((1, 1), (1,)),), IndexError),
]


@pytest.mark.parametrize(("function", "arguments", "expected"), VALUES)
def test_values(function, arguments, expected):
    assert function(*arguments) == expected
    assert type(function(*arguments)) is type(expected)


@pytest.mark.parametrize(("function", "arguments", "error"), FAILURES)
def test_failures(function, arguments, error):
    with pytest.raises(error):
        function(*arguments)


@given(GRIDS, st.booleans(), st.booleans(), st.booleans())
def test_objects_are_the_connected_components(grid, univalued, diagonal, without_bg):
    objects = o.objects(grid, univalued, diagonal, without_bg)
    background = mostcolor(grid) if without_bg else None
    foreground = {cell for cell in o.asobject(grid) if cell[0] != background}
    assert merge(objects) == foreground
    assert sum(map(len, objects)) == len(foreground)
    around = neighbors if diagonal else dneighbors
    owner = {location: obj for obj in objects for _, location in obj}
    for color, location in foreground:
        for near in around(location) & owner.keys():
            if not univalued or grid[near[0]][near[1]] == color:
                assert owner[near] is owner[location]
    for obj in objects:
        assert not univalued or len(palette(obj)) == 1
        reached, locations = set(), {location for _, location in obj}
        queue = [next(iter(locations))]
        while queue:
            location = queue.pop()
            reached.add(location)
            queue += (around(location) & locations) - reached
        assert reached == locations


@given(GRIDS)
def test_partitions(grid):
    partition = o.partition(grid)
    assert merge(partition) == o.asobject(grid)
    assert {o.color(part) for part in partition} == palette(grid)
    assert {part for part in partition if o.color(part) != mostcolor(grid)} == o.fgpartition(grid)
    for part in partition:
        assert o.ofcolor(grid, o.color(part)) == {location for _, location in part}
        assert o.toobject(part, grid) == part


@given(GRIDS, st.data())
def test_occurrences_are_where_an_object_is_found_again(grid, data):
    cells = sorted(o.asobject(grid))
    obj = frozenset(data.draw(st.lists(st.sampled_from(cells), min_size=1, max_size=3)))
    top, left = min(i for _, (i, _) in obj), min(j for _, (_, j) in obj)
    found = o.occurrences(grid, obj)
    assert (top, left) in found
    for i, j in found:
        assert all(grid[a - top + i][b - left + j] == color for color, (a, b) in obj)
