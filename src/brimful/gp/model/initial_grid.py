"""The grid of initial values of a kernel's parameters, for inputs of extent 1 and targets of variance 1."""

import itertools
import math

from .kernels import Kernel

_LENGTHS = (0.017, 0.036, 0.075, 0.156, 0.327, 0.685, 1.43, 3.0)  # in units of the inputs' extent
_APART = (1.0, 0.2, 5.0)
_SUBSETS, _LONGER = 10, 6.0  # dimensions up to which some of them begin longer than others, and how much
_FEW_LENGTHS = (0.06, 0.2, 0.7)  # where there are more than two such dimensions
_PAIRED, _BETWEEN = (0.02, 0.05, 0.13, 0.33, 0.85, 2.2), (1.0, 0.6, 0.36)  # of each of two terms; times, if alike
FREQUENCIES = [(0.7 + 0.038 * position) ** 2 for position in range(100)]
"""Initial values of how often a wave fits into the inputs' extent, of a task that is not known."""
# Lengthscales of a wave alone, of what it is multiplied or added with, and of a wave beside that.
_WAVES, _ENVELOPES, _BESIDE = (0.15, 0.5, 1.5), (0.1, 0.5, 2.0), 0.5


def initial_grid(kernel: Kernel) -> tuple[list[list[float]], list[int]]:
    """Rows of a grid, the logarithms of the parameters, and the lengths of its axes. The first axis is a lengthscale;
    the second the period of a wave (`periods.initial_periods` has better ones, by task), the dimensions or terms that
    begin longer, or the lengthscale of the second of two terms."""
    waves = {
        position
        for factor in kernel.factors
        if factor.shape == "periodic"
        for position in range(factor.start, factor.stop)
    }
    long = any(kind == "lengthscale" and position not in waves for position, kind in enumerate(kernel.kinds))
    terms = _lengths_of_terms(kernel)
    if not kernel.ard and not waves and len(terms) == 2:
        return _pairs(kernel, *terms), [len(_PAIRED)] * 2
    subsets = _subsets(kernel) if not waves else [()]
    lengths, periods = _LENGTHS if len(subsets) <= 3 else _FEW_LENGTHS, [1.0]
    if waves:
        lengths, periods = _ENVELOPES if long else _WAVES, [1 / frequency for frequency in FREQUENCIES]
    elif not long:
        lengths = (1.0,)
    rows = []
    for length, period, longer in itertools.product(lengths, periods, subsets):
        row = _row(kernel, length, period, _APART)
        for position in waves:
            row[position] = row[position] if kernel.kinds[position] == "period" or not long else math.log(_BESIDE)
        for position in longer:
            row[position] += math.log(_LONGER)
        rows.append(row)
    # A local minimum along the period may be none along the lengthscale: smoother waves tend to other periods.
    return rows, [1, len(rows)] if waves else [len(lengths), len(subsets)]


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
    """Every lengthscale of one term with every one of another: which of two shapes is the rough part, data decide."""
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


def _subsets(kernel: Kernel) -> list[tuple[int, ...]]:
    """Lengthscales that begin longer than the others: none; those of one term, one dimension; of all but one."""
    if not kernel.ard:
        terms = _lengths_of_terms(kernel)
        return [(), *terms] if len(terms) > 1 else [()]
    if not 1 < kernel.dimensions <= _SUBSETS:
        return [()]
    ends = [factor.stop for factor in kernel.factors if factor.start < factor.stop]
    own = [tuple(end - kernel.dimensions + position for end in ends) for position in range(kernel.dimensions)]
    others = [tuple(place for dimension in own if dimension is not left for place in dimension) for left in own]
    return [(), *own] if len(own) == 2 else [(), *own, *others]
