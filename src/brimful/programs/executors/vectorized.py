"""`batt_vectorized`: what an emitted module's `batt` returns, for many samples at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ...core.memory.devices import resolve
from ..batched.evaluation.executor import Batched, BatchEvaluation
from ..batched.results.outcomes import outcomes_of
from ..execution.arguments import Arguments
from ..execution.failures import ProgramStatus
from ..language.graph import Graph
from ..language.graph_text import graph_of
from ..language.program import Form
from ..vocabulary.choose import named

Returned = tuple[list[Any], list[Any]]
"""The outputs and scores of a sample, as records."""

Vectorized = Callable[..., tuple[list[Returned | None], np.ndarray]]


def vectorized(vocabulary: str, nodes: Sequence[Any], programs: Sequence[Any]) -> Vectorized:
    """The function of a graph that was written as text."""
    return _Vectorized(graph_of(named(vocabulary), nodes, programs))


class _Vectorized:
    """Runs a graph on batches of samples."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._executors: dict[torch.device, Batched] = {}

    def __call__(
        self, inputs: Sequence[Sequence[Any]], device: str | torch.device = "auto", batch_size: int = 1000
    ) -> tuple[list[Returned | None], np.ndarray]:
        """What `batt` returns for every sample, and which outputs are without a failure.

        Args:
            inputs: (task_id, S, I, C) of every sample.
            device: where; "auto" is the first GPU, or the CPU.
            batch_size: how many samples at once.

        Returns:
            Outputs and scores by sample, None where an exception escapes from `batt`; and by sample and output whether
            no operation that the output depends on failed.
        """
        where = resolve(device)
        if where not in self._executors:
            self._executors[where] = Batched(self._graph, device=where)
        executor = self._executors[where]
        samples = [Arguments(*sample) for sample in inputs]
        results, ok = list[Returned | None](), [np.zeros((0, self._count), bool)]
        for start in range(0, len(samples), batch_size):
            part = samples[start : start + batch_size]
            evaluation = executor.evaluate(part)
            became = outcomes_of(self._graph, evaluation)
            values = _Values(evaluation, len(part))
            results += [self._returned(values, row, bool(became.ended[:, row].any())) for row in range(len(part))]
            escaped = np.any(became.ended, axis=0, keepdims=True).T
            ok.append((became.status == int(ProgramStatus.OK)) & ~escaped)
        return results, np.concatenate(ok)

    @property
    def _count(self) -> int:
        return sum(len(program.outputs) for program in self._graph.programs)

    def _returned(self, values: _Values, row: int, ended: bool) -> Returned | None:
        if ended:
            return None
        outputs, scores = list[Any](), list[Any]()
        for number, program in enumerate(self._graph.programs):
            if program.form is Form.SOLVER:
                outputs.append((number, False, program.name, values.at(program.outputs[0][0], row)))
                continue
            outputs += [tuple(values.at(node, row) for node in record) for record in program.outputs]
            scores += [tuple(values.at(node, row) for node in record) for record in program.scores]
        return outputs, scores


class _Values:
    """The values of the nodes that programs return, decoded once."""

    def __init__(self, evaluation: BatchEvaluation, rows: int) -> None:
        self._evaluation, self._rows = evaluation, rows
        self._known: dict[int, dict[int, Any]] = {}

    def at(self, node: int, row: int) -> Any:
        if node not in self._known:
            step = self._evaluation.steps[node]
            rows = list(range(self._rows)) if step.failed is None else (step.failed == 0).nonzero()[:, 0].tolist()
            self._known[node] = dict(zip(rows, step.decode(rows), strict=True))
        return self._known[node][row]
