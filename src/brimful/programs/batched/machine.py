"""Running operations and function values over all rows at once, and sequentially for the rows where that is not
possible."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..execution.failures import Category, category_of
from ..language.operation import Operation
from ..vocabulary import bound
from .columns import Column, Ints
from .convert import encode
from .flags import Step, first_failure
from .functions import FunctionValue
from .kernels import kernel_of, meaning

ENDED = 127
"""The failure of a row whose program has ended at a step before: it is no failure of its own."""


@dataclass(slots=True)
class Usage:
    """Where the time of an operation goes: rows and seconds, batched and sequential."""

    rows: int = 0
    sequential: int = 0
    seconds: float = 0.0
    sequential_seconds: float = 0.0


@dataclass(slots=True)
class Machine:
    """Runs operations over columns.

    Args:
        device: where the columns are.
        equality: the operation that compares two values, for `matcher`.
        safe: whether an operation that fails inside of a function value yields its default there.
    """

    device: torch.device
    equality: Operation
    safe: bool = False
    usage: dict[str, Usage] = field(default_factory=lambda: defaultdict(Usage))

    def call(self, function: FunctionValue, args: Sequence[Step]) -> Step:
        """A function value for all rows. What it closes over has a row for each of them."""
        if len(args) != function.arity:
            return self._all_failed(args, Category.TYPE)
        if not function.parts:
            return self._with_default(function.operation, self.operation(function.operation, list(args)))
        parts: Any = function.parts
        match meaning(function.operation):
            case "compose":
                return self.call(parts[0], [self.call(parts[1], args)])
            case "chain":
                return self.call(parts[0], [self.call(parts[1], [self.call(parts[2], args)])])
            case "fork":
                return self.call(parts[0], [self.call(parts[1], args), self.call(parts[2], args)])
            case "matcher" if isinstance(parts[1], Step):
                return self.operation(self.equality, [self.call(parts[0], args), parts[1]])
            case "rbind":
                return self._bound(parts[0], [*args, parts[1]])
            case "lbind":
                return self._bound(parts[0], [parts[1], *args])
            case "power":
                value, times = args[0], parts[1].column.values
                for _ in range(int(times[0]) if len(times) else 1):  # the same for all rows, where there are any
                    value = self.call(parts[0], [value])
                return value
        return self._one_by_one(function, args)

    def _bound(self, function: FunctionValue, args: list[Step | FunctionValue]) -> Step:
        """A call with a bound argument, which may itself be a function, as in rbind(order, size)."""
        if all(isinstance(arg, Step) for arg in args):
            return self.call(function, args)  # pyright: ignore[reportArgumentType]
        if function.parts or len(args) != function.arity:
            return self._one_by_one(function, args)
        return self._with_default(function.operation, self.operation(function.operation, args))

    def operation(self, operation: Operation, args: Sequence[Step | FunctionValue]) -> Step:
        """An operation for all rows."""
        started = time.perf_counter()
        steps = [step for arg in args for step in _closed_over(arg)]
        rows = steps[0].rows if steps else 1
        failed = first_failure(steps)
        kernel = kernel_of(operation)
        computed = None
        if kernel is not None and len(args) == len(operation.arguments):
            computed = kernel(self, *(arg.column if isinstance(arg, Step) else arg for arg in args))
        boxed = {row for step in steps for row in step.boxed}
        if computed is None:
            wanted, result = _alive(failed, rows), None
        else:
            wanted = set() if computed.sequential is None else set(computed.sequential.nonzero()[:, 0].tolist())
            wanted |= boxed
            if wanted and failed is not None:
                wanted &= _alive(failed, rows)
            own = computed.failed
            if own is not None and (wanted or boxed):
                own = own.clone()
                own[torch.tensor(sorted(wanted | boxed), device=self.device)] = 0
            both = [Step(computed.column, failed), Step(computed.column, own)]
            result = Step(computed.column, first_failure(both))
        used = self.usage[operation.name]
        used.rows += rows
        if wanted or result is None:
            begun = time.perf_counter()
            result = self._sequential(operation.function, args, sorted(wanted), rows, result, failed)
            used.sequential += len(wanted)
            used.sequential_seconds += time.perf_counter() - begun
        used.seconds += time.perf_counter() - started
        return result

    def _sequential(
        self,
        function: Any,
        args: Sequence[Step | FunctionValue],
        rows: list[int],
        count: int,
        result: Step | None,
        failed: Tensor | None,
    ) -> Step:
        """Runs a function row by row, for some rows, and puts its values into the result."""
        columns = [arg.decode(rows) if isinstance(arg, Step) else [arg.python(row) for row in rows] for arg in args]
        values, good, categories = list[Any](), list[int](), dict[int, int]()
        for row, *given in zip(rows, *columns, strict=True):
            bound.begin()
            try:
                values.append(function(*given))
                good.append(row)
            except MemoryError:
                raise
            except Exception as error:
                categories[row] = int(category_of(error))
        bound.end()
        if result is None:
            at = {row: number for number, row in enumerate(good)}
            column, unfit = encode(values, self.device)
            index = torch.tensor([at.get(row, 0) for row in range(count)], device=self.device)
            if not values:
                column, index = Ints(torch.zeros(count, dtype=torch.int64, device=self.device)), None
            expanded: Column = column if index is None else column.take(index)
            result = Step(expanded, failed, {good[number]: value for number, value in unfit.items()})
        elif good:
            result = result.placed(good, values, self.device)
        if categories:
            new = torch.zeros(count, dtype=torch.int8, device=self.device)
            new[torch.tensor(list(categories), device=self.device)] = torch.tensor(
                list(categories.values()), dtype=torch.int8, device=self.device
            )
            result.failed = new if result.failed is None else torch.where(result.failed != 0, result.failed, new)
        return result

    def _one_by_one(self, function: FunctionValue, args: Sequence[Step | FunctionValue]) -> Step:
        """A function value that has no batched form, row by row."""
        steps = [step for arg in (function, *args) for step in _closed_over(arg)]
        rows = max((step.rows for step in steps), default=1)
        failed = first_failure(steps)

        def call(called: Any, *given: Any) -> Any:
            return called(*given)

        return self._sequential(call, [function, *args], sorted(_alive(failed, rows)), rows, None, failed)

    def _all_failed(self, args: Sequence[Step], category: Category) -> Step:
        rows = args[0].rows if args else 1
        own = torch.full((rows,), int(category), dtype=torch.int8, device=self.device)
        blank = Ints(torch.zeros(rows, dtype=torch.int64, device=self.device))
        return Step(blank, first_failure([*args, Step(blank, own)]))

    def _with_default(self, operation: Operation, step: Step) -> Step:
        """What failed with its default, where operations are safe inside of function values."""
        if not self.safe or step.failed is None:
            return step
        kept = (step.failed == ENDED) | (step.failed == int(Category.SIZE))  # too large: it ends all
        rows = ((step.failed != 0) & ~kept).nonzero()[:, 0].tolist()
        if not rows:
            return step
        ended = torch.where(kept, step.failed, 0)
        placed = step.placed(rows, [operation.default] * len(rows), self.device)
        return Step(placed.column, ended if bool((ended != 0).any()) else None, placed.boxed)


def _closed_over(arg: Step | FunctionValue) -> list[Step]:
    return [arg] if isinstance(arg, Step) else arg.failed()


def _alive(failed: Tensor | None, rows: int) -> set[int]:
    if failed is None:
        return set(range(rows))
    return set((failed == 0).nonzero()[:, 0].tolist())
