"""How the operations of programs run in the batched executor, and where its time goes: one row per operation."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ...core.base.arguments import as_count
from ...core.base.errors import InputError
from ...core.base.formatting import format_table
from ..batched.evaluation.executor import Batched
from ..batched.machine import Usage
from ..data.read import read_tasks
from ..data.tasks import as_samples, samples_of
from ..execution.arguments import Arguments, SampleArguments
from ..language.graph import Graph
from ..language.program import Kind
from .operation_forms import Form, Forms, forms_of


class OperationUse(NamedTuple):
    """One operation of a run.

    Attributes:
        operation: its name.
        count: how often it is in the merged programs.
        form: how it runs on a CPU.
        gpu_form: how it runs on a GPU.
        rows: rows that it ran for: samples, and the elements of lists that it was mapped over.
        rows_sequential: those among them that ran one by one.
        seconds: that it took, without the operations that it calls.
        time_share: of the time of all.
        problem: why its batched form was given up; empty where it was not.
    """

    operation: str
    count: int
    form: str
    gpu_form: str
    rows: int
    rows_sequential: int
    seconds: float
    time_share: float
    problem: str

    @property
    def fallback(self) -> str:
        """What takes over where it cannot run so, and for rows that no column holds."""
        return Forms(Form(self.form), Form(self.gpu_form)).fallback


def operation_table(graph: Graph, usage: Mapping[str, Usage]) -> list[OperationUse]:
    """The operations of a graph, those that took longest first, then by name."""
    counts = Counter(node.label for node in graph.nodes if node.computed)
    known = {node.label: node.operation for node in graph.nodes if node.kind is Kind.OPERATION}
    called = {node.name: node.operation for node in graph.nodes if node.kind is Kind.FUNCTION}
    whole = sum(used.seconds for used in usage.values()) or 1.0
    rows = list[OperationUse]()
    for name in {*counts, *called, *usage}:
        used, operation = usage.get(name, Usage()), known.get(name) or called.get(name)
        forms = Forms(Form.ROWS, Form.ROWS) if operation is None else forms_of(operation)
        numbers = (used.rows, used.sequential, used.seconds, used.seconds / whole)
        rows.append(OperationUse(name, counts[name], forms.cpu.value, forms.gpu.value, *numbers, used.problem))
    return sorted(rows, key=lambda row: (-row.seconds, row.operation))


def csv_of(table: Sequence[OperationUse]) -> str:
    """The table as CSV."""
    out, numbers = io.StringIO(), ("rows", "rows_sequential", "seconds", "time_share")
    names = ["operation", "count", "form", "gpu_form", "fallback", *numbers, "problem"]
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({"fallback": row.fallback} | row._asdict() for row in table)
    return out.getvalue()


def plan_rows(table: Sequence[OperationUse]) -> list[dict[str, Any]]:
    """How operations run, as rows with names; the share of the time is None where nothing was measured."""
    measured = any(row.rows for row in table)
    return [
        {
            "operation": row.operation,
            "count": row.count,
            "cpu": row.form,
            "gpu": row.gpu_form,
            "fallback": row.fallback,
            "time_share": row.time_share if measured else None,
        }
        for row in table
    ]


def plan_text(table: Sequence[OperationUse], measured: str = "") -> str:
    """The same as text."""
    rows = [["" if value is None else str(value) for value in row.values()] for row in plan_rows(table)]
    for row, of in zip(rows, table, strict=True):
        row[-1] = f"{of.time_share:.1%}" if row[-1] else ""
    header = ["operation", "count", "on a CPU", "on a GPU", "where that cannot be", "time"]
    kept = len(header) if any(row[-1] for row in rows) else -1
    text = format_table([row[:kept] for row in rows], header=header[:kept])
    return f"How operations run in `batt_vectorized`{measured}:\n\n{text}\n"


def measured_usage(graph: Graph, samples: Sequence[SampleArguments], device: torch.device) -> dict[str, Usage]:
    """Where the time goes on some samples, once everything is compiled."""
    executor = Batched(graph, device=device)
    executor.evaluate(samples[:1])
    executor.machine.usage.clear()
    executor.evaluate(samples)
    return executor.machine.usage


def random_samples(given: str | Path | Sequence[Any], split: str, count: int, seed: int) -> list[SampleArguments]:
    """Random samples to measure on: of a dataset, a folder or file of tasks, or of what `run` takes besides.

    Raises:
        InputError: none of them can be run.
    """
    named = isinstance(given, str | Path)
    every = samples_of(read_tasks(given, split)) if named else as_samples(given)
    usable = [of for of in every if of.problem is None]
    if not usable:
        where = f"no pair of the split {split!r} in {given}" if named else "none of the samples"
        raise InputError(f"{where} can be read: nothing to measure on")
    chosen = random.Random(seed).sample(usable, min(as_count(count, "count"), len(usable)))
    return [Arguments(of.task, of.S, of.I, of.C) for of in chosen]
