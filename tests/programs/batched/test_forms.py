"""Every operation on arguments of every form, right or wrong, beside the plain function."""

import itertools
import random
from typing import Any

import pytest

from brimful.programs.language.types import Type
from brimful.programs.vocabulary.arc import ARC

from .helpers import compare

OBJECT, CELL, GRID = frozenset({(1, (0, 0)), (2, (1, 1))}), (3, (4, 5)), ((1, 2), (3, 4))
FORMS: list[Any] = [
    *(3, True, (1, 2), CELL, GRID, OBJECT, frozenset({(0, 0), (2, 3)}), frozenset(), ()),
    *(((1, 2), (3, 4), (5, 6)), (CELL, (1, (0, 0))), frozenset({OBJECT}), frozenset({frozenset({(1, 1)})})),
    *((GRID, GRID), (1, 2, 3), (OBJECT, OBJECT), (1, (2, 3), 4), (GRID, 1)),
]


def of_arguments(count: int) -> list[str]:
    """The operations of so many arguments, none of them a function."""
    return [
        name
        for name, operation in ARC.items()
        if len(operation.arguments) == count and Type.CALLABLE not in operation.arguments
    ]


def combinations(count: int) -> list[tuple[str, tuple[Any, ...]]]:
    return list(itertools.product(of_arguments(count), itertools.product(FORMS, repeat=count)))


def check(cases: list[tuple[str, tuple[Any, ...]]]) -> None:
    for name, arguments in cases:
        compare(name, *([argument] * 2 for argument in arguments))


def test_one_argument():
    check(combinations(1))


@pytest.mark.parametrize("count", [2, 3])
def test_some_of_several_arguments(count):
    check(random.Random(count).sample(combinations(count), 600))


@pytest.mark.soak
def test_two_arguments():
    check(combinations(2))


@pytest.mark.soak
def test_many_of_three_arguments():
    check(random.Random(0).sample(combinations(3), 20_000))


def test_forms_that_differ_from_row_to_row():
    rng = random.Random(1)
    for name in [*of_arguments(1), *of_arguments(2), *of_arguments(3)]:
        compare(name, *(rng.choices(FORMS, k=12) for _ in ARC[name].arguments))
