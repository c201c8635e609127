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


def test_either_of_two_dimensions_begins_shorter_in_every_combination():
    kernel = parse("rbf + rational_quadratic", 2, True)
    rows, axes = initial_grid(kernel)
    at = {name: position for position, name in enumerate(kernel.names)}
    ratios = {round(row[at["rbf.lengthscale_0"]] - row[at["rbf.lengthscale_1"]], 6) for row in rows}
    assert math.prod(axes) == len(rows) and ratios == {-ratio for ratio in ratios} and max(ratios) > math.log(100)
    for row in rows:
        for shape in ("rational_quadratic.lengthscale_0", "rational_quadratic.lengthscale_1"):
            assert row[at[shape]] == row[at[shape.replace("rational_quadratic", "rbf")]]


def test_no_lengthscale_is_no_axis():
    rows, axes = initial_grid(parse("linear", 2, True))
    assert axes == [1, 1] and len(rows) == 1


def test_waves_beside_another_shape_begin_sharp_and_as_sines():
    kernel = parse("rbf * periodic")
    rows, _ = initial_grid(kernel)
    lengths = {tuple(round(math.exp(row[position]), 6) for position in (1, 3)) for row in rows}
    assert {wave for _, wave in lengths} == {0.5, 3.0, 4.0}
    assert (0.13, 3.0) in lengths  # a sine that does not last
    assert all(sum(wave == own for _, wave in lengths) > 1 for own in (0.5, 4.0))
    alone, _ = initial_grid(parse("periodic"))
    assert {round(math.exp(row[2]), 6) for row in alone} == {0.15, 0.5, 1.5}
