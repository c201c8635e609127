"""Operations of arguments of all forms, also of those that they are not for, over columns as row by row."""

import random

import pytest

from brimful.programs.batched.kernels import KERNELS
from brimful.programs.language.types import Type
from brimful.programs.vocabulary.arc import ARC
from tests.programs.batched.helpers import compare, function, random_grid

PLAIN = sorted(
    name
    for name in ARC
    if name in KERNELS and Type.CALLABLE not in ARC[name].arguments and ARC[name].result is not Type.CALLABLE
)
ROUNDS = 12


def location(rng):
    return (rng.randint(-2, 6), rng.randint(-2, 6))


def cell(rng):
    return (rng.randint(0, 3), location(rng))


def grid(rng):
    if rng.random() < 0.2:
        return rng.choice([(), ((),), ((), ()), ((1, 1),), ((1, 2), (0, 1)), ((0, 1), (1, 0), (2, 2))])
    return random_grid(rng, rng.randint(1, 5), rng.randint(1, 5))


def several(rng, of, container, most=4):
    return container(of(rng) for _ in range(rng.randint(0, most)))


def number(rng):
    return rng.choice([0, 1, 2, 3, -1, -2, 5, 12])


FORMS = {
    "int": number,
    "bool": lambda rng: rng.random() < 0.5,
    "pair": lambda rng: rng.choice([location(rng), (number(rng), number(rng))]),
    "cell": cell,
    "grid": grid,
    "indices": lambda rng: several(rng, location, frozenset),
    "object": lambda rng: several(rng, cell, frozenset),
    "tuple of pair": lambda rng: several(rng, location, tuple),
    "tuple of cell": lambda rng: several(rng, cell, tuple),
    "tuple of int": lambda rng: tuple(rng.randint(-2, 3) for _ in range(rng.choice([1, 3, 4]))),
    "tuple of tuple of int": lambda rng: ((1,), *(tuple(range(rng.randint(0, 4))) for _ in range(rng.randint(1, 3)))),
    "tuple of grid": lambda rng: several(rng, grid, tuple),
    "tuple of object": lambda rng: several(rng, FORMS["object"], tuple),
    "set of object": lambda rng: several(rng, FORMS["object"], frozenset),
    "set of indices": lambda rng: several(rng, FORMS["indices"], frozenset),
    "set of int": lambda rng: several(rng, lambda rng: rng.randint(-2, 4), frozenset),
    "value": lambda rng: rng.choice([None, (1, (2, 3), ()), frozenset({1, (2, 3)}), (frozenset(), 1)]),
}
EXPECTED = {
    Type.GRID: "grid",
    Type.INTEGER: "int",
    Type.BOOLEAN: "bool",
    Type.IJ: "pair",
    Type.NUMERICAL: "pair",
    Type.OBJECT: "object",
    Type.INDICES: "indices",
    Type.PATCH: "object",
    Type.PIECE: "grid",
    Type.ELEMENT: "object",
}


def arguments(rng, operation):
    """Values for a few rows: mostly of one form per argument, which is the right one half of the time."""
    given = []
    for kind in operation.arguments:
        form = EXPECTED.get(kind) if rng.random() < 0.5 else None
        form = form or rng.choice(sorted(FORMS))
        forms = [form, form, form, rng.choice(sorted(FORMS))] if rng.random() < 0.3 else [form]
        given.append([FORMS[rng.choice(forms)](rng) for _ in range(7)])
    return given


def agree(name, seed, rounds):
    rng = random.Random(f"{name} {seed}")
    for _ in range(rounds):
        compare(name, *arguments(rng, ARC[name]))


@pytest.mark.parametrize("name", PLAIN)
def test_arguments_of_all_forms(name):
    agree(name, 0, ROUNDS)


@pytest.mark.soak
@pytest.mark.parametrize("name", PLAIN)
def test_arguments_of_all_forms_many_times(name):
    agree(name, 1, 1_000)


@pytest.mark.parametrize(
    ("called", "lists"),
    [
        (function("lbind", function("canvas"), [0], rows=2), [((1500, 1500), (1400, 1400)), ((2, 2), (3, 4))]),
        (function("rbind", function("upscale"), [700, 2]), [((((1, 2), (3, 4)),) * 3), ((((1,),),) * 4)]),
    ],
)
def test_elements_add_up_over_the_calls_of_a_function(called, lists):
    assert compare("apply", called, lists) == 0
