"""Numbers, pairs, cells and constants of a batt."""

import pytest

from .cases import value

CASES = {
    "identity(G)": ((1, 0, 0), (0, 2, 2)),
    "add(2, 3)": 5,
    "add(UNITY, 3)": (4, 4),
    "add((), 3)": 3,
    "add((1, 2), ())": (1, 2),
    "add(NEG_ONE, RIGHT)": (-1, 0),
    "subtract(5, 3)": 2,
    "subtract((), 3)": -3,
    "multiply(3, (1, 2))": (3, 6),
    "multiply((), 7)": 7,
    "divide(7, 2)": 3,
    "divide(7, ())": 7,
    "divide(7, 0)": (),
    "invert(DOWN)": (-1, 0),
    "even(4)": True,
    "double((1, 2))": (2, 4),
    "halve(-3)": -2,
    "flip(F)": True,
    "equality(G, G)": True,
    "greater(2, 3)": False,
    "both(T, F)": False,
    "either(T, F)": True,
    "increment((0, 5))": (1, 6),
    "decrement(0)": -1,
    "crement((-2, 0))": (-3, 0),
    "sign((-7, 4))": (-1, 1),
    "positive(0)": False,
    "toivec(3)": (3, 0),
    "tojvec(3)": (0, 3),
    "branch(F, 1, 2)": 2,
    "c_branch(T, RED, BLUE)": 2,
    "astuple(G, 7)": (((1, 0, 0), (0, 2, 2)), 7),
    "astriple(1, 2, RED)": (1, 2, 2),
    "ascell((4, 5), CYAN)": (4, 5, 8),
    "toij((4, 5, 8))": (4, 5),
    "celltuple(((0, 1), (2, 3)), (5, 6))": ((0, 1, 5), (2, 3, 6)),
    "celltuple((fs(3, 1),), (5,))": ((1, 3, 5),),
    "(F0, F9, L1, L10, R0, R8, A7, SM3, SD2)": (0, 9, -1, -10, 0, 8, 7, 3, -2),
    "(BLACK, BLUE, RED, GREEN, YELLOW, GRAY, MAGENTA, ORANGE, CYAN, BURGUNDY)": tuple(range(10)),
    "(NEG_TEN, NEG_THREE, HUNDRED, THOUSAND, ZERO, TEN)": (-10, -3, 100, 1000, 0, 10),
    "(ORIGIN, NEG_UNITY, UP_RIGHT, DOWN_LEFT, TWO_BY_ZERO, THREE_BY_THREE)": (
        (0, 0),
        (-1, -1),
        (-1, 1),
        (1, -1),
        (2, 0),
        (3, 3),
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_value(text):
    assert value(text) == CASES[text]
