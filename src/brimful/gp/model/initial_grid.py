"""The grid of initial values of a kernel's parameters, for inputs of extent 1 and targets of variance 1."""

import itertools
import math
from collections.abc import Sequence

from .kernels import Kernel

_LENGTHS = (0.009, 0.0186, 0.0384, 0.0795, 0.164, 0.34, 0.702, 1.45, 3.0)  # in units of the inputs' extent
_APART = (1.0, 0.2, 5.0)
_SUBSETS, _LONGER = 10, 6.0  # dimensions up to which some of them begin longer than others, and how much
_FEW_LENGTHS = (0.06, 0.2, 0.7)  # where there are more than two such dimensions
_PAIRED = (0.02, 0.05, 0.13, 0.33, 0.85, 2.2)  # of each of two terms or dimensions
_BETWEEN = (1.0, 0.6, 0.36)  # times that, where terms are of one shape
FREQUENCIES = [(0.7 + 0.038 * position) ** 2 for position in range(100)]
"""Initial values of how often a wave fits into the inputs' extent, of a task that is not known."""
_WAVES = ((0.15, None, 1), (0.5, None, 1), (1.5, None, 1))  # lengthscales of a wave alone
_BESIDE = ((0.1, 0.5, 1), (0.5, 0.5, 1), (2.0, 0.5, 1), (0.4, 4.0, 1), (2.0, 4.0, 1), (0.13, 3.0, 4))
"""Lengthscales of what a wave is multiplied or added with, and of the wave: sharp ones, and sines, whose period the
likelihood of a sharp wave does not show. The last number: with every how many of the frequencies they are tried; a sine
that is lost within an eighth of the inputs has no sharp frequency."""


def initial_grid(kernel: Kernel) -> tuple[list[list[float]], list[int]]:
    """Rows of a grid, the logarithms of the parameters, and the lengths of its axes. The first axis is a lengthscale;
    the second the period of a wave (`periods.initial_periods` has better ones, by task), the dimensions or terms that
    begin longer, or the lengthscale of the second of two terms or dimensions."""
    waves = {
        position
        for factor in kernel.factors
        if factor.shape == "periodic"
        for position in range(factor.start, factor.stop)
    }
    alone = all(kind != "lengthscale" or position in waves for position, kind in enumerate(kernel.kinds))
    if waves:
        return _waves(kernel, waves, _WAVES if alone else _BESIDE)
    pair = _dimensions(kernel) if kernel.ard else _lengths_of_terms(kernel)
    if len(pair) == 2:
        return _pairs(kernel, *pair), [len(_PAIRED)] * 2
    subsets = _subsets(kernel)
    lengths = (1.0,) if alone else _LENGTHS if len(subsets) <= 3 else _FEW_LENGTHS
    rows = []
    for length, longer in itertools.product(lengths, subsets):
        row = _row(kernel, length, 1.0, _APART)
        for position in longer:
            row[position] += math.log(_LONGER)
        rows.append(row)
    return rows, [len(lengths), len(subsets)]


def _waves(
    kernel: Kernel, waves: set[int], lengths: Sequence[tuple[float, float | None, int]]
) -> tuple[list[list[float]], list[int]]:
    """Periods with some lengthscales, and those of the waves where they have others."""
    rows = []
    for length, own, every in lengths:
        for frequency in FREQUENCIES[::every]:
            row = _row(kernel, length, 1 / frequency, _APART)
            for position in waves:
                if own is not None and kernel.kinds[position] == "lengthscale":
                    row[position] = math.log(own)
            rows.append(row)
    # A local minimum along the period may be none along the lengthscale: smoother waves tend to other periods.
    return rows, [1, len(rows)]


def _row(kernel: Kernel, length: float, period: float, apart: tuple[float, ...]) -> list[float]:
    """One initial value. Two parts of one shape must not begin alike: they would stay alike."""
    values = {"variance": 1 / len(kernel.terms), "lengthscale": length, "alpha": 1.0, "period": period}
    row = [math.log(values[kind]) for kind in kernel.kinds]
    for number, factor in enumerate(kernel.factors):
        before = sum(other.shape == factor.shape for other in kernel.factors[:number])
        for position in range(factor.start, factor.stop):
            row[position] += math.log(apart[before % len(apart)])
    return row


def _pairs(kernel: Kernel, first: tuple[int, ...], second: tuple[int, ...]) -> list[list[float]]:
    """Every lengthscale of one term, or dimension, with every one of the other: either may be the rough one."""
    rows = []
    for length, other in itertools.product(_PAIRED, repeat=2):
        row = _row(kernel, 1.0, 1.0, _BETWEEN)
        for places, value in ((first, length), (second, other)):
            for position in places:
                row[position] += math.log(value)
        rows.append(row)
    return rows


def _lengths_of_terms(kernel: Kernel) -> list[tuple[int, ...]]:
    """The lengthscales of each term that has any."""
    terms = [[place for factor in term for place in range(factor.start, factor.stop)] for term in kernel.terms]
    lengths = [tuple(place for place in term if kernel.kinds[place] == "lengthscale") for term in terms]
    return [places for places in lengths if places]


def _dimensions(kernel: Kernel) -> list[tuple[int, ...]]:
    """The lengthscales of each dimension."""
    ends = [factor.stop for factor in kernel.factors if factor.start < factor.stop]
    if not ends or not 1 < kernel.dimensions <= _SUBSETS:
        return []
    return [tuple(end - kernel.dimensions + position for end in ends) for position in range(kernel.dimensions)]


def _subsets(kernel: Kernel) -> list[tuple[int, ...]]:
    """Lengthscales that begin longer than the others: none; those of one term, one dimension; of all but one."""
    if not kernel.ard:
        terms = _lengths_of_terms(kernel)
        return [(), *terms] if len(terms) > 1 else [()]
    own = _dimensions(kernel)
    others = [tuple(place for dimension in own if dimension is not left for place in dimension) for left in own]
    return [(), *own, *others]
