"""Operations that make grids, and that change cells of grids."""

from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.vocabulary import grids as g
from brimful.programs.vocabulary import painting as p
from brimful.programs.vocabulary import scaling as s
from brimful.programs.vocabulary.patches import toindices
from brimful.programs.vocabulary.pieces import dmirror, hmirror, vmirror

from .expectations import literal_cases
from .strategies import GRIDS

G = ((1, 2, 3), (4, 5, 6))
WIDE = ((1, 0, 2, 3), (4, 0, 5, 6))
SPARSE = ((0, 0, 0), (0, 5, 0), (0, 0, 7))
PATCH = frozenset({(0, 0), (1, 2), (9, 9), (-1, 0)})
OBJECT = frozenset({(8, (0, 0)), (9, (1, 1)), (9, (5, 5))})

VALUES = [
    (g.rot90, (G,), ((4, 1), (5, 2), (6, 3))),
    (g.rot90, ((),), ()),
    (g.rot180, (G,), ((6, 5, 4), (3, 2, 1))),
    (g.rot270, (G,), ((3, 6), (2, 5), (1, 4))),
    (g.rot270, (((1, 2), (3,)),), ((1, 3),)),
    (g.crop, (G, (0, 1), (2, 2)), ((2, 3), (5, 6))),
    (g.crop, (G, (5, 5), (2, 2)), ()),
    (g.subgrid, (frozenset({(0, 1), (1, 2)}), G), ((2, 3), (5, 6))),
    (g.trim, (SPARSE,), ((5,),)),
    (g.trim, (((1,),),), ()),
    (g.tophalf, (SPARSE,), ((0, 0, 0),)),
    (g.bottomhalf, (SPARSE,), ((0, 0, 7),)),
    (g.lefthalf, (G,), ((1,), (4,))),
    (g.lefthalf, (WIDE,), ((1, 0), (4, 0))),
    (g.lefthalf, (((1,), (2,)),), ()),
    (g.righthalf, (G,), ((3,), (6,))),
    (g.righthalf, (WIDE,), ((2, 3), (5, 6))),
    (g.righthalf, (((1, 2), (3,)),), ()),
    (g.hconcat, (G, ((7,), (8,))), ((1, 2, 3, 7), (4, 5, 6, 8))),
    (g.hconcat, (G, ((7,),)), ((1, 2, 3, 7),)),
    (g.vconcat, (((1,),), ((2,),)), ((1,), (2,))),
    (g.hsplit, (WIDE, 2), (((1, 0), (4, 0)), ((2, 3), (5, 6)))),
    (g.hsplit, (G, 2), (((1,), (4,)), ((3,), (6,)))),
    (g.hsplit, (G, -1), ()),
    (g.vsplit, (G, 2), (((1, 2, 3),), ((4, 5, 6),))),
    (g.vsplit, (SPARSE, 2), (((0, 0, 0),), ((0, 0, 7),))),
    (g.cellwise, (((1, 2), (3, 4)), ((1, 0), (3, 0)), 9), ((1, 9), (3, 9))),
    (g.cellwise, (((1,),), ((1, 0), (3, 0)), 9), ((1,),)),
    (g.replace, (SPARSE, 0, 1), ((1, 1, 1), (1, 5, 1), (1, 1, 7))),
    (g.switch, (SPARSE, 0, 5), ((5, 5, 5), (5, 0, 5), (5, 5, 7))),
    (g.compress, (((0, 0, 0), (1, 0, 2), (3, 0, 4)),), ((1, 2), (3, 4))),
    (g.canvas, (3, (2, 3)), ((3, 3, 3), (3, 3, 3))),
    (g.canvas, (3, (0, None)), ()),
    (g.canvas, (3, (2, -1)), ((), ())),
    (g.index, (G, (1, 0)), 4),
    (g.index, (G, (2, 0)), None),
    (g.index, (G, (0, -1)), None),
    (p.fill, (G, 0, PATCH), ((0, 2, 3), (4, 5, 0))),
    (p.fill, (G, 0, OBJECT), ((0, 2, 3), (4, 0, 6))),
    (p.fill, (G, 0, frozenset()), G),
    (p.fill, (G, 0, ((0, 1), (1, 1))), ((1, 0, 3), (4, 0, 6))),
    (p.underfill, (SPARSE, 3, frozenset({(0, 0), (1, 1)})), ((3, 0, 0), (0, 5, 0), (0, 0, 7))),
    (p.paint, (G, OBJECT), ((8, 2, 3), (4, 9, 6))),
    (p.paint, (G, frozenset({(8, (0, 0)), (2, (0, 0)), (5, (0, 0))})), ((8, 2, 3), (4, 5, 6))),
    (p.underpaint, (SPARSE, frozenset({(3, (0, 0)), (3, (1, 1))})), ((3, 0, 0), (0, 5, 0), (0, 0, 7))),
    (p.underpaint, (SPARSE, frozenset({(3, (0, 0)), (2, (0, 0))})), ((2, 0, 0), (0, 5, 0), (0, 0, 7))),
    (p.cover, (SPARSE, frozenset({(5, (1, 1))})), ((0, 0, 0), (0, 0, 0), (0, 0, 7))),
    (p.move, (SPARSE, frozenset({(5, (1, 1))}), (-1, 1)), ((0, 0, 5), (0, 0, 0), (0, 0, 7))),
    (s.hupscale, (G, 2), ((1, 1, 2, 2, 3, 3), (4, 4, 5, 5, 6, 6))),
    (s.hupscale, (((), ()), None), ((), ())),
    (s.vupscale, (G, 2), ((1, 2, 3), (1, 2, 3), (4, 5, 6), (4, 5, 6))),
    (s.upscale, (((1, 2),), 2), ((1, 1, 2, 2), (1, 1, 2, 2))),
    (s.upscale, (frozenset(), None), frozenset()),
    (
        s.upscale,
        (frozenset({(1, (3, 3)), (2, (3, 4))}), 2),
        frozenset({(c, (i, j)) for c, left in ((1, 3), (2, 5)) for i in (3, 4) for j in (left, left + 1)}),
    ),
    (s.downscale, (((1, 1, 2, 2), (1, 1, 2, 2), (3, 3, 4, 4), (3, 3, 4, 4)), 2), ((1, 2), (3, 4))),
    (s.downscale, (G, -2), ((1, 3),)),
]

