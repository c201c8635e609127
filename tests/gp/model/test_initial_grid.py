"""Initial values of the parameters: rows of a grid."""

import math

import pytest

from brimful.gp.model.initial_grid import initial_grid
from brimful.gp.model.kernels import parse
from brimful.gp.model.shapes import SHAPES


@pytest.mark.parametrize("text", [*SHAPES, "rbf + rbf", "linear + rbf * periodic", "rbf * rbf + rbf"])
def test_initial_values_fill_a_grid_and_start_no_two_parts_alike(text: str):
    kernel = parse(text)
    rows, axes = initial_grid(kernel)
    assert len(rows) == math.prod(axes)
    assert len({tuple(row) for row in rows}) == len(rows)
    for row in rows:
        assert len(row) == len(kernel.names)
        parts = [(entry.shape, *row[entry.start : entry.stop]) for entry in kernel.factors if entry.stop > entry.start]
        assert len(set(parts)) == len(parts)


def test_either_of_two_terms_begins_shorter_in_every_combination():
    kernel = parse("linear + rbf + matern32 * rational_quadratic")
    rows, axes = initial_grid(kernel)
    at = {name: position for position, name in enumerate(kernel.names)}
    pairs = [(row[at["rbf.lengthscale"]], row[at["matern32.lengthscale"]]) for row in rows]
    lengths = {first for first, _ in pairs}
    assert {(first, second) for first in lengths for second in lengths} == set(pairs)
    assert axes == [len(lengths)] * 2
    for row in rows:
        assert row[at["rational_quadratic.lengthscale"]] == row[at["matern32.lengthscale"]]
        assert row[at["rational_quadratic.alpha"]] == 0.0
