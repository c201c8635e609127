"""Both executors on the same samples, step by step: the first step at which they differ, if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..batched.evaluation.executor import Batched, BatchEvaluation
from ..batched.machine import ENDED as ENDED_FLAG
from ..execution.arguments import SampleArguments
from ..execution.failures import Category
from ..execution.same_value import same_value
from ..execution.sequential import ENDED, Evaluation, Sequential
from ..language.graph import Graph

_SHOWN = 200  # characters of a value
_AT_ONCE = 64  # samples of which every step is kept


class Difference(NamedTuple):
    """A step that differs: the number of the sample, the node, its operation, and what either executor says."""

    sample: int
    node: int
    operation: str
    sequential: str
    batched: str

    def __str__(self) -> str:
        return f"{self.operation} (node {self.node}) gives {self.sequential} sequentially, and {self.batched} batched"


def first_difference(
    graph: Graph, on_error: str, samples: Sequence[SampleArguments], device: torch.device
) -> Difference | None:
    """The first step, in the order in which they are computed, that is not the same for a sample in both executors: its
    value, whether it failed, with which category, and whether that ended the program. Some samples at a time, since all
    of their steps are kept."""
    executors = Sequential(graph, on_error), Batched(graph, on_error, device)
    for start in range(0, len(samples), _AT_ONCE):
        found = _difference(graph, *executors, samples[start : start + _AT_ONCE])
        if found is not None:
            return found._replace(sample=start + found.sample)
    return None


def _difference(
    graph: Graph, sequential: Sequential, batched: Batched, samples: Sequence[SampleArguments]
) -> Difference | None:
    """The first difference of samples that are compared at once."""
    plain = [sequential.evaluate(sample) for sample in samples]
    evaluation = batched.evaluate(samples, keep=True)
    for node, of in enumerate(graph.nodes):
        values = _values(evaluation, node, len(samples))
        for sample, one in enumerate(plain):
            here, there = _sequential_text(one, node), _batched_text(evaluation, node, sample, values)
            if there is not None and not _same(here, there):
                return Difference(sample, node, of.label or of.kind.value, _readable(here), _readable(there))
    return None


class Described(NamedTuple):
    """How a step ended, whether it has a value, and which."""

    status: str
    there: bool
    value: Any


def _same(one: Described, other: Described) -> bool:
    return one[:2] == other[:2] and same_value(one.value, other.value)


def _values(evaluation: BatchEvaluation, node: int, samples: int) -> dict[int, Any] | None:
    """The values of a node by sample, where it has any; None for a function that is the same for all samples."""
    step = evaluation.steps.get(node)
    if step is None:
        return None
    rows = list(range(samples)) if step.failed is None else (step.failed == 0).nonzero()[:, 0].tolist()
    return dict(zip(rows, step.decode(rows), strict=True))


def _sequential_text(evaluation: Evaluation, node: int) -> Described:
    failure, value = evaluation.failures.get(node), evaluation.values[node]
    status = "" if failure is None else _failed(int(failure.category), failure.escaped)
    return _described(status, value is not ENDED, value)


def _batched_text(
    evaluation: BatchEvaluation, node: int, sample: int, values: dict[int, Any] | None
) -> Described | None:
    if values is None:
        return None
    category = int(evaluation.failed[node, sample])
    status = _failed(category, bool(evaluation.ended[node, sample])) if category else ""
    return _described(status, sample in values, values.get(sample))


def _failed(category: int, ended: bool) -> str:
    name = "an unknown failure" if category == ENDED_FLAG else Category(category).label
    return f"{name}, which ends the program" if ended else f"{name}, and its default"


def _described(status: str, there: bool, value: Any) -> Described:
    return Described(status, there, value if there else "no value")


def _readable(described: Described) -> str:
    text = repr(described.value)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"{shown} after {described.status}" if described.status else shown
