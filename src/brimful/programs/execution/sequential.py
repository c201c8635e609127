"""The sequential executor: one sample after the other, one operation after the other, in plain Python. It is the
meaning of a program; every other executor must agree with it."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...core.base.errors import ConfigError
from ..language.graph import Graph, GraphProgram, Level
from ..language.operation import default_of
from ..language.program import Kind, Node, ancestors
from ..vocabulary import bound
from .arguments import SampleArguments
from .failures import Category, Failure, ProgramStatus

ON_ERROR = ("default", "propagate")


class _Ended:
    """The value of a node that ended its programs, and of all that depend on it."""

    def __repr__(self) -> str:
        return "no value: an operation before it failed"


ENDED: Any = _Ended()


class _Step(NamedTuple):
    """One node, ready to be computed."""

    node: int
    function: Callable[..., Any]
    args: tuple[int, ...]
    default: Any
    fallback: int | None
    catches: tuple[type[Exception], ...]


@dataclass(slots=True)
class Evaluation:
    """All nodes of a graph for one sample.

    Attributes:
        values: by node; `ENDED` where an operation before it ended the program.
        failures: by node, in the order in which they happened.
    """

    values: list[Any]
    failures: dict[int, Failure] = field(default_factory=dict)

    def copy(self) -> Evaluation:
        return Evaluation(self.values.copy(), self.failures.copy())

    def records(self, records: Sequence[tuple[int, ...]]) -> list[tuple[Any, ...]]:
        """The values of some records of nodes."""
        return [tuple(self.values[node] for node in record) for record in records]


class Outcome(NamedTuple):
    """What became of one candidate output of a program: its status, the first step of the program that failed (-1 where
    none did), and how."""

    status: ProgramStatus
    step: int
    category: Category


_FINE = Outcome(ProgramStatus.OK, -1, Category.NONE)


class Sequential:
    """Runs a graph on one sample after the other.

    Args:
        graph: what to run.
        on_error: "default": an operation that fails yields its safe default, and the program goes on; where the source
            lists exceptions, only those do, and others end the program. "propagate": the first failure ends the program
            for that sample.
    """

    def __init__(self, graph: Graph, on_error: str = "default") -> None:
        if on_error not in ON_ERROR:
            raise ConfigError(f"on_error is {on_error!r}; choose one of {', '.join(ON_ERROR)}")
        self.graph, self._propagate = graph, on_error == "propagate"
        self._inputs = [(index, node.name) for index, node in enumerate(graph.nodes) if node.kind is Kind.INPUT]
        self._steps: dict[Level, list[_Step]] = {level: [] for level in Level}
        self._constants = Evaluation([None] * len(graph.nodes))
        for index, (node, level) in enumerate(zip(graph.nodes, graph.levels, strict=True)):
            if node.computed:
                self._steps[level].append(self._step(index, node))
            elif node.kind is not Kind.INPUT:
                self._constants.values[index] = self._constant(node)
        self._compute(Level.CONSTANT, self._constants)
        self._task: tuple[str, Any, Evaluation] | None = None
        self._candidates: list[list[int]] = [[] for _ in graph.nodes]  # those that depend on a node
        self._programs: list[list[int]] = [[] for _ in graph.nodes]  # those of the programs that compute it
        self._steps_of: list[dict[int, int]] = []
        for program in graph.programs:
            numbers = range(len(self._steps_of), len(self._steps_of) + len(program.outputs))
            for number, record in zip(numbers, program.outputs, strict=True):
                for node in ancestors(graph.nodes, record):
                    self._candidates[node].append(number)
            for node in program.steps:
                self._programs[node] += numbers
            self._steps_of += [program.steps] * len(program.outputs)

    def _constant(self, node: Node) -> Any:
        if node.operation is None:
            return node.value
        return node.operation.function if self._propagate else node.operation.value

    def _step(self, index: int, node: Node) -> _Step:
        names = () if self._propagate else sorted(node.caught)
        catches: tuple[type[Exception], ...] = tuple(getattr(builtins, name) for name in names)
        match node.kind:
            case Kind.ITEM:
                at, count = node.value
                return _Step(index, functools.partial(unpacked, index=at, count=count), node.args, (), None, catches)
            case Kind.CALL:
                fallback = node.args[0] if node.fallback is None else node.fallback
                return _Step(index, _call, node.args, (), fallback, catches)
        assert node.operation is not None
        return _Step(index, node.operation.function, node.args, node.operation.default, node.fallback, catches)

    def evaluate(self, arguments: SampleArguments) -> Evaluation:
        """Computes all nodes for one sample. Those that depend on its task alone are kept for the next sample."""
        task = self._of_task(arguments).copy()
        for node, name in self._inputs:
            task.values[node] = getattr(arguments, name)
        self._compute(Level.SAMPLE, task)
        return task

    def _of_task(self, arguments: SampleArguments) -> Evaluation:
        if self._task is None or self._task[0] != arguments.task_id or self._task[1] is not arguments.S:
            task = self._constants.copy()
            for node, name in self._inputs:
                task.values[node] = getattr(arguments, name)
            self._compute(Level.TASK, task)
            self._task = arguments.task_id, arguments.S, task
        return self._task[2]

    def _compute(self, level: Level, evaluation: Evaluation) -> None:
        values, failures = evaluation.values, evaluation.failures
        ended = any(failure.escaped for failure in failures.values())
        for node, function, args, default, fallback, catches in self._steps[level]:
            given = [values[arg] for arg in args]
            if ended and any(value is ENDED for value in given):
                values[node] = ENDED
                continue
            bound.begin()
            try:
                values[node] = function(*given)
            except MemoryError:
                raise
            except Exception as error:
                escaped = not isinstance(error, catches)
                failures[node] = Failure(node, error.with_traceback(None), escaped)
                if escaped:
                    values[node], ended = ENDED, True
                else:
                    values[node] = default if fallback is None else default_of(values[fallback])
        bound.end()

    def outcomes(self, evaluation: Evaluation) -> list[Outcome]:
        """What became of each candidate output, program by program.

        A failure that yields a default concerns the candidates that depend on it; one that ends a program, all of them.
        """
        first = [_FINE] * len(self._steps_of)
        for node, failure in evaluation.failures.items():
            status = ProgramStatus.FAILED if failure.escaped else ProgramStatus.DEFAULTED
            for number in (self._programs if failure.escaped else self._candidates)[node]:
                step, known = self._steps_of[number][node], first[number]
                if status > known.status or (status == known.status and step < known.step):
                    first[number] = Outcome(status, step, failure.category)
        return first

    def result(self, evaluation: Evaluation, program: GraphProgram) -> tuple[list[Any], list[Any]]:
        """What a program returns for a sample: outputs and scores, as records.

        Raises:
            Exception: what ended it, if something did.
        """
        for node in program.steps:
            if (failure := evaluation.failures.get(node)) is not None and failure.escaped:
                raise failure.error
        return evaluation.records(program.outputs), evaluation.records(program.scores)


def _call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def unpacked(whole: Any, index: int, count: int) -> Any:
    """One part of a tuple, as Python unpacks it."""
    parts = tuple(whole)
    if len(parts) != count:
        raise ValueError(f"{len(parts)} values to unpack; expected {count}")
    return parts[index]
