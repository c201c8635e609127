"""Calls of a function in Python, one for all rows whose arguments are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...execution.failures import category_of
from ...vocabulary import bound
from ..flags import Step
from ..functions import FunctionValue
from .equal_rows import distinct


class Outcome(NamedTuple):
    """What a call gave: the number of its value, or how it failed; and what it reserved."""

    number: int
    category: int
    reserved: int


def called(
    function: Any, args: Sequence[Step | FunctionValue], rows: list[int], of_patches: bool = False
) -> tuple[list[Any], list[Outcome]]:
    """What a function gives for some rows: its values, and how the call for each row ended.

    Args:
        of_patches: whether it looks at its arguments as patches alone.
    """
    first, equal = distinct(args, rows, of_patches)
    values, outcomes = _results(function, args, first)
    if len(first) < len(rows) and any(map(callable, values)):  # Python makes another function for every row
        equal, (values, outcomes) = np.arange(len(rows)), _results(function, args, rows)
    bound.end()
    return values, [outcomes[number] for number in equal.tolist()]


def _results(function: Any, args: Sequence[Step | FunctionValue], rows: list[int]) -> tuple[list[Any], list[Outcome]]:
    columns = [arg.decode(rows) if isinstance(arg, Step) else arg.pythons(rows) for arg in args]
    values, outcomes = list[Any](), list[Outcome]()
    for given in zip(*columns, strict=True) if columns else [()] * len(rows):
        outcomes.append(_called(function, given, values))
    return values, outcomes


def _called(function: Any, given: Sequence[Any], values: list[Any]) -> Outcome:
    """Calls a function, and puts its value to the others."""
    bound.begin()
    try:
        value = function(*given)
    except MemoryError:
        raise
    except Exception as error:
        return Outcome(-1, int(category_of(error)), bound.reserved() or 0)
    values.append(value)
    return Outcome(len(values) - 1, 0, bound.reserved() or 0)
