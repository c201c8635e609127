"""Operations on patches: where they are, how they lie to each other, and the lines around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.vocabulary import lines as n
from brimful.programs.vocabulary import patches as p
from brimful.programs.vocabulary import pieces as c
from brimful.programs.vocabulary import relations as r
from brimful.programs.vocabulary.bound import SizeError

from .expectations import literal_cases
from .strategies import INDICES, LOCATIONS, PATCHES

GRID = ((1, 2, 2), (0, 2, 1))
INDEX = frozenset({(1, 2), (3, 5)})
OBJECT = frozenset({(7, (1, 2)), (4, (3, 5))})
MIXED = frozenset({(1, 2), (4, (3, 5))})
DOT = frozenset({(1, (2, 2))})
EMPTY = frozenset()
BOX = frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})

VALUES = [
    (p.toindices, (OBJECT,), INDEX),
    (p.toindices, (INDEX,), INDEX),
    (p.toindices, ((),), EMPTY),
    (p.recolor, (3, OBJECT), frozenset({(3, (1, 2)), (3, (3, 5))})),
    (p.recolor, (3, INDEX), frozenset({(3, (1, 2)), (3, (3, 5))})),
    (p.shift, (INDEX, (1, -2)), frozenset({(2, 0), (4, 3)})),
    (p.shift, (OBJECT, (1, -2)), frozenset({(7, (2, 0)), (4, (4, 3))})),
    (p.shift, ((), None), ()),
    (p.normalize, (OBJECT,), frozenset({(7, (0, 0)), (4, (2, 3))})),
    (p.uppermost, (OBJECT,), 1),
    (p.uppermost, (MIXED,), 1),
    (p.lowermost, (INDEX,), 3),
    (p.leftmost, (INDEX,), 2),
    (p.rightmost, (OBJECT,), 5),
    (p.ulcorner, (OBJECT,), (1, 2)),
    (p.ulcorner, (EMPTY,), ()),
    (p.ulcorner, (((1, 2, 3), (0, 5, 1)),), (0, 2, 1)),
    (p.urcorner, (OBJECT,), (1, 5)),
    (p.llcorner, (INDEX,), (3, 2)),
    (p.lrcorner, (INDEX,), (3, 5)),
    (p.corners, (INDEX,), frozenset({(1, 2), (1, 5), (3, 2), (3, 5)})),
    (p.corners, (EMPTY,), frozenset({()})),
    (p.height, (OBJECT,), 3),
    (p.height, (GRID,), 2),
    (p.height, (EMPTY,), 0),
    (p.width, (OBJECT,), 4),
    (p.width, (GRID,), 3),
    (p.shape, (OBJECT,), (3, 4)),
    (p.shape, (GRID,), (2, 3)),
    (p.portrait, (frozenset({(0, 0), (1, 0)}),), True),
    (p.portrait, (GRID,), False),
    (p.square, (BOX,), True),
    (p.square, (INDEX,), False),
    (p.square, (GRID,), False),
    (p.square, (EMPTY,), True),
    (p.vline, (frozenset({(0, 4), (1, 4)}),), True),
    (p.vline, (BOX,), False),
    (p.hline, (frozenset({(2, (4, 0)), (3, (4, 1))}),), True),
    (p.hline, (BOX,), False),
    (p.center, (INDEX,), (2, 4)),
    (p.centerofmass, (frozenset({(0, 0), (0, 1), (4, 4)}),), (1, 1)),
    (p.centerofmass, (EMPTY,), ()),
    (p.hperiod, (frozenset((j % 2, (0, j + 3)) for j in range(5)),), 2),
    (p.hperiod, (DOT,), 1),
    (p.vperiod, (frozenset((i % 3, (i, 0)) for i in range(4)),), 3),
    (p.vperiod, (EMPTY,), 0),
    (c.mostcolor, (GRID,), 2),
    (c.mostcolor, (((3, 1), (1, 3)),), 1),
    (c.leastcolor, (GRID,), 0),
    (c.leastcolor, (OBJECT,), 4),
    (c.leastcolor, (frozenset({frozenset({(5, (0, 0)), (0, (0, 1))})}),), (0, (0, 1))),
    (c.palette, (GRID,), frozenset({0, 1, 2})),
    (c.palette, (OBJECT,), frozenset({4, 7})),
    (c.numcolors, (GRID,), 3),
    (c.colorcount, (GRID, 2), 3),
    (c.colorcount, (OBJECT, 7), 1),
    (c.hmirror, (GRID,), ((0, 2, 1), (1, 2, 2))),
    (c.hmirror, (OBJECT,), frozenset({(7, (3, 2)), (4, (1, 5))})),
    (c.vmirror, (GRID,), ((2, 2, 1), (1, 2, 0))),
    (c.vmirror, (INDEX,), frozenset({(1, 5), (3, 2)})),
    (c.dmirror, (GRID,), ((1, 0), (2, 2), (2, 1))),
    (c.dmirror, (INDEX,), frozenset({(1, 2), (4, 4)})),
    (c.cmirror, (GRID,), ((1, 2), (2, 2), (0, 1))),
    (c.cmirror, (frozenset({(1, (0, 0)), (2, (0, 1))}),), frozenset({(2, (0, 0)), (1, (1, 0))})),
    (r.hmatching, (INDEX, frozenset({(5, (3, 9))})), True),
    (r.hmatching, (INDEX, BOX), True),
    (r.hmatching, (INDEX, EMPTY), False),
    (r.vmatching, (INDEX, BOX), False),
    (r.vmatching, (OBJECT, frozenset({(8, 5)})), True),
    (r.manhattan, (OBJECT, BOX), 1),
    (r.manhattan, (frozenset({(0, 0), (9, 9)}), frozenset({(5, 6), (20, 9)})), 7),
    (r.manhattan, (INDEX, INDEX), 0),
    (r.adjacent, (OBJECT, BOX), True),
    (r.adjacent, (INDEX, INDEX), False),
    (r.bordering, (BOX, GRID), True),
    (r.bordering, (frozenset({(1, 1)}), ((0,) * 3,) * 3), False),
    (r.position, (DOT, frozenset({(9, 9)})), (1, 1)),
    (r.position, (DOT, frozenset({(2, 0)})), (0, -1)),
    (r.position, (DOT, frozenset({(0, 2)})), (-1, 0)),
    (r.position, (DOT, frozenset({(0, 9)})), (-1, 1)),
    (r.gravitate, (DOT, frozenset({(2, 8)})), (0, 5)),
    (r.gravitate, (frozenset({(9, 2)}), DOT), (-6, 0)),
    (r.gravitate, (DOT, frozenset({(3, 2)})), (0, 0)),
    (r.gravitate, (DOT, frozenset({(90, 91)})), (0, 42)),
    (n.dneighbors, ((1, 1),), frozenset({(0, 1), (2, 1), (1, 0), (1, 2)})),
    (n.ineighbors, ((0, 0),), frozenset({(-1, -1), (-1, 1), (1, -1), (1, 1)})),
    (n.neighbors, ((1, 1),), frozenset({(i, j) for i in range(3) for j in range(3)} - {(1, 1)})),
    (n.connect, ((1, 1), (1, 3)), frozenset({(1, 1), (1, 2), (1, 3)})),
    (n.connect, ((3, 1), (1, 1)), frozenset({(1, 1), (2, 1), (3, 1)})),
    (n.connect, ((0, 0), (2, 2)), frozenset({(0, 0), (1, 1), (2, 2)})),
    (n.connect, ((0, 2), (2, 0)), frozenset({(0, 2), (1, 1), (2, 0)})),
    (n.connect, ((0, 0), (1, 2)), EMPTY),
    (n.shoot, ((0, 0), (-1, 1)), frozenset((-k, k) for k in range(43))),
    (n.shoot, ((2, 3), (0, 0)), frozenset({(2, 3)})),
    (n.vfrontier, ((4, 5),), frozenset((i, 5) for i in range(30))),
    (n.hfrontier, ((4, 5),), frozenset((4, j) for j in range(30))),
    (n.backdrop, (frozenset({(0, 0), (1, 1)}),), BOX),
    (n.backdrop, (EMPTY,), EMPTY),
    (n.delta, (frozenset({(0, 0), (1, 1)}),), frozenset({(0, 1), (1, 0)})),
    (n.inbox, (frozenset({(0, 0), (3, 3)}),), frozenset({(1, 1), (1, 2), (2, 1), (2, 2)})),
    (n.inbox, (frozenset({(0, 0)}),), frozenset({(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)} - {(0, 0)})),
    (n.outbox, (DOT,), frozenset({(i, j) for i in (1, 2, 3) for j in (1, 2, 3)} - {(2, 2)})),
    (n.box, (frozenset({(0, 0), (2, 2)}),), frozenset({(i, j) for i in range(3) for j in range(3)} - {(1, 1)})),
    (n.box, ((),), ()),
]

FAILURES = [
    *[
        (function, (EMPTY,), ValueError)
        for function in (p.uppermost, p.lowermost, p.leftmost, p.rightmost, p.center, n.inbox, n.outbox)
    ],
    *[
        (function, (MIXED,), TypeError)
        for function in (p.leftmost, p.ulcorner, p.lrcorner, p.normalize, p.width, c.hmirror, n.box, n.delta)
    ],
    (p.toindices, (3,), TypeError),
    (p.toindices, (frozenset({(1,)}),), IndexError),
    (p.recolor, (1, frozenset({5})), TypeError),
    (p.shift, (INDEX, 3), TypeError),
    (p.shift, (INDEX, (1, 2, 3)), ValueError),
    (p.shift, (MIXED, (1, 2)), TypeError),
    (p.urcorner, (((1, 2, 3), (0, 5, 1)),), KeyError),
    (p.llcorner, (((1, 2, 3), (0, 5, 1)),), KeyError),
    (p.corners, (frozenset({(1, 2), ((), 3)}),), TypeError),
    (p.width, (5,), TypeError),
    (p.shape, ((1,),), TypeError),
    (p.portrait, (5,), TypeError),
    (p.square, ((),), IndexError),
    (p.vline, ((5,),), TypeError),
    (p.hline, (5,), TypeError),
    (p.centerofmass, (5,), TypeError),
    (p.hperiod, (INDEX,), TypeError),
    (p.vperiod, (INDEX,), TypeError),
    (c.mostcolor, ((),), ValueError),
    (c.leastcolor, (BOX | {(1, 2, 3)},), ValueError),
    (c.palette, ((1, 2),), TypeError),
    (c.numcolors, (5,), TypeError),
    (c.colorcount, ((1, 2), 1), AttributeError),
    (c.hmirror, (EMPTY,), IndexError),
    (c.vmirror, (5,), TypeError),
    (c.dmirror, (EMPTY,), ValueError),
    (c.cmirror, (EMPTY,), IndexError),
    (r.hmatching, (5, INDEX), TypeError),
    (r.vmatching, (INDEX, 5), TypeError),
    (r.manhattan, (INDEX, EMPTY), ValueError),
    (r.adjacent, (EMPTY, INDEX), ValueError),
    (r.bordering, (EMPTY, GRID), ValueError),
    (r.position, (EMPTY, INDEX), ValueError),
    (r.gravitate, (INDEX, EMPTY), ValueError),
    (n.dneighbors, ((1,),), IndexError),
    (n.ineighbors, (5,), TypeError),
    (n.neighbors, (((), 1),), TypeError),
    (n.connect, ((1,), (1, 2)), ValueError),
    (n.shoot, ((1, 2), 3), TypeError),
    (n.vfrontier, ((1,),), IndexError),
    (n.hfrontier, (3,), TypeError),
    (n.backdrop, (5,), TypeError),
]

FAR = frozenset({(0, 0), (2**40, 2**40)})

TOO_LARGE = [
    (n.connect, ((0, 0), (0, 2**40))),
    (n.connect, ((0, 0), (2**40, 2**40))),
    (n.connect, ((-(2**62), 0), (2**62, 0))),
    (n.shoot, ((0, 0), (2**60, 0))),
    (n.shoot, ((0, 0), (2**30, 0))),
    (n.backdrop, (FAR,)),
    (n.delta, (FAR,)),
    (n.box, (FAR,)),
    (n.inbox, (FAR,)),
    (n.outbox, (FAR,)),
    (p.shift, (INDEX, (2**63, 0))),
]


test_values, test_failures, test_values_beyond_the_bound = literal_cases(VALUES, FAILURES, TOO_LARGE)


@pytest.mark.parametrize(("function", "far"), [(p.hperiod, (0, 2**40)), (p.vperiod, (2**40, 0))])
def test_periods_of_far_apart_cells_are_bounded(function, far):
    with pytest.raises(SizeError):
        function(frozenset({(1, (0, 0)), (2, far)}))


@given(PATCHES)
def test_extent(patch):
    locations = p.toindices(patch)
    assert p.ulcorner(patch) == (p.uppermost(patch), p.leftmost(patch))
    assert p.lrcorner(patch) == (max(i for i, _ in locations), max(j for _, j in locations))
    assert p.corners(patch) == {p.ulcorner(patch), p.urcorner(patch), p.llcorner(patch), p.lrcorner(patch)}
    assert p.shape(patch) == (p.height(patch), p.width(patch))
    assert len(n.backdrop(patch)) == p.height(patch) * p.width(patch)
    assert n.delta(patch) == n.backdrop(patch) - locations
    assert n.box(patch) <= n.backdrop(patch)


@given(PATCHES, LOCATIONS)
def test_shifts_and_mirrors(patch, vector):
    assert p.shift(p.shift(patch, vector), (-vector[0], -vector[1])) == patch
    assert p.normalize(p.shift(patch, vector)) == p.normalize(patch)
    assert p.ulcorner(p.normalize(patch)) == (0, 0)
    for mirror in (c.hmirror, c.vmirror, c.dmirror, c.cmirror):
        assert mirror(mirror(patch)) == patch
        assert p.ulcorner(mirror(patch)) == p.ulcorner(patch)


@given(INDICES, INDICES)
def test_distance(a, b):
    distance = min(abs(i - k) + abs(j - m) for i, j in a for k, m in b)
    assert r.manhattan(a, b) == r.manhattan(b, a) == distance
    assert r.adjacent(a, b) == (distance == 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5))
def test_values_do_not_depend_on_how_a_set_came_about(locations):
    mixed = [*locations, *((2, location) for location in locations)]
    outcomes = set()
    for cells in (mixed, mixed[::-1]):
        for function in (p.toindices, p.uppermost, p.shape, p.normalize):
            try:
                outcomes.add((function.__name__, function(frozenset(cells))))
            except (TypeError, ValueError) as error:
                outcomes.add((function.__name__, type(error)))
    assert len(outcomes) == 4
