"""How the operations of programs run in the batched executor, and where its time goes: one row per operation."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import FunctionType
from typing import Any, NamedTuple

import torch

from ..batched import compiled
from ..batched.evaluation.executor import Batched
from ..batched.kernels import kernel_of, meaning
from ..batched.machine import Usage
from ..execution.arguments import SampleArguments
from ..language.graph import Graph
from ..language.operation import Operation
from ..language.program import Kind

_CLOSURES = frozenset({"compose", "chain", "fork", "matcher", "rbind", "lbind", "power"})
_BATCHED = compiled.__name__.rpartition(".")[0]


class Form(Enum):
    """How an operation runs."""

    LOOP = "compiled loop"
    """Over all rows, by loops that numba compiles; in torch on a GPU, and where there is no numba."""
    TORCH = "torch"
    """Over all rows."""
    CLOSURE = "closure"
    """It makes a function: that is known before anything is computed, and what it calls runs over all rows."""
    ROWS = "row by row"
    """In plain Python."""


class OperationUse(NamedTuple):
    """One operation of a run.

    Attributes:
        operation: its name.
        count: how often it is in the merged programs.
        form: how it runs, on a CPU.
        rows: rows that it ran for: samples, and the elements of lists that it was mapped over.
        rows_sequential: those among them that ran one by one.
        seconds: that it took, without the operations that it calls.
        time_share: of the time of all.
        problem: why its batched form was given up; empty where it was not.
    """

    operation: str
    count: int
    form: str
    rows: int
    rows_sequential: int
    seconds: float
    time_share: float
    problem: str

    @property
    def fallback(self) -> str:
        """What does the work of rows that no column holds, or where a kernel cannot be compiled."""
        return _FALLBACK[Form(self.form)]


_FALLBACK = {
    Form.LOOP: "torch; row by row",
    Form.TORCH: "row by row",
    Form.CLOSURE: "row by row, where functions differ from row to row",
    Form.ROWS: "",
}


def form_of(operation: Operation) -> Form:
    """How an operation runs in the batched executor."""
    kernel = operation.batched or kernel_of(operation)
    if meaning(operation) in _CLOSURES:
        return Form.CLOSURE
    if kernel is None:
        return Form.ROWS
    return Form.LOOP if _calls_loops(kernel) else Form.TORCH


def operation_table(graph: Graph, usage: Mapping[str, Usage]) -> list[OperationUse]:
    """The operations of a graph, those that took longest first, then by name."""
    counts = Counter(node.label for node in graph.nodes if node.computed)
    known = {node.label: node.operation for node in graph.nodes if node.kind is Kind.OPERATION}
    called = {node.name: node.operation for node in graph.nodes if node.kind is Kind.FUNCTION}
    whole = sum(used.seconds for used in usage.values()) or 1.0
    rows = list[OperationUse]()
    for name in {*counts, *called, *usage}:
        used, operation = usage.get(name, Usage()), known.get(name) or called.get(name)
        form = (Form.ROWS if operation is None else form_of(operation)).value
        numbers = (used.rows, used.sequential, used.seconds, used.seconds / whole)
        rows.append(OperationUse(name, counts[name], form, *numbers, used.problem))
    return sorted(rows, key=lambda row: (-row.seconds, row.operation))


def csv_of(table: Sequence[OperationUse]) -> str:
    """The table as CSV."""
    out, numbers = io.StringIO(), ("rows", "rows_sequential", "seconds", "time_share")
    writer = csv.DictWriter(out, ["operation", "count", "form", "fallback", *numbers, "problem"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"fallback": row.fallback} | row._asdict() for row in table)
    return out.getvalue()


def _calls_loops(kernel: Callable[..., Any]) -> bool:
    """Whether a kernel, or something that it calls, runs compiled loops: whether it asks if they are usable."""
    seen, waiting = set[int](), [kernel]
    while waiting:
        function = waiting.pop()
        if function is compiled.usable:
            return True
        if id(function) in seen or not isinstance(function, FunctionType):
            continue
        seen.add(id(function))
        names = function.__globals__
        for name in _names(function.__code__):
            value = names.get(name)
            if value is not None and str(getattr(value, "__module__", "")).startswith(_BATCHED):
                waiting.append(value)
            elif str(getattr(value, "__name__", "")).startswith(_BATCHED):  # a module: what is named of it
                waiting += [vars(value)[part] for part in _names(function.__code__) if part in vars(value)]
        waiting += [cell.cell_contents for cell in function.__closure__ or () if callable(cell.cell_contents)]
        waiting += [value for value in function.__defaults__ or () if callable(value)]
    return False


def _names(code: Any) -> set[str]:
    """The names that code uses, with those of the code inside it."""
    return set(code.co_names).union(*(_names(part) for part in code.co_consts if hasattr(part, "co_names")))


def measured_usage(graph: Graph, samples: Sequence[SampleArguments], device: torch.device) -> dict[str, Usage]:
    """Where the time goes on some samples, once everything is compiled."""
    executor = Batched(graph, device=device)
    executor.evaluate(samples[:1])
    executor.machine.usage.clear()
    executor.evaluate(samples)
    return executor.machine.usage