FAILURES = [
    (g.rot90, (frozenset({(1, 2)}),), TypeError),
    (g.rot180, ((1, 2),), TypeError),
    (g.rot270, (3,), TypeError),
    (g.crop, (G, (0,), (1, 1)), IndexError),
    (g.crop, (frozenset(), (0, 0), (1, 1)), TypeError),
    (g.subgrid, (frozenset(), G), IndexError),
    (g.trim, (5,), TypeError),
    (g.tophalf, (frozenset(),), TypeError),
    (g.bottomhalf, (5,), TypeError),
    (g.lefthalf, ((1, 2),), TypeError),
    (g.righthalf, (frozenset(),), TypeError),
    (g.hconcat, (G, (1, 2)), TypeError),
    (g.vconcat, (G, frozenset()), TypeError),
    (g.hsplit, (G, 0), ZeroDivisionError),
    (g.hsplit, ((), 2), IndexError),
    (g.vsplit, (G, (1, 2)), TypeError),
    (g.cellwise, (G, ((1, 2, 3),), 0), IndexError),
    (g.cellwise, ((), G, 0), IndexError),
    (g.replace, ((1, 2), 1, 2), TypeError),
    (g.switch, (5, 1, 2), TypeError),
    (g.compress, ((1, 2),), TypeError),
    (g.canvas, (1, (2,)), IndexError),
    (g.canvas, (1, 2), TypeError),
    (g.index, (G, (1, 2, 3)), ValueError),
    (g.index, ((), (0, 0)), IndexError),
    (p.fill, ((), 1, PATCH), IndexError),
    (p.fill, (G, 1, frozenset({(0, 0), (1, (1, 1))})), TypeError),
    (p.underfill, (((),), 1, PATCH), ValueError),
    (p.paint, (G, PATCH), TypeError),
    (p.underpaint, (G, 5), TypeError),
    (p.cover, ((), PATCH), ValueError),
    (p.move, (G, PATCH, (1, 1)), TypeError),
    (s.hupscale, (G, None), TypeError),
    (s.vupscale, (5, 2), TypeError),
    (s.upscale, (frozenset({(1, 2)}), 2), TypeError),
    (s.downscale, (G, 0), ZeroDivisionError),
    (s.downscale, (((1, 2, 3), (1,)), 2), IndexError),
]

TOO_LARGE = [
    (g.canvas, (0, (3000, 3000))),
    (g.canvas, (0, (1, 2**63))),
    (g.hsplit, (G, 2**40)),
    (g.vsplit, (G, 2**40)),
    (g.vconcat, ((0,) * 3_000_000, (0,) * 3_000_000)),
    (s.hupscale, (G, 1_000_000)),
    (s.vupscale, (G, 3_000_000)),
    (s.upscale, (G, 1500)),
    (s.upscale, (OBJECT, 1500)),
]


test_values, test_failures, test_values_beyond_the_bound = literal_cases(VALUES, FAILURES, TOO_LARGE)


@given(GRIDS)
def test_turns_and_mirrors(grid):
    assert g.rot90(g.rot90(g.rot90(g.rot90(grid)))) == grid
    assert g.rot90(g.rot90(grid)) == g.rot180(grid)
    assert g.rot90(g.rot270(grid)) == grid
    assert hmirror(hmirror(grid)) == vmirror(vmirror(grid)) == dmirror(dmirror(grid)) == grid
    assert g.rot180(grid) == hmirror(vmirror(grid))


@given(GRIDS, st.integers(1, 3))
def test_scaling_there_and_back(grid, factor):
    assert s.downscale(s.upscale(grid, factor), factor) == grid
    assert s.vupscale(s.hupscale(grid, factor), factor) == s.upscale(grid, factor)


@given(GRIDS)
def test_halves_and_parts(grid):
    if len(grid[0]) % 2 == 0:
        assert g.hconcat(g.lefthalf(grid), g.righthalf(grid)) == grid
        assert g.hsplit(grid, 2) == (g.lefthalf(grid), g.righthalf(grid))
    if len(grid) % 2 == 0:
        assert g.vconcat(g.tophalf(grid), g.bottomhalf(grid)) == grid


@given(GRIDS, st.frozensets(st.tuples(st.integers(0, 9), st.tuples(st.integers(-2, 8), st.integers(-2, 8)))))
def test_painting(grid, obj):
    painted = p.paint(grid, obj)
    inside = {location: color for color, location in sorted(obj)}
    for i, row in enumerate(painted):
        for j, color in enumerate(row):
            assert color == inside.get((i, j), grid[i][j])
    assert p.fill(grid, 3, obj) == p.fill(grid, 3, toindices(obj)) == p.paint(grid, frozenset((3, x) for _, x in obj))
    assert g.switch(g.switch(grid, 1, 2), 1, 2) == grid
