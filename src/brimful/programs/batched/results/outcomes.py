"""What became of every candidate output in a batch, from the failures of all nodes.

Legend: N samples, K candidate outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...execution.arguments import SampleArguments
from ...execution.failures import ProgramStatus
from ...language.graph import Graph
from ...language.program import ancestors
from ..columns import Column, Grids
from ..evaluation.arguments import encode_argument
from ..evaluation.executor import BatchEvaluation
from ..evaluation.side_by_side import numbers_in
from ..flags import Step
from ..operations.scalars import equal as equal_rows


@dataclass(frozen=True, slots=True)
class BatchOutcomes:
    """By sample and candidate: status, first failing step, its category; and by program and sample whether it ended."""

    status: np.ndarray
    step: np.ndarray
    category: np.ndarray
    ended: np.ndarray


def outcomes_of(graph: Graph, evaluation: BatchEvaluation) -> BatchOutcomes:
    """What `Sequential.outcomes` says of one sample, for all samples of a batch."""
    samples = evaluation.failed.shape[1]
    count = sum(len(program.outputs) for program in graph.programs)
    status, category = (np.zeros((samples, count), np.int8) for _ in range(2))
    step = np.full((samples, count), -1, np.int32)
    ended = np.zeros((len(graph.programs), samples), bool)
    own, column = (evaluation.failed != 0) & ~evaluation.ended, 0
    for number, program in enumerate(graph.programs):
        step_of = np.zeros(len(graph.nodes), np.int32)
        step_of[list(program.steps)] = list(program.steps.values())
        order = sorted(program.steps, key=program.steps.__getitem__)
        ends = _first(evaluation.ended, order)
        ended[number] = ends >= 0
        for record in program.outputs:
            needed = sorted(ancestors(graph.nodes, record), key=program.steps.__getitem__)
            first = _first(own, needed)
            first = np.where(ends >= 0, ends, first)
            hit = np.flatnonzero(first >= 0)
            nodes = first[hit]
            status[hit, column] = np.where(ends[hit] >= 0, int(ProgramStatus.FAILED), int(ProgramStatus.DEFAULTED))
            step[hit, column] = step_of[nodes]
            category[hit, column] = evaluation.failed[nodes, hit]
            column += 1
    return BatchOutcomes(status, step, category, ended)


def _first(flags: np.ndarray, nodes: list[int]) -> np.ndarray:
    """The first of some nodes that has a flag, for every sample; -1 where none has."""
    if not nodes:
        return np.full(flags.shape[1], -1)
    of = flags[nodes]
    return np.where(of.any(axis=0), np.array(nodes)[of.argmax(axis=0)], -1)


@dataclass(frozen=True, slots=True)
class Targets:
    """What the outputs of all samples should be, as a column of grids.

    Attributes:
        known: (N,) for which samples that is known.
    """

    step: Step
    known: np.ndarray
    _samples: Sequence[SampleArguments]

    @classmethod
    def of(cls, samples: Sequence[SampleArguments], device: torch.device) -> Targets:
        """The targets of all samples."""
        column, boxed = encode_argument(samples, "C", device, "grid")
        assert isinstance(column, Grids)
        known = column.height.numpy(force=True) > 0
        known[list(boxed)] = True
        return cls(Step(column, None, boxed), known, samples)

    @property
    def numbers(self) -> int:
        """Those of all of them."""
        return numbers_in(self.step)

    def repeated(self, times: int) -> Targets:
        """The same so many times, one after the other."""
        if times == 1:
            return self
        index = torch.arange(len(self.known), device=self.step.column.device).repeat(times)
        return Targets(self.step.take(index), np.tile(self.known, times), list(self._samples) * times)

    def value(self, sample: int) -> object:
        """The target of a sample as Python has it."""
        return self._samples[sample].C


def equal_to(step: Step, targets: Targets) -> np.ndarray:
    """Which samples' values are their targets."""
    alive = np.ones(step.rows, bool) if step.failed is None else step.failed.numpy(force=True) == 0
    flags = np.zeros(step.rows, bool)
    parts = [(part.rows.numpy(force=True), part) for part in step.boxed.parts]
    held = alive.copy()  # by the column itself
    for rows, _ in parts:
        held[rows] = False
    _mark_equal(flags, np.flatnonzero(held), step.column, None, targets)
    for rows, part in parts:
        _mark_equal(flags, rows[alive[rows]], part.column, part.rows, targets)
    return flags


def _mark_equal(
    flags: np.ndarray, wanted: np.ndarray, column: Column, rows: torch.Tensor | None, targets: Targets
) -> None:
    """Marks the samples that are wanted and whose values in a column are their targets.

    Args:
        rows: the samples that the column is of; None for all.
    """
    if not len(wanted):
        return
    known = targets.step.column
    same = equal_rows(column, known if rows is None else known.take(rows))
    place = wanted if rows is None else np.searchsorted(rows.numpy(force=True), wanted)
    single = np.ones(len(wanted), bool)  # those that are compared as Python values
    if same is not None:
        flags[wanted] = same.numpy(force=True)[place]
        single = np.isin(wanted, list(targets.step.boxed)) if targets.step.boxed else np.zeros(len(wanted), bool)
    values = Step(column).decode(place[single].tolist())
    for sample, value in zip(wanted[single].tolist(), values, strict=True):
        flags[sample] = value == targets.value(sample)
