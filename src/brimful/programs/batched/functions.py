"""Function values: what closures are made of, known before anything is computed, with the steps that they close over.

`rbind(fill, x)` is a function of one argument for all samples, and `x` a step with a value for each. Mapping it over
the elements of a list runs the operations that it is made of once, over all elements of all samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..language.operation import Operation
from ..vocabulary.bound import ELEMENTS, POWER
from ..vocabulary.order import ordered
from .columns import Ints
from .convert import truth
from .flags import Step
from .kernels import meaning
from .rows import indices_of, owners


@dataclass(frozen=True, slots=True, eq=False)
class FunctionValue:
    """A function of one or more arguments.

    Attributes:
        operation: what it calls, or the operation that made it: compose, chain, fork, matcher, rbind, lbind, power.
        parts: what it is made of: other functions, or steps with a row for every sample; none for a plain operation.
        arity: the number of its arguments.
        times: how often a power of a function calls it.
    """

    operation: Operation
    parts: tuple[FunctionValue | Step, ...]
    arity: int
    times: int = 1

    @property
    def calls(self) -> int | Tensor:
        """The operations that one call of it runs, as `vocabulary.support.evaluate.weighed` counts them: a number, or
        one per row."""
        if not self.parts or self.arity == NOT_CALLED:
            return 1
        counted = [part.calls if isinstance(part, FunctionValue) else 1 for part in self.parts]
        match meaning(self.operation):
            case "matcher" | "power":
                return counted[0] * self.times
            case "branch":
                return torch.where(_chosen(self), counted[1], counted[2])
        return sum(counted)

    def take(self, index: Tensor) -> FunctionValue:
        """The same for the rows of an index."""
        parts = (part.take(index) if isinstance(part, FunctionValue) else part.later(index) for part in self.parts)
        return FunctionValue(self.operation, tuple(parts), self.arity, self.times)

    def spread(self, offsets: Tensor, elements: int) -> FunctionValue:
        """The same for the elements of rows, so many of all: each has that of its row."""
        return self.take(owners(offsets, elements)) if self.failed() else self

    def python(self, row: int) -> Any:
        """The same as a Python function, for one row."""
        if not self.parts:
            return self.operation.value
        parts = [part.python(row) if isinstance(part, FunctionValue) else part.decode([row])[0] for part in self.parts]
        return self.operation.function(*parts)

    def pythons(self, rows: Sequence[int]) -> list[Any]:
        """The same as Python functions, for some rows."""
        if not self.failed():
            return [self.python(rows[0])] * len(rows) if rows else []
        return [self.python(row) for row in rows]

    def failed(self) -> list[Step]:
        """The steps that it closes over, which may have failed for a row."""
        steps = list[Step]()
        for part in self.parts:
            steps += part.failed() if isinstance(part, FunctionValue) else [part]
        return steps


NOT_CALLED = -1
"""The number of arguments of a set of functions."""

_FUNCTIONS_ONLY = {"compose": 2, "chain": 3, "fork": 3}
_MAY_MAKE = {*_FUNCTIONS_ONLY, "identity", "initset", "insert", "branch", "matcher", "rbind", "lbind", "power"}


def may_make_functions(operation: Operation) -> bool:
    """Whether an operation can give a function; see `closure`."""
    return meaning(operation) in _MAY_MAKE


def named_function(operation: Operation) -> FunctionValue:
    """An operation as a value."""
    return FunctionValue(operation, (), len(operation.arguments))


def closure(operation: Operation, args: list[FunctionValue | Step]) -> FunctionValue | None:
    """The function that an operation makes of its arguments; None where it depends on the sample which one that is."""
    made = _made(operation, args)
    if made is None or not made.parts:
        return made
    calls = made.calls
    return made if isinstance(calls, Tensor) or calls <= ELEMENTS else None


def _made(operation: Operation, args: list[FunctionValue | Step]) -> FunctionValue | None:
    functions = [isinstance(arg, FunctionValue) for arg in args]
    made = meaning(operation)
    if _FUNCTIONS_ONLY.get(made or "") == len(args) and all(functions):
        return FunctionValue(operation, tuple(args), 1)
    match made, args:
        case "identity", [FunctionValue() as only]:
            return only
        case "initset", [FunctionValue()]:
            return FunctionValue(operation, tuple(args), NOT_CALLED)
        case "insert", [FunctionValue(), FunctionValue(arity=-1)]:
            return FunctionValue(operation, tuple(args), NOT_CALLED)
        case "branch", [Step(), FunctionValue() as a, FunctionValue() as b] if a.arity == b.arity != NOT_CALLED:
            true = None if args[0].boxed else truth(args[0].column)  # pyright: ignore[reportAttributeAccessIssue]
            if true is None:
                return None
            condition = Step(Ints(true.to(torch.int64), True), args[0].failed)  # pyright: ignore
            return FunctionValue(operation, (condition, a, b), a.arity)
    if len(args) != 2 or not isinstance(args[0], FunctionValue) or args[0].arity == NOT_CALLED:
        return None
    match made:
        case "matcher":
            return FunctionValue(operation, tuple(args), 1)
        case "rbind" | "lbind":
            return FunctionValue(operation, tuple(args), {2: 1, 3: 2}.get(args[0].arity, 3))
        case "power" if isinstance(args[1], Step) and (count := _constant(args[1])) is not None:
            if count == 1:
                return args[0]
            return FunctionValue(operation, (args[0], args[1]), 1, count) if 1 < count <= POWER else None
    return None


def _chosen(function: FunctionValue) -> Tensor:
    """The rows for which a branch is its first function."""
    condition: Any = function.parts[0]
    return condition.column.values != 0


def by_choice(function: FunctionValue) -> list[tuple[Tensor, FunctionValue]]:
    """The two functions of a branch, with the rows of each."""
    true = _chosen(function)
    choices: Any = zip((true, ~true), function.parts[1:], strict=True)
    return [(indices_of(flags), part) for flags, part in choices]


def members(function: FunctionValue) -> list[FunctionValue] | None:
    """The functions of a set of functions, in canonical order; None where they depend on the sample."""
    if function.arity == NOT_CALLED and meaning(function.operation) == "initset":
        return [function.parts[0]]  # pyright: ignore[reportReturnType]
    if function.arity != NOT_CALLED or function.failed():
        return None
    inside = list[FunctionValue]()
    while meaning(function.operation) == "insert":
        first, function = function.parts  # pyright: ignore[reportAssignmentType]
        inside.append(first)  # pyright: ignore[reportArgumentType]
    inside.append(function.parts[0])  # pyright: ignore[reportArgumentType]
    by_value = {value.python(0): value for value in inside}
    return [by_value[value] for value in ordered(frozenset(by_value))]


def _constant(step: Step) -> int | None:
    """The one whole number that a step has for all rows; None where there is none."""
    column = step.column
    if step.failed is not None or step.boxed or not isinstance(column, Ints) or column.boolean or not step.rows:
        return None
    first = int(column.values[0])
    return first if bool((column.values == first).all()) else None
