"""A graph over many samples at once: every node once, equal ones side by side, each freed after its last use."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ....core.memory import devices
from ...execution.arguments import SampleArguments
from ...execution.failures import Category, category_of
from ...execution.sequential import Sequential
from ...language.graph import Graph, Level
from ...language.operation import default_of
from ...language.program import Kind, Node
from ...vocabulary.arc import ARC
from ...vocabulary.bound import SizeError
from .. import operations as _operations  # noqa: F401  # registers the kernels
from ..columns import Values
from ..convert import encode
from ..flags import Step, first_failure
from ..functions import FunctionValue, closure, may_make_functions, named_function
from ..kernels import meaning
from ..machine import ENDED, Machine
from ..rows import indices_of
from .arguments import encode_argument
from .calls import operation_of
from .live_bytes import peak_bytes
from .schedule import Schedule, in_source_order, side_by_side
from .side_by_side import apart, in_parts, numbers_in, united

_EXCEPTIONS = (
    TypeError,
    ValueError,
    IndexError,
    KeyError,
    AttributeError,
    StopIteration,
    ZeroDivisionError,
    RecursionError,
    OverflowError,
    RuntimeError,
)

_KEPT = 1 << 16  # numbers of a constant for all rows, from which on they are made anew for every use
_SMALL = 128e6  # bytes of a batch in which equal operations run side by side, by what is predicted
_SMALL_SHARE = 1 / 16  # of what may be used of a GPU: there a batch is small for longer


@dataclass(slots=True, eq=False)
class BatchEvaluation:
    """All samples of a batch.

    Attributes:
        steps: by node what it gave for every sample; only nodes that a program returns are kept. Where these were
            handed over while the rest was computed, there are none.
        failed: (nodes, samples) int8: the category of a failure; 0 where there is none.
        ended: (nodes, samples): whether that failure ended the program.
    """

    steps: dict[int, Step]
    failed: np.ndarray
    ended: np.ndarray


class Batched:
    """Runs a graph on many samples at once.

    Args:
        graph: what to run.
        on_error: as for `Sequential`, with which it agrees.
        device: where.
    """

    def __init__(self, graph: Graph, on_error: str = "default", device: torch.device | str = "cpu") -> None:
        self.graph, self._propagate = graph, on_error == "propagate"
        self.device = devices.resolve(str(device))
        self._sequential = Sequential(graph, on_error)
        operations = [node.operation for node in graph.nodes if node.operation is not None]
        safe = any(operation.value is not operation.function for operation in operations)
        self.machine = Machine(self.device, ARC["equality"], safe and not self._propagate)
        self._returned = graph.returned
        self._in_source_order, self._side_by_side = in_source_order(graph), side_by_side(graph)
        outputs = {record[-1] for program in graph.programs for record in program.outputs}
        constants = (index for index, node in enumerate(graph.nodes) if node.kind is Kind.CONSTANT)
        self._unread = frozenset(constants) - outputs
        self._after: dict[frozenset[str], Tensor] = {}
        self._encoded: dict[int, Step] = {}

    def schedule(self, samples: Sequence[SampleArguments]) -> Schedule:
        """Equal operations side by side where the batch is small, so that what is kept for that is; else the order of
        the source."""
        cells = sum(len(sample.I) * len(sample.I[0]) for sample in samples if sample.I and sample.I[0])
        needed = len(samples) * peak_bytes(self.graph, self._side_by_side, cells / max(1, len(samples)))
        small = _SMALL
        if self.device.type == "cuda":
            allowed = torch.cuda.get_per_process_memory_fraction(self.device)
            small = max(small, _SMALL_SHARE * allowed * torch.cuda.mem_get_info(self.device)[1])
        return self._side_by_side if needed <= small else self._in_source_order

    def constant(self, index: int) -> Step:
        """A constant, which is copied to a GPU once for all batches."""
        if index not in self._encoded:
            column, boxed = encode([self.graph.nodes[index].value], self.device)
            self._encoded[index] = Step(column, None, boxed)
        return self._encoded[index]

    def after(self, caught: frozenset[str]) -> Tensor:
        """By the failure of a row: that of the step; and `ENDED` where its program ends with it, 0 where the step
        yields its default.

        Args:
            caught: the names of the exceptions that the step catches.
        """
        if caught not in self._after:
            own = torch.arange(ENDED + 1, dtype=torch.int8)
            own[ENDED] = 0
            ends = torch.full_like(own, ENDED)
            ends[0] = 0
            if not self._propagate:
                kinds = tuple(getattr(builtins, name) for name in caught)
                for kind in Category if Exception in kinds else map(category_of, _raised_by(kinds)):
                    ends[int(kind)] = 0
            self._after[caught] = torch.stack([own, ends]).to(self.device)
        return self._after[caught]

    def evaluate(
        self,
        samples: Sequence[SampleArguments],
        keep: bool = False,
        finished: Callable[[int, Step], None] | None = None,
    ) -> BatchEvaluation:
        """Computes all nodes for all samples.

        Args:
            keep: the values of all nodes, and not only of those that a program returns.
            finished: is given each node that a program returns, and its step, once no other node needs it; that is then
                not kept. Of constants it is given those that are outputs.
        """
        count, nodes = len(samples), len(self.graph.nodes)
        run = _Run(self, samples)
        flags = dict[int, tuple[Tensor, Tensor | None]]()
        for call, freed in self.schedule(samples):
            run.compute(call)
            for index in call:
                step, own = run.known[index], run.failures.pop(index, None)
                if own is None:
                    continue
                marked = step.failed if isinstance(step, Step) else None
                level = self.graph.levels[index]
                flags[index] = run.spread(own, level), None if marked is None else run.spread(marked, level)
            for gone in () if keep else freed:
                run.forget(gone)
                if gone not in self._returned:
                    run.known.pop(gone, None)
                elif finished is not None:
                    if gone not in self._unread:
                        finished(gone, run.returned(gone))
                    del run.known[gone]
        steps = {
            index: run.returned(index)
            for index, value in run.known.items()
            if index in self._returned or isinstance(value, Step)
        }
        failed = _by_node(nodes, count, {index: own for index, (own, _) in flags.items()})
        marked = _by_node(nodes, count, {index: own for index, (_, own) in flags.items() if own is not None})
        return BatchEvaluation(steps, failed, (marked == ENDED) & (failed != 0))


def _by_node(nodes: int, count: int, flags: dict[int, Tensor]) -> np.ndarray:
    """Flags of some nodes by node and sample, copied at once."""
    known = np.zeros((nodes, count), np.int8)
    if flags:
        known[list(flags)] = torch.stack(list(flags.values())).numpy(force=True)
    return known


class _Run:
    """One batch in the making."""

    def __init__(self, executor: Batched, samples: Sequence[SampleArguments]) -> None:
        self.executor, self.samples, self.device = executor, samples, executor.device
        self.machine, self.nodes, self.levels = executor.machine, executor.graph.nodes, executor.graph.levels
        numbers: dict[tuple[str, int], int] = {}
        of_sample = [numbers.setdefault((sample.task_id, id(sample.S)), len(numbers)) for sample in samples]
        first = {number: at for at, number in reversed(list(enumerate(of_sample)))}
        self.tasks = [samples[first[number]] for number in range(len(numbers))]
        self.task_of = torch.tensor(of_sample, dtype=torch.int64, device=self.device)
        self._first: dict[Level, Tensor] = {}  # what every row of a level takes of a constant
        self._spread: dict[tuple[int, Level], Step | FunctionValue] = {}  # small constants, for every row of a level
        self._united_rows: dict[tuple[int, Level, Level], Tensor] = {}
        self.known: dict[int, Step | FunctionValue] = {}
        self.failures: dict[int, Tensor] = {}

    def rows(self, level: Level) -> int:
        return {Level.CONSTANT: 1, Level.TASK: len(self.tasks), Level.SAMPLE: len(self.samples)}[level]

    def index(self, level: Level, to: Level) -> Tensor | None:
        """Which row of one level belongs to each row of another."""
        if level == to:
            return None
        if level is Level.CONSTANT:
            if to not in self._first:
                self._first[to] = torch.zeros(self.rows(to), dtype=torch.int64, device=self.device)
            return self._first[to]
        return self.task_of

    def at(self, node: int, level: Level) -> Step | FunctionValue:
        """A node's value with the rows of a level."""
        index = self.index(self.levels[node], level)
        if index is None:
            return self.known[node]
        if (node, level) in self._spread:
            return self._spread[node, level]
        value = self.known[node].take(index)
        if self.levels[node] is Level.CONSTANT and numbers_in(value) <= _KEPT:
            self._spread[node, level] = value
        return value

    def forget(self, node: int) -> None:
        """Drops what is kept of a constant that is not needed any more."""
        for level in Level:
            self._spread.pop((node, level), None)

    def returned(self, node: int) -> Step:
        """A node's value for every sample; a function as Python has it."""
        value = self.at(node, Level.SAMPLE)
        if isinstance(value, Step):
            return value
        functions = Values(tuple(value.pythons(list(range(len(self.samples))))))
        return Step(functions, first_failure(value.failed()))

    def spread(self, flags: Tensor, level: Level) -> Tensor:
        index = self.index(level, Level.SAMPLE)
        return flags if index is None else flags[index]

    def compute(self, call: tuple[int, ...]) -> None:
        """Some nodes, equal operations where there are several: side by side where their arguments have one form."""
        for part in self._side_by_side(call):
            if len(part) > 1:
                self._compute_together(part)
            else:
                self._compute_one(part[0])

    def _side_by_side(self, call: tuple[int, ...]) -> list[list[int]]:
        """The nodes of a call in parts, each of which is computed at once."""
        operation = self.nodes[call[0]].operation
        if len(call) == 1 or operation is None or may_make_functions(operation):
            return [[index] for index in call]
        arguments = {index: [(self.known[arg], self.levels[arg]) for arg in self.nodes[index].args] for index in call}
        return in_parts(arguments, self.rows(self.levels[call[0]]), self.rows, self.device)

    def _compute_together(self, indices: list[int]) -> None:
        """Equal operations of arguments of one form, in one call."""
        nodes = [self.nodes[index] for index in indices]
        level, count = self.levels[indices[0]], len(indices)
        args = [self._united(arguments, level) for arguments in zip(*(node.args for node in nodes), strict=True)]
        assert nodes[0].operation is not None
        step = self.machine.operation(nodes[0].operation, args)
        if any(node.fallback is not None for node in nodes) or len({node.caught for node in nodes}) > 1:
            for index, own in zip(indices, apart(step, count), strict=True):
                self._settle(index, own)
            return
        step, failed = self._settled(nodes[0], step)
        self.known.update(zip(indices, apart(step, count), strict=True))
        if failed is not None:
            by_node = failed.reshape(count, -1)
            fails = by_node.any(1).tolist()
            self.failures.update({index: by_node[at] for at, index in enumerate(indices) if fails[at]})

    def _united(self, arguments: tuple[int, ...], level: Level) -> Step | FunctionValue:
        """What some nodes gave, with the rows of a level, one after the other."""
        own = self.levels[arguments[0]]
        value, index = united([self.known[arg] for arg in arguments]), self.index(own, level)
        if index is None:
            return value
        key = len(arguments), own, level
        if key not in self._united_rows:
            starts = torch.arange(len(arguments), device=self.device) * self.rows(own)
            self._united_rows[key] = (starts[:, None] + index).reshape(-1)
        return value.take(self._united_rows[key])

    def _compute_one(self, index: int) -> None:
        """One node, for all rows of its level."""
        node, level = self.nodes[index], self.levels[index]
        match node.kind:
            case Kind.INPUT:
                of = self.tasks if level is Level.TASK else self.samples
                column, boxed = encode_argument(of, node.name, self.device)
                self.known[index] = Step(column, None, boxed)
                return
            case Kind.CONSTANT:
                self.known[index] = self.executor.constant(index)
                return
            case Kind.FUNCTION:
                assert node.operation is not None
                operation = node.operation
                if self.executor._propagate:
                    operation = replace(operation, value=operation.function)
                self.known[index] = named_function(operation)
                return
        args = [self.at(arg, level) for arg in node.args]
        if node.kind is Kind.OPERATION and node.operation is not None:
            made = closure(node.operation, args)
            if made is not None:
                self.known[index] = made
                return
            step = self.machine.operation(node.operation, args)
        elif node.kind is Kind.CALL and isinstance(args[0], FunctionValue):
            step = self.machine.call(args[0], args[1:])
            if isinstance(step, FunctionValue):
                if not _fails(step):
                    self.known[index] = step
                    return
                step = self.machine.one_by_one(args[0], args[1:])
        else:
            step = self.machine.operation(operation_of(node), args)
        if step.rows != self.rows(level):  # an operation without any column among its arguments
            step = step.take(torch.zeros(self.rows(level), dtype=torch.int64, device=self.device))
        self._settle(index, step)

    def _settle(self, index: int, step: Step) -> None:
        """Notes what a node gave, and how it failed."""
        self.known[index], failed = self._settled(self.nodes[index], step)
        if failed is not None:
            self.failures[index] = failed

    def _settled(self, node: Node, step: Step) -> tuple[Step, Tensor | None]:
        """What failed with its default, or marked as the end of its programs; and by row how it failed, if it did."""
        if step.failed is None:
            return step, None
        own, ended = both = self.executor.after(node.caught)[:, step.failed.to(torch.int64)]
        fails, ends = both.cpu() != 0
        if not bool(fails.any()):
            return step, None
        result = Step(step.column, ended if bool(ends.any()) else None, step.boxed)
        rows = indices_of(fails & ~ends).to(self.device, non_blocking=True)
        return (self._with_defaults(node, rows, result) if len(rows) else result), own

    def _with_defaults(self, node: Node, rows: Tensor, step: Step) -> Step:
        fallback = node.fallback
        if node.kind is Kind.CALL and fallback is None:
            fallback = node.args[0]
        if fallback is None:
            return step.with_constant(rows, () if node.operation is None else node.operation.default)
        function = self.at(fallback, self.levels_of(node))
        if isinstance(function, FunctionValue) and meaning(function.operation) != "branch":
            return step.with_constant(rows, () if function.parts else default_of(function.operation.value))
        numbers = rows.tolist()
        functions = function.pythons(numbers) if isinstance(function, FunctionValue) else function.decode(numbers)
        return step.placed(numbers, list(map(default_of, functions)), self.device).promoted()

    def levels_of(self, node: Node) -> Level:
        return max((self.levels[parent] for parent in node.parents), default=Level.CONSTANT)


def _fails(function: FunctionValue) -> bool:
    """Whether what a call made of functions fails for a row: then it is that call which fails, and not what uses it."""
    failed = first_failure(function.failed())
    return failed is not None and bool(((failed != 0) & (failed != ENDED)).any())


def _raised_by(kinds: tuple[type[BaseException], ...]) -> list[Exception]:
    """An example of every exception that some kinds of them catch."""
    return [error for error in (*(kind() for kind in _EXCEPTIONS), SizeError()) if isinstance(error, kinds)]
