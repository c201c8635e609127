"""Running operations and function values over all rows at once, and sequentially for the rows where that is not
possible."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...core.base.errors import BrimfulWarning
from ...core.memory.oom import error_line, is_device_lost, is_out_of_memory
from ..execution.failures import Category
from ..language.operation import Operation
from .columns import Ints
from .convert import expanded, form_of_column
from .flags import Step, combined, encoded, first_failure
from .functions import FunctionValue, by_choice, closure
from .kernels import Computed, kernel_of, known_nan, meaning
from .nan import elsewhere, nan_rows
from .operations.wrong import decided
from .others import Others, Part
from .rows import indices_of, select
from .segments import together
from .sequential.calls import called
from .sequential.equal_rows import OF_PATCHES

Value = Step | FunctionValue
_Value = TypeVar("_Value", Step, Step | FunctionValue)

ENDED = 127
"""The failure of a row whose program has ended at a step before: it is no failure of its own."""


@dataclass(slots=True)
class Usage:
    """Where the time of an operation goes: rows and seconds, batched and sequential, without those of operations that
    it calls.

    Attributes:
        problem: why its batched form is not used any more; empty while it works.
    """

    rows: int = 0
    sequential: int = 0
    seconds: float = 0.0
    sequential_seconds: float = 0.0
    problem: str = ""

    def add(self, other: Usage) -> None:
        """Adds what happened elsewhere."""
        self.rows, self.sequential = self.rows + other.rows, self.sequential + other.sequential
        self.seconds += other.seconds
        self.sequential_seconds += other.sequential_seconds
        self.problem = self.problem or other.problem


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
    _reserved: list[Tensor | None] = field(default_factory=list)
    """Elements that the calls under way reserve, by row; of the innermost mapped function last."""
    nan: bool = False
    """Whether NaN may be among the values of columns: no row is looked at before there was one."""
    inside: float = field(default=0.0, init=False)  # seconds of the operations that the one at hand has called

    def call(self, function: FunctionValue, args: Sequence[Value]) -> Value:
        """A function value for all rows. What it closes over has a row for each of them."""
        if len(args) != function.arity:
            if self.safe and not function.parts:  # some arguments may be optional; otherwise it gives its default
                return self.one_by_one(function, args)
            return self._all_failed(args, Category.TYPE)
        if not function.parts:
            made = closure(function.operation, list(args))
            return (
                self._with_default(function.operation, self.operation(function.operation, args), args)
                if made is None
                else made
            )
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
                return self.call(parts[0], [*args, parts[1]])
            case "lbind":
                return self.call(parts[0], [parts[1], *args])
            case "branch":
                return self._chosen(function, args)
            case "power":
                value = args[0]
                if isinstance(value, Step):
                    times = torch.full((value.rows,), function.times, device=self.device)
                    self._reserve(times if value.failed is None else times.masked_fill(value.failed != 0, 0))
                for _ in range(function.times):
                    value = self.call(parts[0], [value])
                return value
        return self.one_by_one(function, args)

    def _chosen(self, function: FunctionValue, args: Sequence[Value]) -> Value:
        """A branch between two functions: each for its rows."""
        condition: Any = function.parts[0]
        result = Step(Ints(torch.zeros(condition.rows, dtype=torch.int64, device=self.device)))
        for index, part in by_choice(function):
            if not len(index):
                continue
            run = partial(self.call, part.take(index), [arg.take(index) for arg in args])
            value, reserved = self.counted(run)
            if isinstance(value, FunctionValue):
                return self.one_by_one(function, args)
            result = result.replaced(index, value)
            if reserved is not None:
                self._reserve(torch.zeros_like(condition.column.values).index_copy(0, index, reserved))
        return Step(result.column, first_failure([condition, result]), result.boxed).promoted()

    def metered(self, function: FunctionValue, args: Sequence[Value]) -> tuple[Value, Tensor | None]:
        """A function value for all rows, and the elements that its operations reserve; None where they reserve none."""
        return self.counted(lambda: self.call(function, args))

    def counted(self, run: Callable[[], _Value]) -> tuple[_Value, Tensor | None]:
        """What runs over rows of its own, and the elements that it reserves."""
        self._reserved.append(None)
        try:
            step = run()
        finally:
            reserved = self._reserved.pop()
        return step, reserved

    def _reserve(self, elements: Tensor) -> None:
        """Counts elements that rows reserve."""
        if self._reserved:
            known = self._reserved[-1]
            self._reserved[-1] = elements if known is None else known + elements

    def operation(self, operation: Operation, args: Sequence[Value]) -> Step:
        """An operation for all rows."""
        started, outside, self.inside = time.perf_counter(), self.inside, 0.0
        steps = [step for arg in args for step in _closed_over(arg)]
        rows = steps[0].rows if steps else 1
        run = self._by_form if any(isinstance(arg, Step) and arg.boxed for arg in args) else self._of_one_form
        result = run(operation, args, rows, first_failure(steps))
        used, spent = self.usage[operation.name], time.perf_counter() - started
        used.rows += rows
        used.seconds += spent - self.inside
        self.inside = outside + spent
        return result

    def _by_form(self, operation: Operation, args: Sequence[Value], rows: int, failed: Tensor | None) -> Step:
        """An operation of arguments that have several forms: once for every combination of them."""
        codes = torch.zeros(rows, dtype=torch.int64, device=self.device)
        for arg in args:
            if isinstance(arg, Step) and arg.boxed:
                codes = codes * (len(arg.boxed.parts) + 1) + arg.boxed.codes(rows, self.device)
        if failed is not None:
            codes = select(failed == 0, codes, -1)
        there = codes.cpu()
        present = there.unique().tolist()
        result = Step(Ints(torch.zeros(rows, dtype=torch.int64, device=self.device)), failed)
        if 0 in present:
            plain = [Step(arg.column, arg.failed) if isinstance(arg, Step) else arg for arg in args]
            result = self._of_one_form(operation, plain, rows, failed, codes > 0)
        for code in present:
            if code > 0:
                index = indices_of(there == code).to(self.device, non_blocking=True)
                given = [arg.take(index) for arg in args]
                part, reserved = self.counted(partial(self._of_one_form, operation, given, len(index), None))
                result = result.replaced(index, part)
                if reserved is not None:
                    self._reserve(torch.zeros_like(codes).index_copy(0, index, reserved))
        return result.promoted()

    def _of_one_form(
        self,
        operation: Operation,
        args: Sequence[Value],
        rows: int,
        failed: Tensor | None,
        skipped: Tensor | None = None,
    ) -> Step:
        """An operation of columns that hold all rows but those to be skipped."""
        computed = self._computed(operation, args)
        if computed is not None and self.device.type != "cpu":
            computed = _seen(computed)
        passed = together(None if failed is None else failed != 0, skipped)
        if computed is None:
            alive = torch.ones(rows, dtype=torch.bool, device=self.device) if passed is None else ~passed
            wanted, result = alive, None
            own = decided(operation, args, self._without_nan(args, alive))
            if own is not None:
                wanted = alive & (own == 0)
                failed = combined(failed, own)
                if not bool(wanted.any()):
                    result = Step(Ints(torch.zeros(rows, dtype=torch.int64, device=self.device)), failed)
        else:
            wanted, own, boxed, reserved = computed.sequential, computed.failed, computed.boxed, computed.reserved
            undone = together(passed, wanted)
            if passed is not None:
                wanted = wanted if wanted is None else wanted & ~passed
                boxed = boxed.kept(~passed) if boxed.parts else boxed
            if undone is not None:
                own = own if own is None else own.masked_fill(undone, 0)
            wrong = None if wanted is None else decided(operation, args, self._without_nan(args, wanted))
            if wanted is not None and wrong is not None:
                wanted, own = wanted & (wrong == 0), combined(wrong, own)
            result = Step(computed.column, combined(failed, own), boxed).promoted()
            if self._reserved and reserved is not None:
                self._reserve(reserved if undone is None else reserved.masked_fill(undone, 0))
        if wanted is None or (result is not None and not bool(wanted.any())):
            assert result is not None
            return result
        begun, numbers = time.perf_counter(), indices_of(wanted).tolist()
        of_patches = meaning(operation) in OF_PATCHES
        result = self._sequential(operation.function, args, numbers, rows, result, failed, of_patches)
        used = self.usage[operation.name]
        used.sequential += len(numbers)
        used.sequential_seconds += time.perf_counter() - begun
        return result

    def _computed(self, operation: Operation, args: Sequence[Value]) -> Computed | None:
        """What the batched form of an operation gives; None where it has none. One that raises is not called again."""
        kernel, used = operation.batched or kernel_of(operation), self.usage[operation.name]
        if kernel is None or used.problem or len(args) != len(operation.arguments):
            return None
        try:
            unknown = self._nan_rows(args, known_nan(operation))
            if unknown is None:
                return kernel(self, *(arg.column if isinstance(arg, Step) else arg for arg in args))
            if bool(unknown.all()):
                return None
            index = elsewhere(unknown)
            others = (arg.take(index) for arg in args)
            computed = kernel(self, *(arg.column if isinstance(arg, Step) else arg for arg in others))
            return None if computed is None else replace(computed, sequential=together(computed.sequential, unknown))
        except Exception as error:
            if is_out_of_memory(error) or is_device_lost(error):
                raise
            used.problem = error_line(error)
            warnings.warn(
                f"the batched form of {operation.name} failed: {used.problem}; it runs row by row",
                BrimfulWarning,
                stacklevel=2,
            )
            return None

    def _nan_rows(self, args: Sequence[Value], known: frozenset[int] = frozenset()) -> Tensor | None:
        """Rows with NaN in an argument, but for some of them; None where there are none."""
        if not self.nan:
            return None
        columns = (arg.column for at, arg in enumerate(args) if at not in known and isinstance(arg, Step))
        return together(*map(nan_rows, columns))

    def _without_nan(self, args: Sequence[Value], rows: Tensor) -> Tensor:
        """Some rows, without those with NaN in an argument: what a number is for, NaN need not be."""
        found = self._nan_rows(args)
        return rows if found is None else rows & ~found

    def _sequential(
        self,
        function: Any,
        args: Sequence[Value],
        rows: list[int],
        count: int,
        result: Step | None,
        failed: Tensor | None,
        of_patches: bool = False,
    ) -> Step:
        """Runs a function row by row, for some rows, and puts its values into the result."""
        values, outcomes = called(function, args, rows, of_patches)
        good, numbers = list[int](), list[int]()  # which of the values a good row has
        categories, reserved = dict[int, int](), list[int]()
        for row, outcome in zip(rows, outcomes, strict=True):
            reserved.append(outcome.reserved)
            if outcome.category:
                categories[row] = outcome.category
            else:
                good.append(row)
                numbers.append(outcome.number)
        if self._reserved and any(reserved):
            elements = torch.zeros(count, dtype=torch.int64, device=self.device)
            elements[torch.tensor(rows, device=self.device)] = torch.tensor(reserved, device=self.device)
            self._reserve(elements)
        where = torch.tensor(good, dtype=torch.int64, device=self.device)
        if good:
            each = torch.tensor(numbers, dtype=torch.int64, device=self.device)
            form = None if result is None else form_of_column(result.column)
            part = Step(*encoded(values, self.device, None if form == "value" else form))
            columns = (part.column, *(of.column for of in part.boxed.parts))
            self.nan = self.nan or any(nan_rows(column) is not None for column in columns)
            part = part.take(each)
            if result is None:
                boxed = Others([Part(where[of.rows], of.column) for of in part.boxed.parts])
                result = Step(expanded(part.column, where, count), failed, boxed)
            else:
                result = result.replaced(where, part)
        elif result is None:
            result = Step(Ints(torch.zeros(count, dtype=torch.int64, device=self.device)), failed)
        if categories:
            new = torch.zeros(count, dtype=torch.int8, device=self.device)
            new[torch.tensor(list(categories), device=self.device)] = torch.tensor(
                list(categories.values()), dtype=torch.int8, device=self.device
            )
            result.failed = new if result.failed is None else torch.where(result.failed != 0, result.failed, new)
        return result

    def one_by_one(self, function: FunctionValue, args: Sequence[Value]) -> Step:
        """A function value that has no batched form, row by row."""
        steps = [step for arg in (function, *args) for step in _closed_over(arg)]
        rows = max((step.rows for step in steps), default=1)
        failed = first_failure(steps)

        def call(called: Any, *given: Any) -> Any:
            return called(*given)

        started, alive = time.perf_counter(), sorted(_alive(failed, rows))
        result = self._sequential(call, [function, *args], alive, rows, None, failed)
        used, spent = self.usage["a function value"], time.perf_counter() - started
        used.add(Usage(rows, len(alive), spent, spent))
        self.inside += spent
        return result

    def _all_failed(self, args: Sequence[Value], category: Category) -> Step:
        steps = [step for arg in args for step in _closed_over(arg)]
        rows = steps[0].rows if steps else 1
        own = torch.full((rows,), int(category), dtype=torch.int8, device=self.device)
        blank = Ints(torch.zeros(rows, dtype=torch.int64, device=self.device))
        return Step(blank, first_failure([*steps, Step(blank, own)]))

    def _with_default(self, operation: Operation, step: Step, args: Sequence[Value]) -> Step:
        """What failed with its default, where operations are safe inside of function values. Where an argument failed
        it was not called, and the failure stays."""
        if not self.safe or step.failed is None:
            return step
        kept = (step.failed == ENDED) | (step.failed == int(Category.SIZE))  # too large: it ends all
        before = first_failure([own for arg in args for own in _closed_over(arg)])
        if before is not None:
            kept |= before != 0
        rows = indices_of((step.failed != 0) & ~kept)
        if not len(rows):
            return step
        ended = select(kept, step.failed, 0)
        return Step(step.column, ended if bool(kept.any()) else None, step.boxed).with_constant(rows, operation.default)


def _seen(computed: Computed) -> Computed:
    """The same without flags that name no row: on a GPU, kernels do not look at them."""
    flags = [flag for flag in (computed.failed, computed.sequential) if flag is not None]
    if not flags:
        return computed
    if len(flags) == 1:
        some = [bool(flags[0].any())]
    else:
        some = torch.stack([flag.to(torch.int8) for flag in flags]).any(1).tolist()
    failed = computed.failed if computed.failed is not None and some[0] else None
    return replace(computed, failed=failed, sequential=computed.sequential if some[-1] else None)


def _closed_over(arg: Step | FunctionValue) -> list[Step]:
    return [arg] if isinstance(arg, Step) else arg.failed()


def _alive(failed: Tensor | None, rows: int) -> set[int]:
    if failed is None:
        return set(range(rows))
    return set(indices_of(failed == 0).tolist())
