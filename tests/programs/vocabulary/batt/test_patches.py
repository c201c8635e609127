"""Patches of a batt: cells are (i, j, color)."""

import math

import pytest

from .cases import value

CASES = {
    "toindices(OBJ)": {(1, 1), (1, 2), (2, 1)},
    "toindices(IND)": {(1, 1), (1, 2), (2, 1)},
    "toindices(fs(4, 5))": frozenset(),
    "toindices_i(IND)": {(1, 1), (1, 2), (2, 1)},
    "toindices_o(OBJ)": {(1, 1), (1, 2), (2, 1)},
    **{f"{side}{kind}": edge for side, edge in (("uppermost", 1), ("leftmost", 1)) for kind in ("(OBJ)", "_o(OBJ)")},
    **{f"{side}{kind}": edge for side, edge in (("lowermost", 2), ("rightmost", 2)) for kind in ("(OBJ)", "_o(OBJ)")},
    "uppermost_i(IND)": 1,
    "lowermost_i(IND)": 2,
    "leftmost_i(IND)": 1,
    "rightmost_i(IND)": 2,
    "rightmost_i(fs())": 0,
    "(col_row(OBJ, R0), col_row(OBJ, R1), col_row(OBJ, R2), col_row(OBJ, R3), col_row(OBJ, R4))": (2, 1, 1, 2, None),
    "(ulcorner(OBJ), urcorner(OBJ), llcorner(OBJ), lrcorner(OBJ))": ((1, 1), (1, 2), (2, 1), (2, 2)),
    "(ulcorner_o(OBJ), urcorner_o(OBJ), llcorner_o(OBJ), lrcorner_o(OBJ))": ((1, 1), (1, 2), (2, 1), (2, 2)),
    "(ulcorner_i(IND), urcorner_i(IND), llcorner_i(IND), lrcorner_i(IND))": ((1, 1), (1, 2), (2, 1), (2, 2)),
    "ulcorner(fs())": (),
    "(corner(OBJ, R0), corner(OBJ, R1), corner(OBJ, R2), corner(OBJ, R3), corner(OBJ, R4))": (
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
        (1, 1),
    ),
    "corners(OBJ)": {(1, 1), (1, 2), (2, 1), (2, 2)},
    "(height_f(OBJ), height_o(OBJ), height_i(IND), height(IND))": (2, 2, 2, 2),
    "(width_f(OBJ), width_o(OBJ), width_i(IND), width(IND))": (2, 2, 2, 2),
    "shape_f(OBJ)": (2, 2),
    "shape(fs())": (0, 0),
    "portrait_f(fs((0, 0), (3, 0)))": True,
    "portrait(fs((0, 0), (0, 3)))": False,
    "square_f(OBJ)": False,
    "square(backdrop(OBJ))": True,
    "(vline_i(fs((0, 0), (1, 0))), vline_o(fs((0, 0, 5), (2, 0, 5))), vline(fs((0, 0))))": (True, False, True),
    "(hline_i(fs((0, 0), (0, 1))), hline_o(fs((0, 0, 5), (0, 2, 5))), hline(fs((0, 0))))": (True, False, True),
    "center(OBJ)": (2, 2),
    "center(fs())": (),
    "centerofmass(OBJ)": (1, 1),
    "shift(OBJ, (1, -1))": {(2, 0, 3), (2, 1, 3), (3, 0, 3)},
    "shift(IND, ())": {(1, 1), (1, 2), (2, 1)},
    "normalize(OBJ)": {(0, 0, 3), (0, 1, 3), (1, 0, 3)},
    "normalize_i(IND)": {(0, 0), (0, 1), (1, 0)},
    "normalize_o(OBJ)": {(0, 0, 3), (0, 1, 3), (1, 0, 3)},
    "hmirror_f(OBJ)": {(2, 1, 3), (2, 2, 3), (1, 1, 3)},
    "hmirror_i(IND)": {(2, 1), (2, 2), (1, 1)},
    "hmirror_o(OBJ)": {(2, 1, 3), (2, 2, 3), (1, 1, 3)},
    "vmirror_f(IND)": {(1, 2), (1, 1), (2, 2)},
    "vmirror_i(IND)": {(1, 2), (1, 1), (2, 2)},
    "vmirror_o(OBJ)": {(1, 2, 3), (1, 1, 3), (2, 2, 3)},
    "dmirror_f(fs((0, 1), (0, 2)))": {(0, 1), (1, 1)},
    "dmirror_i(fs((0, 1), (0, 2)))": {(0, 1), (1, 1)},
    "dmirror_o(fs((0, 1, 5), (0, 2, 5)))": {(0, 1, 5), (1, 1, 5)},
    "cmirror_f(IND)": {(2, 2), (1, 2), (2, 1)},
    "cmirror_i(IND)": {(2, 2), (1, 2), (2, 1)},
    "cmirror_o(OBJ)": {(2, 2, 3), (1, 2, 3), (2, 1, 3)},
    "hmirror(OBJ)": {(2, 1, 3), (2, 2, 3), (1, 1, 3)},
    "mir_rot_f(IND, A2)": {(1, 2), (1, 1), (2, 2)},
    "mir_rot_f(IND, A5)": {(1, 1), (1, 2), (2, 1)},
    "upscale_f(fs((1, 1, 4)), 2)": {(1, 1, 4), (1, 2, 4), (2, 1, 4), (2, 2, 4)},
    "upscale(fs((1, 1, 4)), 1)": {(1, 1, 4)},
    "recolor_i(7, IND)": {(1, 1, 7), (1, 2, 7), (2, 1, 7)},
    "recolor_o(7, OBJ)": {(1, 1, 7), (1, 2, 7), (2, 1, 7)},
    "recolor(7, OBJ)": {(1, 1, 7), (1, 2, 7), (2, 1, 7)},
    "backdrop(OBJ)": {(1, 1), (1, 2), (2, 1), (2, 2)},
    "backdrop(7)": frozenset(),
    "delta(OBJ)": {(2, 2)},
    "box(fs((0, 0), (2, 2)))": {(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)},
    "inbox(fs((0, 0), (2, 2)))": {(1, 1)},
    "outbox(fs((1, 1)))": {(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)},
    "outbox(())": frozenset(),
    "connect((0, 0), (0, 2))": {(0, 0), (0, 1), (0, 2)},
    "connect((2, 0), (0, 0))": {(0, 0), (1, 0), (2, 0)},
    "connect((0, 2), (2, 0))": {(0, 2), (1, 1), (2, 0)},
    "connect((0, 0), (2, 2))": {(0, 0), (1, 1), (2, 2)},
    "connect((0, 0), (1, 2))": frozenset(),
    "connect((), (1, 2))": frozenset(),
    "size(shoot(ORIGIN, DOWN))": 43,
    "shoot((), DOWN)": frozenset(),
    "size(intersection(vfrontier((4, 7)), hfrontier((4, 7))))": 1,
    "hfrontier(())": frozenset(),
    "dneighbors(ORIGIN)": {(-1, 0), (1, 0), (0, -1), (0, 1)},
    "ineighbors(ORIGIN)": {(-1, -1), (-1, 1), (1, -1), (1, 1)},
    "size(neighbors(ORIGIN))": 8,
    "neighbors(7)": frozenset(),
    "hmatching(IND, fs((2, 9)))": True,
    "vmatching(IND, fs((2, 9)))": False,
    "manhattan(IND, fs((2, 9)))": 8,
    "manhattan(IND, fs((1, 2)))": 0,
    "manhattan(IND, fs())": math.inf,
    "adjacent(OBJ, fs((2, 2)))": True,
    "bordering(OBJ, canvas(0, (9, 9)))": False,
    "bordering(OBJ, canvas(0, (3, 9)))": True,
    "position(OBJ, fs((9, 9)))": (1, 1),
    "position(OBJ, fs((2, 0)))": (0, -1),
    "gravitate(fs((0, 0, 1)), fs((0, 5, 2)))": (0, 4),
    "gravitate(fs((5, 0)), fs((0, 0)))": (-4, 0),
    "gravitate(OBJ, fs())": {(1, 1, 3), (1, 2, 3), (2, 1, 3)},
}


@pytest.mark.parametrize("text", CASES)
def test_value(text):
    found = value(text)
    assert found == CASES[text]
    assert isinstance(found, frozenset) == isinstance(CASES[text], (set, frozenset))


@pytest.mark.parametrize("side", ["uppermost", "lowermost", "leftmost", "rightmost", "uppermost_i", "lowermost_o"])
def test_an_empty_patch_has_no_sides(side):
    assert math.isnan(value(f"{side}(fs())"))
